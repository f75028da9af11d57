"""Solving: refusals, memory, progress, and the smallest problems."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from safle import HEADS, Model, Statistics, solve
from safle.basics import memory
from safle.errors import InvalidInput, NotEnoughMemory, SolveError
from safle.solver import choice, least_squares, reduction, solving
from safle.solver.heads import discriminant
from safle.statistics.gram import Triangle
from support.data_sets import KINDS, fixed_data, fixed_encoder, repeated

RIDGES = [0, 0.5, 100.0, "auto"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"ridge": -1.0}, "ridge -1"),
        ({"ridge": np.nan}, "ridge nan"),
        ({"ridge": np.inf}, "ridge inf"),
        ({"ridge": "best"}, "ridge 'best'"),
        ({"ridge": None}, "ridge None"),
        ({"ridge": [1.0]}, r"ridge \[1.0\]"),
        ({"head": "mean"}, ", ".join(["auto", *HEADS])),
        ({"criterion": "aic"}, "gcv, evidence"),
        ({"criterion": "aic", "ridge": 0}, "gcv, evidence"),
        ({"head": "discriminant", "ridge": 0}, "positive ridge"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, found):
    with pytest.raises(InvalidInput, match=found):
        solve(fixed_data().count(), **options)


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_without_samples_cannot_be_solved(kind):
    with pytest.raises(InvalidInput, match="no samples"):
        solve(Statistics.empty(fixed_encoder(kind).space))


@pytest.mark.parametrize("ridge", [1e-30, 1e-12, 1e30])
def test_a_ridge_beyond_exact_arithmetic_is_refused_with_advice(ridge):
    statistics = repeated(fixed_data("embedding").count(), 10**6)
    with pytest.raises(SolveError, match=r"too small|too large"):
        solve(statistics, ridge=ridge)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("samples", [1, 2])
def test_the_smallest_clients_are_solved(kind, ridge, samples):
    data = fixed_data(kind, samples)
    statistics = data.count()
    solution = solve(statistics, ridge=ridge)
    assert np.isfinite(solution.weights).all()
    assert solution.residual <= 1e-10
    assert solution.rank is None or 1 <= solution.rank <= samples
    model = Model.of(data.encoder, solution)
    assert np.array_equal(model.predict(data.features), data.labels)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("head", "ridge"),
    [*(("auto", ridge) for ridge in RIDGES), ("discriminant", 1.0), ("averaged", 1.0)],
)
def test_solver_of_one_class_predicts_it_everywhere(kind, head, ridge):
    data = fixed_data(kind)
    only = data.part(data.labels == 2)
    solution = solve(only.count(), head=head, ridge=ridge)
    assert solution.weights.any() == (head == "auto")
    model = Model.of(only.encoder, solution)
    assert (model.predict(data.features) == 2).all()
    assert (model.predict_proba(data.features) == 1).all()


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1_000_000))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("ridge", [1.0, "auto", 0])
def test_solve_checks_memory_first(monkeypatch, ridge):
    statistics = fixed_data("embedding", samples=400, feature_dim=60).count()
    for module, name in (
        (choice, "spectrum_of"),
        (least_squares, "Cholesky"),
        (reduction.Reduction, "tile"),
    ):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("computed"))
    with pytest.raises(NotEnoughMemory, match=r"needs .*B, 1.0 MB are available; use") as error:
        solve(statistics, ridge=ridge)
    assert "columns" in str(error.value)


def test_the_stated_memory_is_half_a_square_and_little_more():
    stated = least_squares.solve_bytes
    half = 4 * 8192**2 / 2
    assert half < stated(8192, 10, 4) < half + 4 * 4 * 8192 * 1025 + 12 * 8 * 8192 * 10
    assert stated(1000, 0, 8) == 2 * stated(1000, 0, 4)
    assert stated(100, 5_000, 4) > 8 * 100 * 5_000


def test_more_classes_than_declared_are_refused_and_many_take_least_squares(monkeypatch):
    statistics = fixed_data("linear").count()
    monkeypatch.setattr(discriminant, "MAX_CLASSES", 2)
    assert solve(statistics, ridge=1.0).head == "least-squares"
    with pytest.raises(SolveError, match="3 classes; this head takes at most 2"):
        solve(statistics, ridge=1.0, head="averaged")
    monkeypatch.setattr(solving, "MAX_CLASSES", 2)
    with pytest.raises(InvalidInput, match="3 classes; at most 2 are solved"):
        solve(statistics, ridge=1.0)


def test_impossible_statistics_are_named_as_such():
    statistics = fixed_data("linear").count()
    packed = statistics.gram.packed.copy()
    packed[1] = 2 * packed.max()
    gram = Triangle(packed, statistics.dim)
    with pytest.raises(SolveError, match=r"real samples.*safle store verify"):
        solve(replace(statistics, gram=gram), ridge=1.0)


def test_byte_counts_are_written_for_people():
    assert memory.readable(999) == "999 B"
    assert memory.readable(1_500_000_000) == "1.5 GB"
    assert memory.readable(2.5e15) == "2500.0 TB"


def heard(statistics, **options):
    calls = []
    solve(statistics, progress=calls.append, **options)
    return calls


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("probed", [True, False])
def test_progress_only_rises_and_ends_at_one(monkeypatch, kind, ridge, probed):
    monkeypatch.setattr(least_squares, "HEIGHT", 8)
    if probed:
        monkeypatch.setattr(reduction, "MAX_SMALL_RANK", 3)
    calls = heard(fixed_data(kind).count(), ridge=ridge)
    assert all(a <= b for a, b in pairwise(calls))
    assert calls[-1] == 1.0
    assert 0 <= calls[0] <= 1
    assert calls.count(1.0) == 1


def test_progress_does_not_go_back_when_the_precision_is_raised(monkeypatch):
    monkeypatch.setattr(least_squares, "HEIGHT", 8)
    exactly = least_squares.refine
    tries = []

    def inaccurate_at_first(system, approximate):
        tries.append(system)
        if len(tries) == 1:
            raise SolveError("too inaccurate")
        return exactly(system, approximate)

    monkeypatch.setattr(least_squares, "refine", inaccurate_at_first)
    calls = heard(fixed_data("table").count(), ridge=1.0)
    assert len(tries) == 2
    assert all(a <= b for a, b in pairwise(calls))
    assert calls[-1] == 1.0
