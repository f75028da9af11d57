"""Files of noisy statistics: read back as they were, and refused where they lie."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from safle import (
    DeclaredRange,
    LinearEncoder,
    Model,
    Statistics,
    count,
    solve,
)
from safle.errors import EncoderMismatch, InvalidInput, SafleError, WireError
from safle.publishing.noise import plan_noise, publish
from safle.server.store import Contribution, Store
from safle.statistics.free_sums import FreeSums
from safle.wire import container, decode_noisy, decode_statistics, encode_noisy, encode_statistics
from support.data_sets import KINDS, publishable_encoder

CALIBRATION = DeclaredRange(-2, 2, feature_dim=3)


def draw(size, scale):
    return np.rint(np.random.default_rng(size).normal(0, scale, size)).astype(np.int64)


@pytest.fixture(scope="module", params=KINDS)
def published(request):
    encoder = publishable_encoder(request.param, CALIBRATION)
    total = count(encoder, np.random.default_rng(0).standard_normal((50, 3)), [0, 1] * 25)
    plan = plan_noise(encoder.layout, 2, 1e-5, calibration="public")
    return encoder, total, publish(total, plan, [0, 1, 2], draw=draw)


def resealed(data, change):
    """The file with its header or sections changed, and digest and checksum made again."""
    opened = container.from_bytes(data, kind=container.NOISY)
    sections = {name: opened.section(name, raw) for name, (_, raw) in opened.frames.items()}
    change(opened.header, sections)
    return container.to_bytes(container.NOISY, opened.header, sections)


def test_files_hold_all_of_it(published):
    encoder, _, noisy = published
    data = encode_noisy(noisy)
    assert decode_noisy(data, space=encoder.space) == noisy
    assert encode_noisy(decode_noisy(data)) == data
    assert decode_noisy(data).privacy.calibration == "public"
    read, kept = (Model(encoder, solve(value)) for value in (decode_noisy(data), noisy))
    assert read.digest == kept.digest


def test_noisy_statistics_are_not_taken_for_others(published, tmp_path):
    encoder, total, noisy = published
    with pytest.raises(WireError, match="noisy statistics file; expected statistics"):
        decode_statistics(encode_noisy(noisy))
    with pytest.raises(WireError, match="statistics file; expected noisy statistics"):
        decode_noisy(encode_statistics(total))
    with Store.create(tmp_path / "store", encoder) as store:
        with pytest.raises(WireError, match="noisy"):
            store.add(Contribution("a", encode_noisy(noisy)))
        assert not store.members
    other = LinearEncoder.publishable(CALIBRATION, norm_clip=2)
    with pytest.raises(EncoderMismatch):
        decode_noisy(encode_noisy(noisy), space=other.space)


def test_another_promise_is_another_digest(published):
    _, _, noisy = published
    data = encode_noisy(noisy)
    forged = resealed(data, lambda header, _: header["privacy"].update(epsilon=0.5))
    assert container.declared_digest(forged) != container.declared_digest(data)


LIES = {
    "no promise": lambda header, _: header.pop("privacy"),
    "a promise of nothing": lambda header, _: header.update(privacy={}),
    "epsilon": lambda header, _: header["privacy"].update(epsilon=-1.0),
    "epsilon that is no number": lambda header, _: header["privacy"].update(epsilon="1"),
    "epsilon of another type": lambda header, _: header["privacy"].update(epsilon=1),
    "delta": lambda header, _: header["privacy"].update(delta=1.5),
    "releases": lambda header, _: header["privacy"].update(releases=0),
    "total": lambda header, _: header["privacy"].update(total_epsilon=0.01),
    "calibration": lambda header, _: header["privacy"].update(calibration="histogram"),
    "mechanism": lambda header, _: header["privacy"].update(mechanism="none"),
    "more in it": lambda header, _: header["privacy"].update(more=1),
    "no classes": lambda header, _: header.update(classes=[]),
    "classes": lambda header, _: header.update(classes=[1, 0, 2]),
    "more classes": lambda header, _: header.update(classes=[0, 1, 2, 3]),
    "planes": lambda header, _: header["planes"].update(cross=9),
    "classes of no samples": lambda header, sections: (
        header["planes"].update(counts=1),
        sections.update(counts=bytes(3)),
    ),
    "sizes": lambda _, sections: sections.update(counts=sections["counts"] + b"0"),
    "a section": lambda _, sections: sections.pop("products"),
    "another section": lambda _, sections: sections.update(more=b""),
    "a layout": lambda header, _: header["layout"].update(norms=[[0, 99, 1]]),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refused(published, lie):
    with pytest.raises(WireError):
        decode_noisy(resealed(encode_noisy(published[2]), LIES[lie]))


NUMBERS = ("epsilon", "delta", "rho", "gram", "cross", "counts", "releases", "total_epsilon")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [1e308, 1e200, 1e22, 5e-324, 10**18, 10**400, True])
def test_whatever_the_numbers_of_a_promise_are_errors_are_ours(published, name, value):
    """Noise of scale 1e308 once ended in OverflowError, when its ridge was worked out."""
    encoder, _, noisy = published
    data = resealed(encode_noisy(noisy), lambda header, _: header["privacy"].update({name: value}))
    with suppress(SafleError):
        read = decode_noisy(data)
        assert encode_noisy(read) == data
        Model(encoder, solve(read)).to_bytes()


def test_sums_that_would_wrap_are_refused(published):
    encoder, _, noisy = published
    free = FreeSums(encoder.layout, 3)
    for name in ("counts", "cross", "products"):
        huge = noisy.released.copy()
        huge[getattr(free, name)] = np.iinfo(np.int64).min
        with pytest.raises(SafleError, match="at most"):
            type(noisy).of(encoder, (0, 1, 2), huge, noisy.privacy)


def test_a_layout_too_large_to_unfold_is_refused_first():
    encoder = LinearEncoder.publishable(DeclaredRange(0, 1, feature_dim=300))
    plan = plan_noise(encoder.layout, 1, 1e-5)
    data = encode_noisy(publish(Statistics.empty(encoder.space), plan, ["a"], draw=draw))
    assert decode_noisy(data, limit=10**7).dim == 301
    with pytest.raises(WireError, match=r"301 rows takes 1.5 MB; the limit is 1.0 MB"):
        decode_noisy(data, limit=10**6)


def test_a_model_whose_promise_is_none_is_refused(published):
    encoder, _, noisy = published
    model = Model(encoder, solve(noisy))
    assert b"epsilon" in model.to_bytes()
    model.privacy = replace(model.privacy, releases=2, total_epsilon=3.0)
    assert Model.from_bytes(model.to_bytes()).privacy.promise.endswith("all 2 releases")
    broken = model.to_bytes().replace(b"total_epsilon", b"total_epsilom")
    with pytest.raises(WireError, match="privacy"):
        Model.from_bytes(broken)


def test_impossible_settings_of_a_release_are_refused(published):
    with pytest.raises((InvalidInput, SafleError), match="epsilon"):
        replace(published[2].privacy, epsilon=float("nan"))
