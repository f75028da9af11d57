"""The change of basis before factoring: orthonormal, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safle.solver.reduction import Reduction
from support.data_sets import KINDS, data_sets, fixed_data


def dense_gram(statistics, reduction):
    return statistics.gram_square() * np.outer(reduction.steps, reduction.steps)


@given(data=st.data())
def test_the_basis_is_orthonormal_and_spans_the_range_of_the_gram(data):
    statistics = data.draw(data_sets(1)).count()
    reduction = Reduction(statistics)
    Q = reduction.backward(np.eye(reduction.reduced_dim))
    assert Q.shape == (statistics.dim, reduction.reduced_dim)
    assert np.allclose(Q.T @ Q, np.eye(reduction.reduced_dim), atol=1e-12)
    assert np.allclose(reduction.forward(np.eye(statistics.dim)), Q.T, atol=1e-12)
    C = dense_gram(statistics, reduction)
    assert np.allclose(Q @ (Q.T @ C), C, atol=1e-10 * np.abs(C).max())
    M = reduction.target
    assert np.allclose(Q @ (Q.T @ M), M, atol=1e-10 * np.abs(M).max())


@given(data=st.data())
def test_all_known_redundancies_are_dropped(data):
    statistics = data.draw(data_sets(1)).count()
    layout = statistics.layout
    constants = layout.experts + len(layout.constants)
    assert Reduction(statistics).reduced_dim == statistics.dim - max(0, constants - 1)


@given(data=st.data())
def test_tiles_are_blocks_of_the_reduced_gram(data):
    statistics = data.draw(data_sets(1)).count()
    reduction = Reduction(statistics)
    size = reduction.reduced_dim
    Q = reduction.backward(np.eye(size))
    C = dense_gram(statistics, reduction)
    expected = np.tril(Q.T @ C @ Q)
    found = reduction.tile((0, size), (0, size), np.float64)
    assert found.flags.f_contiguous
    assert np.allclose(found, expected, atol=1e-10 * np.abs(C).max())
    cut = data.draw(st.integers(1, size))
    lower = reduction.tile((cut, size), (0, cut), np.float64)
    assert np.allclose(lower, expected[cut:, :cut], atol=1e-10 * np.abs(C).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("threads")
def test_float32_tiles_are_the_rounded_float64_ones(kind):
    reduction = Reduction(fixed_data(kind, samples=500, feature_dim=15).count())
    whole = (0, reduction.reduced_dim)
    wide = reduction.tile(whole, whole, np.float64)
    assert np.array_equal(reduction.tile(whole, whole, np.float32), wide.astype(np.float32))
