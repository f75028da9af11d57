"""The attack: what it finds is in the data, exactly, and it finds what can be found."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from private_support.private_rounds import make_parties
from safle import count, make_encoder
from safle.encoders.calibration import declared_range, public_sample
from safle.errors import SafleError, WireError
from safle.server.limits import open_contribution
from safle_lab.attack import attack
from safle_lab.lattice import Residual
from safle_private import Masked
from support.data_sets import KINDS, TABLE_KINDS, DataSet, fixed_data

pytest.importorskip("flint", reason="needs the extra attack")


def samples_of(encoder, features, labels) -> Counter:
    codes = encoder.encode(features)
    return Counter(
        (*symbols, *dense, label)
        for symbols, dense, label in zip(
            codes.symbols.tolist(), codes.dense.tolist(), list(labels), strict=True
        )
    )


def found_in(data: DataSet, **how):
    """The attack on a data set; what it claims must be in the data, class included."""
    found = attack(data.count(), **how)
    claimed = Counter(
        (*symbols, *dense, label)
        for symbols, dense, label in zip(
            found.codes.symbols.tolist(), found.codes.dense.tolist(), found.labels, strict=True
        )
    )
    assert claimed <= samples_of(data.encoder, data.features, data.labels.tolist())
    assert claimed.total() == found.found <= found.samples == len(data)
    return found


@pytest.mark.parametrize("kind", KINDS)
@given(samples=st.integers(0, 60), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_attack_finds_only_samples_of_the_data(kind, samples, seed):
    whole = fixed_data(kind, 200)
    chosen = np.random.default_rng(seed).choice(200, samples)
    found_in(whole.part(chosen))


@pytest.mark.parametrize("kind", KINDS)
def test_samples_fewer_than_columns_are_all_found(kind):
    """Without a class or a code to themselves: by the products alone."""
    data = fixed_data(kind, 4)
    together = DataSet(data.encoder, data.features, np.zeros(4, int))
    assert found_in(together).found == 4


@pytest.mark.parametrize("kind", KINDS)
def test_attack_finds_one_sample_and_a_class_of_one(kind):
    assert found_in(fixed_data(kind, 1)).by_class == 1
    data = fixed_data(kind, 300)
    rare = DataSet(data.encoder, data.features, np.array(["common"] * 299 + ["rare"]))
    assert found_in(rare).by_class >= 1


@pytest.mark.parametrize("kind", KINDS)
def test_equal_samples_are_found(kind):
    """A lattice in which they share a vector; peeling does not tell them apart."""
    data = fixed_data(kind, 3)
    chosen = np.repeat(np.arange(3), 2)
    equal = DataSet(data.encoder, data.features[chosen], np.array([0, 1, 0, 0, 1, 1]))
    assert found_in(equal).by_lattice == 6


def test_codes_seen_once_are_peeled_until_none_are_left(digits):
    encoder = make_encoder(
        declared_range(0, 16, feature_dim=64), "embedding", buckets=4, group_size=11
    )
    data = DataSet(encoder, digits[0][:500], digits[1][:500])
    symbols = encoder.encode(data.features).symbols.astype(np.int64) + encoder.layout.bases[:-1]
    once = np.bincount(symbols.ravel(), minlength=encoder.layout.code_count) == 1
    found = found_in(data, most_reduced=0)
    # More than have a code to themselves from the start: taking those off lays others bare.
    assert found.found == 500 > once[symbols].any(axis=1).sum()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in TABLE_KINDS])
def test_dense_codes_of_few_samples_are_found_by_lattice_reduction(kind, digits):
    encoder = make_encoder(public_sample(digits[0]), kind)
    data = DataSet(encoder, digits[0][:20], digits[1][:20] // 5)
    found = found_in(data)
    assert found.by_lattice == 20
    stopped = found_in(data, most_reduced=19)
    assert (stopped.found, stopped.untried) == (0, 20)


def test_classes_with_grams_of_their_own_are_reduced_one_by_one(digits):
    """48 samples of 33 columns: too many together, and every class gives all of its own."""
    encoder = make_encoder(declared_range(0, 16, feature_dim=32), "linear", by_class=True)
    data = DataSet(encoder, digits[0][:48, 16:48], np.arange(48) % 4)
    found = found_in(data, most_reduced=12)
    assert found.by_lattice == 48
    assert found_in(data, most_reduced=11).untried == 48
    pooled = make_encoder(declared_range(0, 16, feature_dim=32), "linear")
    assert found_in(DataSet(pooled, data.features, data.labels), most_reduced=48).found == 0


def test_attack_invents_no_samples_beyond_the_columns():
    found = found_in(fixed_data("linear", 30))
    assert (found.found, found.untried) == (0, 0)
    close = fixed_data("linear", 300)
    labels = np.repeat([0, 1], [297, 3])
    assert found_in(DataSet(close.encoder, close.features, labels)).close == 3


@pytest.mark.parametrize("kind", KINDS)
def test_masked_contributions_give_nothing(kind):
    """A file that is one sample, in the plain; under masks it is refused, and no sums either."""
    data = fixed_data(kind, 1)
    statistics = data.count()
    zero = type(statistics).empty(statistics.space, statistics.class_names)
    parties = make_parties(zero, 2, 100)
    sent = parties.mask(0, statistics)
    with pytest.raises(WireError, match="masked"):
        open_contribution("a", sent, data.encoder.space)
    try:
        masked = Masked.from_bytes(sent, parties.private_round)
        garbled = parties.private_round.from_vector(masked.vector)
        found = attack(garbled)
    except SafleError:
        return
    assert found.found == 0


def test_attack_subtracts_known_samples_exactly():
    data = fixed_data("table", 40)
    left = Residual.of(data.count())
    rest = data.part(slice(1, None)).count()
    first = count(data.encoder, data.features[:1], data.labels[:1])
    row = np.zeros(left.whole.dim, np.int64)
    row[np.searchsorted(left.whole.codes, first.codes)] = 1
    row[len(left.whole.codes) :] = first.cross[len(first.codes) :, 0]
    assert left.take(row, left.whole.class_names.index(first.class_names[0]))
    seen = np.flatnonzero(np.isin(left.whole.codes, rest.codes))
    kept = np.concatenate([seen, np.arange(len(left.whole.codes), left.whole.dim)])
    assert np.array_equal(left.columns(kept)[kept], rest.gram_square())
    assert left.samples == 39
    assert not left.take(row + 1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_in_which_every_row_repeats_hides_nobody(kind):
    few = fixed_data(kind, 200).part(np.arange(4))
    often = few.part(np.arange(4).repeat(30))
    assert found_in(often).found == 30 * found_in(few).found > 0


def test_counts_of_pairs_are_joined_into_samples():
    """The attack of the core's policy theorem: all samples, of which few have a certain class."""
    generator = np.random.default_rng(0)
    features = generator.uniform(size=(500, 10))
    settings = {"bucketing": "integer", "buckets": 60, "group_size": 1}
    encoder = make_encoder(declared_range(0, 1, feature_dim=10), "embedding", **settings)
    data = DataSet(encoder, features, np.arange(500) % 2)
    found = found_in(data, most_reduced=0)
    codes = np.concatenate([found.codes.symbols, found.unlabelled.symbols])
    assert sorted(codes.tolist()) == sorted(encoder.encode(features).symbols.tolist())
    assert found.found + len(found.unlabelled) == 500
