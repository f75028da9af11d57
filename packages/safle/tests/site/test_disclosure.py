"""What statistics give away: exactly the samples that can be read off are counted, and said."""

from __future__ import annotations

import numpy as np
import pytest

from safle import Statistics, count, make_encoder
from safle.encoders.calibration import declared_range
from safle.statistics.exposure import count_own_codes, find_exposure
from support.data_sets import KINDS, fixed_data, fixed_encoder
from support.reference import phi


def said(statistics):
    return " | ".join(find_exposure(statistics).details)


@pytest.fixture(scope="module")
def encoder():
    """Tables of 2,048 rows: most codes of few samples are seen once."""
    ink = declared_range(0, 16, feature_dim=64)
    return make_encoder(ink, "embedding", buckets=4, group_size=11)


@pytest.mark.parametrize("samples", [1, 60, 500, 1797])
def test_samples_with_a_code_of_their_own_are_read_off_the_gram(encoder, digits, samples):
    features, labels = digits[0][:samples], digits[1][:samples]
    statistics = count(encoder, features, labels)
    symbols = encoder.encode(features).symbols.astype(np.int64) + encoder.layout.bases[:-1]
    once = np.bincount(symbols.ravel(), minlength=encoder.layout.code_count) == 1
    own = once[symbols].any(axis=1)
    assert own.sum() > 0
    # Equal samples would be one row; these differ.
    assert count_own_codes(statistics) == own.sum()
    assert f"a code that no other sample has: {own.sum():,} of {samples:,}." in said(statistics)
    # And this is how: the row of such a code names all codes of its sample.
    gram = statistics.gram_square()
    for sample in np.flatnonzero(own)[:20]:
        code = next(c for c in symbols[sample] if once[c])
        row = gram[np.searchsorted(statistics.codes, code)]
        assert np.array_equal(statistics.codes[row > 0], np.sort(symbols[sample]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_of_one_sample_is_that_sample(kind):
    data = fixed_data(kind, 300)
    labels = np.array(["common"] * 299 + ["rare"])
    statistics = count(data.encoder, data.features, labels)
    columns = np.concatenate(
        [statistics.codes, statistics.layout.code_count + np.arange(statistics.layout.dense_dim)]
    )
    assert np.array_equal(statistics.cross[:, 1], phi(data.encoder, data.features[-1:])[0, columns])
    assert said(statistics).startswith("classes with fewer than 5 samples: 1, with one: 1. The")


@pytest.mark.parametrize(
    ("counts", "few"), [((298, 2), 1), ((293, 4, 3), 2), ((297, 1, 2), 2), ((295, 5), 0)]
)
def test_classes_of_few_samples_are_named(counts, few):
    data = fixed_data("linear", 300)
    labels = np.repeat(np.arange(len(counts)), counts)
    found = said(count(data.encoder, data.features, labels))
    assert ("classes with fewer than 5 samples" in found) == bool(few)
    assert not few or f"samples: {few}, with one: {counts.count(1)}." in found


@pytest.mark.parametrize("kind", KINDS)
def test_disclosure_of_few_samples_is_a_lattice(kind):
    few = fixed_data(kind, 3).count()
    assert "3 samples" in said(few)
    assert "can be reconstructed" in said(few)
    many = fixed_data(kind, 2_000).count()
    assert many.sample_count > many.dim
    assert "exactly" not in said(many)
    assert "does not prove that nobody can" in said(many)


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        (100, "all 100 samples can be reconstructed exactly"),
        (101, "the sums determine all 101 samples"),
        (247, "the sums determine all 247 samples"),
        (248, "some of 248 samples, or all, can be reconstructed by chance"),
        (257, "some of 257 samples, or all, can be reconstructed by chance"),
        (258, ""),
    ],
)
def test_what_is_said_follows_from_samples_and_independent_columns(samples, text):
    """256 features and a constant; near that, whether they generate all integers is chance."""
    encoder = make_encoder(declared_range(0, 1, feature_dim=256), "linear")
    features = np.random.default_rng(0).uniform(size=(samples, 256))
    statistics = count(encoder, features, np.arange(samples) % 2)
    exposure = find_exposure(statistics)
    said_last = f"{text}: there are 257 independent columns" if text else "with more samples than"
    assert exposure.details[-1].startswith(said_last)
    assert exposure.warns == bool(text)
    assert exposure.rank == 257


def test_experts_share_a_column():
    """The codes of each of ten experts add up to one: nine columns fewer are independent."""
    data = declared_range(0, 1, feature_dim=10)
    encoder = make_encoder(data, "embedding", buckets=2, group_size=2)
    features = np.random.default_rng(0).uniform(size=(32, 10))
    many = count(encoder, features, np.arange(32) % 2)
    assert np.linalg.matrix_rank(many.gram_square()) == many.dim - 9
    assert 32 - many.dim + 9 > 0
    assert "we know no way" in said(many)
    few = count(encoder, features[:20], np.arange(20) % 2)
    assert f"there are {few.dim - 9} independent columns" in said(few)


def test_disclosure_of_no_samples_is_empty():
    for kind in KINDS:
        exposure = find_exposure(Statistics.empty(fixed_encoder(kind).space))
        assert (exposure.summary, exposure.details, exposure.warns) == ("", [], False)
