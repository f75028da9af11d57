"""Statistics are Phi'Phi, Phi'Y and n, exactly, however the data were counted."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from safle import Accumulator, Statistics, count, encode, sum_statistics
from safle.errors import CountOverflow, InvalidInput
from safle.statistics import counting
from support.data_sets import (
    BY_CLASS,
    KINDS,
    data_sets,
    fixed_data,
    fixed_encoder,
    repeated,
)
from support.reference import phi


def dense_statistics(statistics):
    """Gram and cross over the whole code space, with zeros where nothing was seen."""
    layout = statistics.layout
    dense = np.arange(layout.code_count, layout.dim)
    rows = np.concatenate([statistics.codes, dense])
    gram = np.zeros((layout.dim,) * 2, np.int64)
    gram[np.ix_(rows, rows)] = statistics.gram_square()
    cross = np.zeros((layout.dim, len(statistics.class_names)), np.int64)
    cross[rows] = statistics.cross
    return gram, cross


def onehot(labels, names):
    return np.array([[label == name for name in names] for label in labels], np.int64).reshape(
        len(labels), len(names)
    )


@given(data_sets())
def test_statistics_are_the_products_of_the_one_hot_codes(drawn):
    statistics = drawn.count()
    Phi = phi(drawn.encoder, drawn.features)
    gram, cross = dense_statistics(statistics)
    labels = drawn.labels.tolist()
    names = sorted(set(labels))
    assert list(statistics.class_names) == names
    assert np.array_equal(gram, Phi.T @ Phi)
    assert np.array_equal(cross, Phi.T @ onehot(labels, names))
    assert statistics.class_counts.tolist() == [labels.count(name) for name in names]
    assert statistics.sample_count == len(drawn)
    assert statistics.fingerprint == drawn.encoder.fingerprint
    seen = Phi[:, : drawn.encoder.layout.code_count].any(axis=0)
    assert statistics.codes.tolist() == np.flatnonzero(seen).tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("threads")
def test_statistics_are_those_of_scipys_sparse_product(kind):
    # More samples than two chunks, more columns than a block of the kernel.
    data = fixed_data(kind, samples=9_000, feature_dim=40)
    codes, layout = data.encoder.encode(data.features), data.encoder.layout
    samples = np.repeat(np.arange(len(data)), layout.experts)
    columns = (codes.symbols + layout.bases[:-1]).ravel().astype(np.int64)
    shape = (len(data), layout.code_count)
    sparse = scipy.sparse.csr_matrix((np.ones(len(columns), np.int64), (samples, columns)), shape)
    Phi = scipy.sparse.hstack([sparse, codes.dense.astype(np.int64)]).tocsr()
    gram, cross = dense_statistics(data.count())
    assert np.array_equal(gram, (Phi.T @ Phi).toarray())
    assert np.array_equal(cross, Phi.T @ np.eye(3, dtype=np.int64)[data.labels])


@given(data=st.data())
def test_batches_of_any_size_count_like_one(data):
    drawn = data.draw(data_sets())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(drawn)), max_size=4)))
    total = Accumulator(drawn.encoder)
    for first, last in zip([0, *cuts], [*cuts, len(drawn)], strict=True):
        total.add_samples(drawn.features[first:last], drawn.labels[first:last])
    assert total.snapshot() == drawn.count()


@given(data_sets(1, 40))
def test_both_counting_kernels_agree(drawn):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "WIDE_TABLE", 0)
        single = drawn.count()
        single.gram.packed.sum()
        patch.setattr(counting, "WIDE_TABLE", 10**9)
        block = drawn.count()
        block.gram.packed.sum()
    assert single == block


@pytest.mark.parametrize("experts", [1, 2, 33])
@pytest.mark.parametrize("share", [0.6, 1.0])
def test_both_counting_kernels_agree_beyond_their_totals(experts, share, monkeypatch):
    # One code holds most samples or all: the 4-bit and 8-bit totals of the block kernel
    # must carry before any of them is full.
    generator = np.random.default_rng(experts)
    columns = np.minimum(generator.geometric(share, (experts, 1_000)), 12) - 1
    columns = (columns + 12 * np.arange(experts)[:, None]).astype(np.int32)
    offsets = 12 * np.arange(experts + 1)
    Phi = np.zeros((1_000, 12 * experts), np.int64)
    Phi[np.arange(1_000), columns] = 1
    none, expected = np.empty((1_000, 0), np.int16), (Phi.T @ Phi)[np.triu_indices(12 * experts)]
    for wide_table in (0, 10**9):
        gram = np.zeros(len(expected), np.int32)
        monkeypatch.setattr(counting, "WIDE_TABLE", wide_table)
        counting.add_gram(gram, columns, none, offsets)
        assert np.array_equal(gram, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_counted_is_the_zero_of_its_encoder(kind):
    data = fixed_data(kind)
    total, zero = Accumulator(data.encoder), Statistics.empty(data.encoder.space)
    total.add_samples(np.empty((0, 6)), [])
    total.add_samples(np.empty((0, 6), np.float32), np.empty(0, str))
    zero.verify()
    assert (zero.sample_count, zero.class_names) == (0, ())
    assert total.snapshot() == zero == zero + zero
    assert sum_statistics([zero, data.count(), zero]) == data.count()


def test_labels_may_be_of_any_integer_type_or_whole_floats_or_objects():
    data = fixed_data()
    expected = encode(data.count())
    for dtype in (np.int8, np.uint64, np.float32, np.float64):
        assert encode(count(data.encoder, data.features, data.labels.astype(dtype))) == (expected)
    words = np.array(["b", "a", "č"])[data.labels]
    named = count(data.encoder, data.features, words)
    assert named.class_names == ("a", "b", "č")
    assert count(data.encoder, data.features, words.astype(object)) == named
    assert count(data.encoder, data.features, words.tolist()) == named


def test_a_declared_class_that_never_occurs_leaves_no_trace():
    data = fixed_data()
    declared = count(data.encoder, data.features, data.labels, classes=[5, 2, 1, 0, 9])
    assert encode(declared) == encode(data.count())


@pytest.mark.parametrize("kind", KINDS)
def test_more_samples_than_the_integers_can_count_are_refused(kind):
    statistics = fixed_data(kind).count()
    most = statistics.layout.most_samples
    large = repeated(statistics, most // statistics.sample_count)
    large.verify()
    with pytest.raises(CountOverflow, match=r"\d+ \+ 120 samples exceed"):
        large + statistics
    assert (large - statistics) + statistics == large
    # What is within the limit has not wrapped around.
    assert large.diagonal.min() > 0


def test_a_total_refuses_to_overflow_before_it_counts(monkeypatch):
    data = fixed_data()
    monkeypatch.setattr(type(data.encoder.layout), "most_samples", 200)
    total = Accumulator(data.encoder)
    total.add_samples(data.features, data.labels)
    with pytest.raises(CountOverflow, match=r"120 \+ 120 samples exceed the 200"):
        total.add_samples(data.features, data.labels)
    assert total.snapshot() == data.count()


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ([0], "one label for each of 2 samples"),
        ([0, 1, 2], "one label for each of 2 samples"),
        ([[0], [1]], r"shape \(2, 1\)"),
        ([0.5, 1.0], "whole number"),
        ([np.nan, 1.0], "whole number"),
        ([1, "a"], "int, str"),
        ([1j, 0], "complex"),
        (np.array([1, "a"], object), "object"),
        (np.array([None, "a"], object), "object"),
        (np.array([2**63, 0], np.uint64), "int64"),
        ([b"a", b"b"], r"\|S1"),
        (["a", "\ud800"], "UTF-8"),
    ],
)
def test_labels_that_are_not_one_class_each_are_refused(labels, found):
    with pytest.raises(InvalidInput, match=found):
        count(fixed_encoder("embedding"), np.zeros((2, 6)), labels)


def test_a_refused_batch_leaves_the_total_as_it_was():
    data = fixed_data()
    total = Accumulator(data.encoder, classes=[0, 1, 2])
    total.add_samples(data.features, data.labels)
    broken = data.features.copy()
    broken[5, 1] = np.inf
    for features, labels in (
        (broken, data.labels),
        (data.features, data.labels[:-1]),
        (data.features, data.labels + 1),
        (data.features, data.labels.astype(str)),
        (data.features[:, :-1], data.labels),
    ):
        with pytest.raises(InvalidInput):
            total.add_samples(features, labels)
    assert total.snapshot() == data.count()


def test_unknown_names_under_a_declared_list_are_named():
    data = fixed_data()
    with pytest.raises(InvalidInput, match=r"contain 2, which are not among .* 0, 1"):
        count(data.encoder, data.features, data.labels, classes=[0, 1])
    with pytest.raises(InvalidInput, match="repeat"):
        count(data.encoder, data.features, data.labels, classes=[0, 1, 1, 2])


@pytest.mark.parametrize("first", [7, 5_000])
def test_integers_and_strings_are_not_mixed_even_before_a_chunk_is_full(first):
    data = fixed_data(samples=first)
    total = Accumulator(data.encoder)
    total.add_samples(data.features, data.labels)
    with pytest.raises(InvalidInput, match="all integers or all strings"):
        total.add_samples(data.features[:2], ["0", "1"])
    assert total.snapshot() == data.count()


@pytest.mark.parametrize("kind", [*KINDS, *BY_CLASS])
def test_counting_splits_a_batch_larger_than_its_buffer(kind):
    drawn = fixed_data(kind, 3)
    times = [5, 20_000, 1]
    whole = drawn.part(np.repeat([0, 1, 2], times)).count()
    parts = [repeated(drawn.part([i]).count(), times[i]) for i in range(3)]
    assert encode(whole) == encode(sum_statistics(parts))
