"""The memory that is checked is the memory that is taken, and lies take none."""

from __future__ import annotations

import numpy as np
import pytest

from safle import Accumulator, Statistics, count, decode, encode, make_encoder
from safle.errors import EncoderMismatch, WireError
from safle.wire import container
from safle.wire.grams import class_bytes, has_few_samples, held_bytes, working_bytes
from safle.wire.statistics import FORMAT, bytes_of_gram, bytes_of_margins
from support.data_sets import KINDS, fixed_calibration, fixed_data, fixed_encoder, suiting_features
from support.forging import Forgery, at_most, peak_of

pytestmark = pytest.mark.slow

MILLION = 1_000_000


def peak_of_second(read):
    """What reading takes once everything is imported."""
    read()
    return peak_of(read)


def said_of(statistics, data):
    """What a reader checks before it begins."""
    opened = container.from_bytes(data, file_type=container.STATISTICS)
    sizes = len(statistics.codes), len(statistics.class_names), opened.raw_bytes
    return bytes_of_margins(statistics.layout, *sizes) + said_of_gram(statistics, opened)


def said_of_gram(statistics, opened):
    sizes = len(statistics.codes), len(statistics.class_names)
    said = bytes_of_gram(statistics.layout, *sizes, form=opened.header["form"])
    return said + (working_bytes(statistics) if has_few_samples(statistics) else 0)


@pytest.mark.parametrize("repeats", [1, 40])
@pytest.mark.parametrize("samples", [40, 240, 920])
@pytest.mark.parametrize("kind", KINDS)
def test_reading_takes_what_was_checked_and_not_more(kind, samples, repeats):
    encoder = make_encoder(fixed_calibration(100), kind)
    features = suiting_features(100, samples // repeats, np.random.default_rng(0))
    statistics = count(encoder, np.repeat(features, repeats, axis=0), np.arange(samples) % 7)
    data = encode(statistics)
    peak = peak_of_second(lambda: decode(data, space=encoder.space))
    # Kernels and LAPACK work in arrays of ours; a few small ones come on top.
    assert peak <= said_of(statistics, data) + MILLION / 2
    assert said_of(statistics, data) <= 4 * peak + 2**24


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_gram_of_few_samples_is_refused_within_what_was_checked(kind, monkeypatch):
    encoder = make_encoder(fixed_calibration(100), kind)
    features = suiting_features(100, 40, np.random.default_rng(0))
    statistics = count(encoder, features, np.arange(40) % 7)
    with monkeypatch.context() as patch:
        patch.setattr("safle.wire.grams.choose", lambda *_: None)
        data = encode(statistics)

    def read():
        with pytest.raises(WireError, match="expected form 'columns'"):
            decode(data, space=encoder.space)

    assert b'"form":"whole"' in data
    assert peak_of_second(read) <= said_of(statistics, data) + MILLION


@pytest.mark.parametrize("kind", KINDS)
def test_wire_refuses_memory_beyond_the_limit_first(kind):
    encoder = make_encoder(fixed_calibration(100), kind)
    for samples in (40, 920):
        features = suiting_features(100, samples, np.random.default_rng(0))
        statistics = count(encoder, features, np.arange(samples) % 7)
        data = encode(statistics)
        said = said_of(statistics, data)
        assert decode(data, limit=said) == statistics
        with at_most(said // 2 + MILLION), pytest.raises(WireError, match="the limit is"):
            decode(data, limit=said - 1)


@pytest.mark.parametrize("samples", [60, 900])
def test_grams_of_classes_take_what_was_checked_and_not_more(samples, monkeypatch):
    encoder = make_encoder(fixed_calibration(100), "linear", by_class=True)
    features = suiting_features(100, samples, np.random.default_rng(0))
    statistics = count(encoder, features, np.arange(samples) % 60)
    data, checked, held = encode(statistics), [], []

    def note(parts, values):
        checked.append(class_bytes(parts, values))
        return checked[-1]

    def note_held(margins, columns):
        held.append(held_bytes(margins, columns))
        return held[-1]

    def read(limit=None):
        found, _ = FORMAT.open(data, like=Statistics.empty(encoder.space), limit=limit)
        Accumulator(encoder).add(found)

    monkeypatch.setattr("safle.wire.grams.class_bytes", note)
    monkeypatch.setattr("safle.wire.grams.held_bytes", note_held)
    # What one class at a time may take is most of it here: the rest is what adds up.
    working = max(map(working_bytes, statistics.by_class))
    assert peak_of_second(read) <= checked[0] - working + 2 * MILLION
    # The grams of classes are read before the whole one, and held beside it.
    opened = container.from_bytes(data, file_type=container.STATISTICS)
    later = sum(held[: len(statistics.class_names)])
    both = said_of(statistics, data) + max(checked[0] - said_of_gram(statistics, opened), later)
    read(both)
    with at_most(2 * MILLION), pytest.raises(WireError, match="the limit is"):
        read(both - 1)


def test_layouts_are_compared_before_anything_is_decompressed(monkeypatch):
    forged = Forgery.of(encode(fixed_data("linear").count()))
    forged.header["layout"][0]["low"] += 1

    def decompress(*_arguments):
        raise AssertionError("a section was decompressed")

    monkeypatch.setattr("zstandard.ZstdDecompressor", decompress)
    with at_most(MILLION), pytest.raises(EncoderMismatch, match="another layout"):
        decode(forged.to_bytes(), space=fixed_encoder("linear").space)


def test_a_header_of_16_megabytes_is_not_read():
    forged = Forgery.of(encode(fixed_data("linear").count()))
    forged.header["classes"] = ["x" * 15 + str(number) for number in range(800_000)]
    data = forged.to_bytes()
    assert len(data) > 16 * MILLION
    with at_most(MILLION), pytest.raises(WireError, match="header claims"):
        decode(data)


def test_the_largest_header_is_read_in_little_memory():
    forged = Forgery.of(encode(fixed_data("linear").count()))
    for lie in ([[]] * 300_000, [*range(150_000)], {str(n): n for n in range(70_000)}):
        forged.header["classes"] = lie
        data = forged.to_bytes()
        assert 900_000 < len(data) < 1_100_000
        with at_most(80 * MILLION), pytest.raises(WireError):
            decode(data)
