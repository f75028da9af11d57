"""What statistics give away: exactly the samples that can be read off are counted, and said."""

from __future__ import annotations

import numpy as np
import pytest

from safle import count, make_encoder
from safle.encoders.calibration import DeclaredRange
from safle.site.release import count_told_apart, disclosures
from safle.statistics import Statistics
from support.data_sets import KINDS, fixed_data, fixed_encoder
from support.reference import phi


def said(statistics):
    return " | ".join(disclosures(statistics))


@pytest.fixture(scope="module")
def encoder():
    """Tables of 2,048 rows: most codes of few samples are seen once."""
    ink = DeclaredRange(0, 16, feature_dim=64)
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
    assert count_told_apart(statistics) == own.sum()
    assert f"a code that no other has: {own.sum():,} of {samples:,}." in said(statistics)
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
    assert said(statistics).startswith("classes with one sample: 1. The sums of such a class are")


def test_classes_of_few_samples_are_named():
    data = fixed_data("linear", 300)
    for counts, text in (
        ((298, 2), "classes with 2 to 4 samples: 1."),
        ((293, 4, 3), "classes with 2 to 4 samples: 2."),
    ):
        labels = np.repeat(np.arange(len(counts)), counts)
        assert text in said(count(data.encoder, data.features, labels))
    labels = np.repeat([0, 1], [295, 5])
    assert "classes with" not in said(count(data.encoder, data.features, labels))


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_samples_than_columns_are_a_lattice(kind):
    few = fixed_data(kind, 3).count()
    assert "3 samples" in said(few)
    assert "can be worked out" in said(few)
    many = fixed_data(kind, 2_000).count()
    assert many.sample_count > many.dim
    assert "exactly" not in said(many)
    assert "does not prove that there is none" in said(many)


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        (100, "all of them can be worked out exactly"),
        (101, "the sums determine all of them"),
        (247, "the sums determine all of them"),
        (248, "by chance all of them, some or none"),
        (257, "by chance all of them, some or none"),
        (258, "we know no way"),
    ],
)
def test_what_is_said_follows_from_samples_and_independent_columns(samples, text):
    """256 features and a constant; near that, whether they generate all integers is chance."""
    encoder = make_encoder(DeclaredRange(0, 1, feature_dim=256), "linear")
    features = np.random.default_rng(0).uniform(size=(samples, 256))
    statistics = count(encoder, features, np.arange(samples) % 2)
    assert text in said(statistics)
    assert f"{samples} samples, 257 independent columns" in said(statistics)


def test_experts_share_a_column():
    """The codes of each of ten experts add up to one: of 39 columns seen, 30 are independent."""
    data = DeclaredRange(0, 1, feature_dim=10)
    encoder = make_encoder(data, "embedding", buckets=2, group_size=2)
    features = np.random.default_rng(0).uniform(size=(32, 10))
    statistics = count(encoder, features, np.arange(32) % 2)
    assert f"32 samples, {statistics.dim - 9} independent columns" in said(statistics)
    assert np.linalg.matrix_rank(statistics.gram_square()) == statistics.dim - 9
    assert "we know no way" in said(statistics)


def test_no_samples_give_nothing_away():
    for kind in KINDS:
        assert disclosures(Statistics.empty(fixed_encoder(kind).space)) == []
