"""The norm clip: no sample is longer than declared, in integers, however it is computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safle import LinearEncoder, count, declared_range
from safle.encoders.codes import Layout
from safle.encoders.operations import NumpyOperations
from safle.errors import InvariantError, SettingsError
from support.reference import shortened

WIDE = st.integers(-32_767, 32_767)


@settings(max_examples=25)
@given(st.lists(WIDE, min_size=1, max_size=40), st.integers(1, 1 << 20), st.integers(1, 400))
def test_every_way_shortens_alike_and_to_at_most_the_norm(codes, longest, repeats):
    codes = codes * repeats
    expected = shortened(codes, longest)
    made = NumpyOperations().shorten(np.array([codes], np.float64), longest)
    assert made[0].astype(np.int64).tolist() == expected
    assert sum(code * code for code in expected) <= longest**2
    if sum(code * code for code in codes) <= longest**2:
        assert expected == codes


def test_the_clip_is_part_of_the_encoder_and_of_its_layout():
    calibration = declared_range(0, 1, feature_dim=3)
    plain, clipped = (LinearEncoder.calibrated(calibration, norm_clip=b) for b in (0, 2))
    assert plain.fingerprint != clipped.fingerprint
    assert [block.norm for block in plain.layout.blocks] == [0, 0]
    assert [block.norm for block in clipped.layout.blocks] == [512, 0]
    assert Layout.from_json(clipped.layout.to_json()) == clipped.layout


@pytest.mark.parametrize(("place", "norm"), [(0, -1), (0, 1.5), (0, [1]), (0, 2**33), (1, 9)])
def test_impossible_norms_are_refused(place, norm):
    layout = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=2)).layout.to_json()
    layout[place]["norm"] = norm
    with pytest.raises(SettingsError, match="norm"):
        Layout.from_json(layout)


def test_samples_that_were_not_clipped_show_in_their_squares():
    calibration = declared_range(0, 1, feature_dim=2)
    clipped, plain = (LinearEncoder.calibrated(calibration, norm_clip=b) for b in (1, 0))
    features, labels = [[0.0, 1.0], [1.0, 0.0]], ["a", "b"]
    count(clipped, features, labels).verify()
    lie = replace(count(plain, features, labels), space=clipped.space)
    with pytest.raises(InvariantError, match="clipped at 256"):
        lie.verify()
