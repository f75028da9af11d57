"""Statistics survive the wire; one value has one encoding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from safle import Accumulator, count, decode, encode, peek_file_type, read
from safle.errors import EncoderMismatch, WireError
from safle.statistics.histogram import Histogram
from safle.wire.planes import count_planes, from_planes, to_planes
from support.data_sets import KINDS, data_sets, fixed_data, repeated


@given(data=st.data())
def test_decoding_gives_back_the_same_statistics(data):
    statistics = data.draw(data_sets()).count()
    encoded = encode(statistics)
    decoded = decode(encoded, space=statistics.space)
    assert decoded == statistics
    assert decoded.layout == statistics.layout
    assert decoded.gram.packed.dtype == statistics.gram.packed.dtype
    assert encode(decoded) == encoded
    decoded.verify()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("samples", [0, 1, 2, 3_000])
def test_every_size_of_client_survives(kind, samples):
    data = fixed_data(kind, samples, feature_dim=20)
    encoded = encode(data.count())
    assert decode(encoded) == data.count()
    assert samples or len(encoded) < 1_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", [2, 300, 70_000, 10**7, None])
def test_large_counts_survive(kind, times):
    """None: as many samples as the integers can count."""
    data = fixed_data(kind)
    for statistics in (data.count(), data.part(slice(0, 1)).count(), data.part(slice(5)).count()):
        most = statistics.layout.most_samples // statistics.sample_count
        large = repeated(statistics, times or most)
        large.verify()
        encoded = encode(large)
        assert decode(encoded) == large
        assert encode(decode(encoded)) == encoded


@pytest.mark.parametrize(
    "names",
    [
        ["", "a", "ß", "漢字", "🙂", 'quo"te', "back\\slash", "new\nline", "a\0b", "\x7f"],
        [-(2**63), -1, 0, 1, 2**63 - 1],
        [5],
        ["only"],
    ],
)
def test_class_names_survive(names):
    data = fixed_data()
    labels = np.array(names)[np.arange(len(data)) % len(names)]
    statistics = count(data.encoder, data.features, labels)
    decoded = decode(encode(statistics))
    assert decoded.class_names == tuple(sorted(names))
    assert [type(name) for name in decoded.class_names] == [type(name) for name in sorted(names)]


def test_a_file_says_what_it_is(tmp_path):
    statistics = encode(fixed_data().count())
    histogram = encode(Histogram.empty(0, 1, 2).count(np.zeros((2, 2))))
    for name, content, file_type in (
        ("s", statistics, "statistics"),
        ("h", histogram, "histogram"),
        ("short", statistics[:20], None),
        ("empty", b"", None),
        ("text", b"a,b\n" * 30, None),
    ):
        (tmp_path / name).write_bytes(content)
        assert peek_file_type(tmp_path / name) == file_type
    with pytest.raises(WireError, match="histogram file"):
        decode(histogram)
    with pytest.raises(WireError, match="statistics file"):
        decode(statistics, Histogram)


def test_another_encoders_statistics_are_refused_naming_both():
    statistics = fixed_data().count()
    other = Accumulator(replace(statistics.space, fingerprint="ab" * 32))
    with pytest.raises(EncoderMismatch) as error:
        decode(encode(statistics), space=other.space)
    assert statistics.fingerprint[:12] in str(error.value)
    assert "abababababab" in str(error.value)


def test_the_limit_holds_for_the_file_its_content_and_its_gram(tmp_path):
    statistics = fixed_data("table", samples=300, feature_dim=20).count()
    encoded = encode(statistics)
    gram_bytes = statistics.gram.packed.nbytes
    assert len(encoded) < gram_bytes
    for limit in (1, len(encoded) - 1, len(encoded) + 10, gram_bytes - 1):
        with pytest.raises(WireError, match="limit"):
            decode(encoded, limit=limit)
    (tmp_path / "file").write_bytes(encoded)
    with pytest.raises(WireError, match="limit"):
        read(tmp_path / "file", limit=len(encoded) - 1)
    assert decode(encoded, limit=50 * gram_bytes) == statistics


INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)


@given(values=arrays(np.int64, st.integers(0, 20), elements=INT64))
def test_planes_hold_every_integer_in_the_fewest_bytes(values):
    planes = count_planes(values)
    encoded = to_planes(values, planes)
    assert np.array_equal(from_planes(encoded, planes, values.shape), values)
    unsigned = [2 * v if v >= 0 else -2 * v - 1 for v in values.tolist()]
    assert planes == max([1, *((u.bit_length() + 7) // 8 for u in unsigned)])
    assert encoded == bytes(u >> 8 * p & 255 for p in range(planes) for u in unsigned)
