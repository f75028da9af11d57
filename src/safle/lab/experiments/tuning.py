"""Choosing a method's settings on held-out training samples; the test set is not looked at.

One setting after the other, in the order of the method's grid, the others as chosen so
far. Methods that refine another one (`Method.tuned_like`) begin with its choice. Seeds
share the choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from safle.lab.baselines import METHODS, method_named
from safle.lab.experiments.cells import Cell, Figures
from safle.lab.experiments.plan import Request
from safle.lab.experiments.suite import Settings
from safle.lab.partitions import POOLED

Choice = dict[str, Any]
Measured = Callable[[Cell, int], Figures]
"""A cell and the number of its data -> its figures."""


def choose_settings(request: Request, settings: Settings, measured: Measured) -> Choice:
    """All settings of the request's method: given ones, then chosen ones, then defaults."""
    method = method_named(request.cell.method)
    given = {**settings.methods.get(method.name, {}), **request.cell.settings}
    chosen: Choice = asdict(method.defaults)
    if method.tuned_like and request.tune:
        parent = replace(request.cell, method=method.tuned_like, settings={})
        inherited = choose_settings(replace(request, cell=parent), settings, measured)
        chosen |= {name: inherited[name] for name in METHODS[method.tuned_like].grid}
    chosen |= given
    grids = settings.tuning.grids.get(method.name, method.grid) if request.tune else {}
    for name, candidates in grids.items():
        if name in given or len(candidates) < 2:
            continue
        scores = [
            _score(request, {**chosen, name: value}, settings, measured) for value in candidates
        ]
        # The first of equals: the grid's order decides, not the last bit of a mean.
        chosen[name] = candidates[scores.index(max(scores))]
    return chosen


def _score(request: Request, choice: Choice, settings: Settings, measured: Measured) -> float:
    """Accuracy of a candidate on held-out samples, with fewer rounds and fewer layers."""
    tuning, cell = settings.tuning, request.cell
    shortest = {"rounds": tuning.rounds, "layers": tuning.layers}
    short = {name: min(choice[name], most) for name, most in shortest.items() if name in choice}
    if method_named(cell.method).invariant:
        # Where the partition changes nothing, all scenarios share one choice.
        cell = replace(cell, scenario=POOLED, clients=1)
    asked = replace(cell, seed=0, held_out=tuning.held_out, settings={**choice, **short})
    return float(measured(asked, request.data)["accuracy"])
