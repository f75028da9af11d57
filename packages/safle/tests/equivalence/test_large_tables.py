"""Tables of 65,536 rows, counted and solved for real."""

from __future__ import annotations

import numpy as np
import pytest

from safle import Bucketing, EmbeddingEncoder, Model, count, decode, encode, solve

SAMPLES = 3_000


@pytest.mark.parametrize(
    ("bucketing", "features", "group"),
    [
        (Bucketing("integer", 65_536), 1, 1),
        (Bucketing("integer", 256), 2, 2),
        (Bucketing("binary-overlap", 1), 16, 16),
        (Bucketing("one-hot", 2), 8, 16),
    ],
)
def test_large_table_gives_shrunken_class_shares(bucketing, features, group):
    generator = np.random.default_rng(group)
    values = np.round(generator.uniform(-1, 1, (SAMPLES, features)), 2)
    labels = generator.integers(0, 3, SAMPLES)
    levels = np.linspace(-1, 1, bucketing.threshold_count + 2)[1:-1, None]
    encoder = EmbeddingEncoder(
        np.repeat(levels, features, axis=1),
        bucketing=bucketing.name,
        buckets=bucketing.buckets,
        group_size=group,
    )
    assert encoder.layout.table_sizes.tolist() == [65_536]
    statistics = count(encoder, values, labels)
    symbols = encoder.encode(values).symbols[:, 0].astype(np.int64)
    seen, index = np.unique(symbols, return_inverse=True)
    counts = np.zeros((len(seen), 3), np.int64)
    np.add.at(counts, (index, labels), 1)
    assert statistics.codes.tolist() == seen.tolist()
    assert np.array_equal(statistics.cross, counts)
    assert decode(encode(statistics)) == statistics
    # One table: the gram is diagonal, so every row is solved by itself.
    solution = solve(statistics, ridge=2.0, head="least-squares")
    assert np.allclose(solution.weights, counts / (counts.sum(axis=1) + 2.0)[:, None], rtol=1e-12)
    model = Model.of(encoder, solution)
    assert np.array_equal(model.predict(values), np.argmax(counts, axis=1)[index])


def test_two_large_tables_count_like_a_cross_tabulation():
    generator = np.random.default_rng(0)
    bits = generator.integers(0, 2, (800, 32)) * 2.0 - 1
    encoder = EmbeddingEncoder(np.zeros((1, 32)), buckets=1, group_size=16)
    assert encoder.layout.table_sizes.tolist() == [65_536, 65_536]
    statistics = count(encoder, bits, np.zeros(800, int))
    symbols = encoder.encode(bits).symbols.astype(np.int64)
    rows, columns = (np.unique(symbols[:, e], return_inverse=True) for e in range(2))
    table = np.zeros((len(rows[0]), len(columns[0])), np.int64)
    np.add.at(table, (rows[1], columns[1]), 1)
    statistics.verify()
    assert np.array_equal(statistics.gram_square()[: len(rows[0]), len(rows[0]) :], table)
