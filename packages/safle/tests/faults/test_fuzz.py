"""Forty thousand mutated files: nothing but `WireError`, quickly and in little memory.

Two forgers: one damages bytes and repairs the checksum, one changes the content and makes a file
of it with a correct checksum and digest.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from safle import Statistics, count, decode, encode
from safle.errors import WireError
from safle.statistics.histogram import Histogram
from support.data_sets import fixed_data, fixed_encoder
from support.forging import Forgery, at_most, change, damage, sealed

pytestmark = pytest.mark.usefixtures("no_threads")
MUTANTS = 20_000
SLOWEST = 10.0
MOST_MEMORY = 5_000_000


@pytest.fixture(scope="module")
def bases():
    """Small true files of every type: (bytes, function that opens them)."""
    statistics = [
        fixed_data("embedding", 20, feature_dim=3).count(),
        fixed_data("linear", 20, feature_dim=3).count(),
        fixed_data("table", 20, feature_dim=3).count(),
        Statistics.empty(fixed_encoder("table").space),
        count(fixed_encoder("embedding", 2), np.zeros((1, 2)), ["só"]),
    ]
    histogram = Histogram.empty([-2, 0], [2, 1], bins=6).count(
        np.random.default_rng(0).normal(size=(50, 2))
    )
    made = [(encode(s), decode) for s in statistics]
    return [*made, (encode(histogram), partial(decode, value_type=Histogram))]


def decoded(opening, data):
    """The value, or None for a refusal; anything else than a `WireError` fails the test."""
    started, value = time.process_time(), None
    with at_most(MOST_MEMORY), suppress(WireError):
        value = opening(data)
    assert time.process_time() - started < SLOWEST
    return value


@pytest.mark.parametrize("mutants", [300, pytest.param(MUTANTS, marks=pytest.mark.slow)])
def test_a_repaired_checksum_does_not_make_a_file_true(bases, mutants):
    generator = np.random.default_rng(2)
    for _ in range(mutants):
        (true, opening), (other, _) = (bases[i] for i in generator.integers(len(bases), size=2))
        mutant = sealed(damage(generator, true[:-32], other[:-32]))
        value = decoded(opening, mutant)
        if value is not None:
            # Only the compression may differ: the digest still names the same content.
            assert encode(value) in {true, other}
            assert mutant[16:48] == encode(value)[16:48]


@pytest.mark.parametrize("mutants", [300, pytest.param(MUTANTS, marks=pytest.mark.slow)])
def test_a_skilled_forger_can_only_make_files_that_have_one_encoding(bases, mutants):
    generator = np.random.default_rng(3)
    accepted = 0
    for _ in range(mutants):
        true, opening = bases[generator.integers(len(bases))]
        forged = Forgery.of(true)
        name = list(forged.sections)[generator.integers(len(forged.sections))]
        if generator.random() < 0.6:
            content = forged.sections[name] or b"\0"
            forged.sections[name] = damage(generator, content, content)
        else:
            forged.header = change(generator, forged.header)
        mutant = forged.to_bytes()
        value = decoded(opening, mutant)
        if value is not None:
            accepted += 1
            assert encode(value) == mutant
            if isinstance(value, Statistics):
                value.verify()
    # Other counts that some data set could have: rare, and never twice the same thing.
    assert accepted < mutants // 5


def test_a_file_that_is_put_together_unchanged_is_the_true_one(bases):
    for true, opening in bases:
        assert Forgery.of(true).to_bytes() == true
        assert encode(opening(true)) == true
