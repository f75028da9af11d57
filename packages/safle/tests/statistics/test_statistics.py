"""Statistics as values: immutable, comparable, and of a size that depends on D only."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from safle import Accumulator, count, encode, sum_statistics
from safle.errors import InvalidInput, InvariantError, NotEnoughMemory
from support.data_sets import KINDS, TABLE_KINDS, fixed_data
from support.forging import peak_of


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_cannot_be_changed(kind):
    total = Accumulator(fixed_data(kind).encoder)
    total.add(fixed_data(kind).count())
    for statistics in (fixed_data(kind).count(), total.snapshot()):
        sums = statistics.gram.packed, statistics.cross, statistics.codes, statistics.class_counts
        for array in sums:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 7
        with pytest.raises(FrozenInstanceError):
            statistics.fingerprint = ""
        with pytest.raises(TypeError, match="unhashable"):
            hash(statistics)


@pytest.mark.parametrize("kind", KINDS)
def test_adding_and_subtracting_leave_their_operands_alone(kind):
    data = fixed_data(kind)
    a, b = data.part(slice(0, 50)).count(), data.part(slice(50, None)).count()
    before = [encode(a), encode(b)]
    _ = (a + b) - b, sum_statistics([a, a, b]), a - a
    assert [encode(a), encode(b)] == before


def test_statistics_equal_only_statistics_of_the_same_data():
    data = fixed_data("table")
    statistics = data.count()
    assert statistics == data.count()
    assert statistics != data.part(slice(0, 119)).count()
    assert statistics != count(data.encoder, data.features, data.labels + 1)
    assert statistics != count(data.encoder, data.features, data.labels[::-1])
    assert statistics != fixed_data("embedding").count()
    assert statistics != "statistics"
    for combine in (lambda: statistics + 1, lambda: statistics - None, lambda: 0 + statistics):
        with pytest.raises(TypeError):
            combine()


@pytest.mark.parametrize("samples", [30, 3_000, 9_000])
def test_a_snapshot_stays_what_it_was_while_the_total_goes_on(samples):
    data = fixed_data(samples=samples)
    total = Accumulator(data.encoder)
    total.add_samples(data.features, data.labels)
    first = total.snapshot()
    total.add_samples(data.features, data.labels)
    second = total.snapshot()
    total.add(first)
    total.subtract(data.count())
    total.add(first)
    with pytest.raises(InvariantError):
        total.subtract(second + second)
    total.subtract(first)
    assert first == data.count()
    assert second == first + first == total.snapshot()


def test_accumulator_without_encoder_refuses_samples():
    data = fixed_data()
    with pytest.raises(InvalidInput, match="need an encoder"):
        Accumulator(data.encoder.space).add_samples(data.features, data.labels)


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_counting_takes_memory_for_the_gram_not_for_the_samples(kind):
    data = fixed_data(kind, samples=3_000, feature_dim=20)

    def stream(batches):
        total = Accumulator(data.encoder)
        for _ in range(batches):
            total.add_samples(data.features, data.labels)
        total.snapshot()

    # Compiled before it is measured, for the wider integers of many samples as well.
    stream(30)
    assert peak_of(lambda: stream(30)) < 1.1 * peak_of(lambda: stream(6))


def test_summing_takes_memory_for_one_client_not_for_all():
    data = fixed_data("embedding", samples=2_000, feature_dim=20)
    data.count()

    def clients(number):
        for client in range(number):
            yield data.part(np.arange(len(data)) % 7 == client % 7).count()

    few = peak_of(lambda: sum_statistics(clients(7)))
    assert peak_of(lambda: sum_statistics(clients(70))) < 1.1 * few


def test_a_gram_that_does_not_fit_is_refused_with_advice(monkeypatch):
    data = fixed_data("embedding", samples=500, feature_dim=20)
    halves = [data.part(slice(0, 250)).count(), data.part(slice(250, None)).count()]
    monkeypatch.setattr(
        "psutil.virtual_memory",
        lambda: type("Memory", (), {"available": 1000}),
    )
    for work in (lambda: data.count().gram.packed, lambda: halves[0] + halves[1]):
        with pytest.raises(NotEnoughMemory, match=r"a gram of \d+ rows.*smaller tables"):
            work()
