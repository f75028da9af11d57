"""The search for a temperature finds the one that a trial of the whole grid would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safle import solve
from safle.solver import temperature
from safle.solver.temperature import (
    MARGIN,
    MAX_OCTAVE,
    MIN_OCTAVE,
    STEPS_PER_OCTAVE,
    best_temperature,
)
from support.data_sets import KINDS, fixed_data


def temperature_of_the_whole_grid(scores, places):
    steps = np.arange(MIN_OCTAVE * STEPS_PER_OCTAVE, MAX_OCTAVE * STEPS_PER_OCTAVE + 1)
    grid = 2.0 ** (steps / STEPS_PER_OCTAVE)
    scores = scores - scores.max(axis=1, keepdims=True)
    own = scores[np.arange(len(places)), places]
    losses = np.array([(np.log(np.exp(scores / t).sum(axis=1)) - own / t).mean() for t in grid])
    lowest = losses.min()
    return grid[np.flatnonzero(losses <= lowest + MARGIN * lowest + MARGIN**2)[-1]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("samples", [4, 20, 120])
@pytest.mark.parametrize("ridge", ["auto", 1e-3, 1e4])
def test_temperature_of_every_kind(kind, samples, ridge, monkeypatch):
    tried = []

    def check(scores, places):
        tried.append(best_temperature(scores, places))
        assert tried[-1] == temperature_of_the_whole_grid(scores, places)
        return tried[-1]

    monkeypatch.setattr(temperature, "best_temperature", check)
    for head in ("averaged", "discriminant"):
        solve(fixed_data(kind, samples).count(), head=head, ridge=ridge)
    assert tried


@given(
    seed=st.integers(0, 2**32),
    classes=st.integers(2, 6),
    samples=st.integers(1, 60),
    spread=st.floats(-30, 12),
    right=st.floats(0, 8),
)
@settings(max_examples=200)
def test_temperature_of_any_scores(seed, classes, samples, spread, right):
    """Scores that say nothing, that are always right or always wrong, and all between."""
    generator = np.random.default_rng(seed)
    places = generator.integers(0, classes, samples)
    scores = generator.normal(size=(samples, classes))
    scores[np.arange(samples), places] += right
    scores *= generator.choice([-1, 1]) * 2.0**spread
    assert best_temperature(scores, places) == temperature_of_the_whole_grid(scores, places)
