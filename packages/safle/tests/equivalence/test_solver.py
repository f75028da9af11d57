"""Weights against dense textbook solutions, however precisely they are factored."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from safle import LinearEncoder, count, solve, sum_statistics
from safle.errors import SolveError
from safle.solver import least_squares
from safle.statistics.gram import Triangle
from support.data_sets import KINDS, data_sets, fixed_data, model_bytes, repeated
from support.reference import real_phi


def real_data(data):
    """Phi in real units, and one-hot labels."""
    names = np.unique(data.labels)
    return real_phi(data.encoder, data.features), (data.labels[:, None] == names).astype(float)


def full_weights(data, solution, statistics):
    """Weights over the whole code space: zero where nothing was seen."""
    layout = data.encoder.layout
    rows = np.concatenate([statistics.codes, np.arange(layout.code_count, layout.dim)])
    weights = np.zeros((layout.dim, len(solution.class_names)))
    weights[rows] = solution.weights
    return weights


def close(found, expected, tolerance=1e-9):
    scale = np.abs(expected).max()
    return np.abs(found - expected).max() <= tolerance * max(scale, 1e-300)


@given(data=st.data(), ridge=st.floats(0.01, 1e5))
@settings(max_examples=40)
def test_any_data_set_and_ridge_is_solved(data, ridge):
    drawn = data.draw(data_sets(1))
    statistics = drawn.count()
    solution = solve(statistics, ridge=ridge, head="least-squares")
    assert abs(solution.ridge / ridge - 1) <= 2.0**-20
    Phi, Y = real_data(drawn)
    A = Phi.T @ Phi + solution.ridge * np.eye(Phi.shape[1])
    found = full_weights(drawn, solution, statistics)
    left = np.linalg.norm(A @ found - Phi.T @ Y)
    assert left <= 1e-10 * np.linalg.norm(Phi.T @ Y) + 1e-15 * np.linalg.norm(A)
    assert solution.residual <= 1e-10


def exact_weights(statistics, ridge):
    """Real weights by Gauss's elimination in rational numbers."""
    units = [1] * len(statistics.codes) + statistics.layout.scales.tolist()
    gram, cross = statistics.gram_square().tolist(), statistics.cross.tolist()
    rows = [
        [*map(Fraction, left), *map(Fraction, right)]
        for left, right in zip(gram, cross, strict=True)
    ]
    for k, unit in enumerate(units):
        rows[k][k] += Fraction(ridge) * unit**2
    for k in range(len(rows)):
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k]:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    found = [row[len(rows) :] for row in rows]
    return [[value * u for value in row] for row, u in zip(found, units, strict=True)]


def assert_on_the_grid(found, exact):
    """``found`` is ``exact``, rounded to 46 bits below the largest."""
    largest = max(abs(value) for row in exact for value in row)
    for row, true in zip(found.tolist(), exact, strict=True):
        assert all(abs(Fraction(f) - t) <= largest / 2**45 for f, t in zip(row, true, strict=True))


@given(
    bits=st.integers(0, 12),
    features=st.lists(st.lists(st.floats(-5, 5), min_size=2, max_size=2), min_size=1, max_size=8),
    times=st.integers(0, 40),
    ridge=st.floats(-40, 60),
)
@settings(max_examples=80)
def test_weights_are_the_rational_solution_or_refused(bits, features, times, ridge):
    encoder = LinearEncoder(np.zeros(2), np.ones(2), fraction_bits=bits)
    labels = np.arange(len(features)) % 2
    statistics = count(encoder, np.array(features), labels)
    wide = Triangle(statistics.gram.packed.astype(np.int64), statistics.dim)
    statistics = replace(statistics, gram=wide)
    largest = int(max(wide.packed.max(), 1)).bit_length()
    statistics = repeated(statistics, 1 << min(times, 60 - largest))
    try:
        solution = solve(statistics, ridge=2.0**ridge, head="least-squares")
    except SolveError:
        return
    assert_on_the_grid(solution.weights, exact_weights(statistics, solution.ridge))


@pytest.mark.parametrize("bits", [0, 2, 4, 8])
@pytest.mark.parametrize("ridge", [1.0, 1e-3, 1e-6, 1e-9, 1e-12])
def test_class_sums_that_no_gram_bounds_do_not_wrap(bits, ridge):
    # Columns without power whose class sums are large: impossible, but the integers fit.
    encoder = LinearEncoder(np.zeros(3), np.ones(3), fraction_bits=bits)
    statistics = count(encoder, 3 * np.eye(3), [0, 1, 0])
    square, cross = statistics.gram_square(), statistics.cross.copy()
    square[:3] = square[:, :3] = 0
    cross[:3] = [[32767, -32767], [7, -7], [-32767, 32767]]
    packed = square[np.triu_indices(len(square))].astype(statistics.gram.packed.dtype)
    gram = Triangle(packed, statistics.dim)
    statistics = replace(statistics, gram=gram, cross=cross)
    try:
        solution = solve(statistics, ridge=ridge, head="least-squares")
    except SolveError:
        assert ridge < 1e-3
        return
    assert_on_the_grid(solution.weights, exact_weights(statistics, solution.ridge))


@given(data_sets(1))
@settings(max_examples=40)
def test_ridge_0_is_the_pseudo_inverse_and_reports_the_rank(drawn):
    statistics = drawn.count()
    solution = solve(statistics, ridge=0)
    Phi, Y = real_data(drawn)
    # The true rank, of exact integers: the smallest singular value is far from rounding.
    singular = np.linalg.svd(Phi, compute_uv=False)
    rank = int((singular > 1e-9 * singular[0]).sum())
    if singular[rank - 1] < 1e-5 * singular[0]:
        # Squared in the gram, it lies at the edge of float64: either rank is right.
        return
    assert solution.rank == rank
    assert close(full_weights(drawn, solution, statistics), np.linalg.pinv(Phi, 1e-9) @ Y, 1e-5)
    assert solution.precision == "spectral"


@given(data=st.data())
@settings(max_examples=60)
def test_repeating_every_sample_changes_neither_rank_nor_solution(data):
    # Of codes alone: their gram is far from the edge of float64.
    drawn = data.draw(data_sets(1).filter(lambda d: not d.encoder.layout.dense_dim))
    statistics = drawn.count()
    once, often = solve(statistics, ridge=0), solve(repeated(statistics, 1000), ridge=0)
    assert often.rank == once.rank <= statistics.sample_count
    assert close(often.weights, once.weights, 1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_the_papers_protocol_with_dense_matrices_gives_the_same(kind):
    data, gamma = fixed_data(kind), 0.25
    bounds = [0, 17, 18, 60, 120]
    parts = [data.part(slice(a, b)) for a, b in pairwise(bounds)]
    Phi, Y = real_data(data)
    identity = np.eye(Phi.shape[1])
    # As written: every client regularises its own dense matrix, the server sums.
    sent = [(Phi[a:b], Y[a:b]) for a, b in pairwise(bounds)]
    C = sum(P.T @ P + gamma * identity for P, _ in sent)
    M = sum(P.T @ labels for P, labels in sent)
    total = sum_statistics(part.count() for part in parts)
    regularised = solve(total, ridge=len(parts) * gamma, head="least-squares")
    assert close(full_weights(data, regularised, total), np.linalg.inv(C) @ M)
    found = full_weights(data, solve(total, ridge=0), total)
    assert close(found, np.linalg.pinv(C - len(parts) * gamma * identity, 1e-10) @ M, 1e-6)
    assert close(found, np.linalg.pinv(Phi) @ Y, 1e-6)


@pytest.fixture
def only_float64(monkeypatch):
    cholesky = least_squares.Cholesky

    def refuse(size, tile, *rest):
        if tile((0, 1), (0, 1)).dtype == np.float32:
            raise SolveError("float32 is not allowed in this test")
        return cholesky(size, tile, *rest)

    monkeypatch.setattr(least_squares, "Cholesky", refuse)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ridge", [0.05, 1.0, 300.0])
def test_both_precisions_give_the_same_model(request, kind, ridge):
    data = fixed_data(kind, samples=400, feature_dim=12)
    statistics = data.count()
    assert solve(statistics, ridge=ridge).precision == "float32"
    low = model_bytes(data.encoder, statistics, ridge=ridge)
    request.getfixturevalue("only_float64")
    assert solve(statistics, ridge=ridge).precision == "float64"
    assert model_bytes(data.encoder, statistics, ridge=ridge) == low


def test_the_height_of_the_panels_does_not_change_the_model(monkeypatch):
    data = fixed_data("table", samples=400, feature_dim=12)
    statistics = data.count()
    expected = model_bytes(data.encoder, statistics, ridge=0.5)
    for height in (7, 64, 100):
        monkeypatch.setattr(least_squares, "HEIGHT", height)
        assert model_bytes(data.encoder, statistics, ridge=0.5) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 5, 40])
@pytest.mark.parametrize("height", [3, 8, 50, 1000])
def test_a_factor_solves_few_and_many_right_sides(monkeypatch, dtype, width, height):
    monkeypatch.setattr(least_squares, "HEIGHT", height)
    generator = np.random.default_rng(width)
    root = generator.standard_normal((131, 131))
    matrix = root @ root.T + 131 * np.eye(131)

    def make(rows, columns):
        return np.asfortranarray(matrix[slice(*rows), slice(*columns)], dtype)

    factor = least_squares.Cholesky(131, make)
    right = generator.standard_normal((131, width))
    expected = scipy.linalg.solve(matrix, right, assume_a="pos")
    assert close(factor.solve(right), expected, 40 * np.finfo(dtype).eps)


def test_a_hopeless_float32_factorisation_falls_back_to_float64():
    # Nearly equal columns and a tiny ridge: a condition number that float32 cannot hold, by
    # so much that no BLAS kernel's rounding is lucky.
    data = fixed_data("linear", samples=3000, feature_dim=8)
    data.features[:, 1:] = data.features[:, :1]
    data.features[:3, 1:] += 0.01
    statistics = data.count()
    solution = solve(statistics, ridge=1e-6, head="least-squares")
    assert solution.precision == "float64"
    Phi, Y = real_data(data)
    A = Phi.T @ Phi + solution.ridge * np.eye(Phi.shape[1])
    assert np.linalg.cond(A) > 2e7
    assert solution.residual <= 1e-10
    left = np.linalg.norm(A @ solution.weights - Phi.T @ Y) / np.linalg.norm(Phi.T @ Y)
    assert left <= 1e-10
