"""Choosing a method's settings on held-out training samples; the test set is not looked at.

One setting after the other, in the order of the method's grid, the others as chosen so
far. Methods that refine another one (`Method.tuned_like`) begin with its choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from safle.lab.baselines import METHODS, method_named
from safle.lab.experiments.cells import Cell, Figures
from safle.lab.experiments.plan import Request
from safle.lab.experiments.scenario import POOLED

Choice = dict[str, Any]
Measured = Callable[[Cell, Request], Figures]


class Tuner:
    """Chooses settings once for every method and scenario; seeds share the choice."""

    def __init__(self, settings: Mapping[str, Any], measured: Measured) -> None:
        self._tuning = settings["tuning"]
        self._methods = settings["methods"]
        self._measured = measured

    def settings(self, request: Request) -> Choice:
        """All settings of the method: given ones, then chosen ones, then defaults."""
        method = method_named(request.arguments["method"])
        given = {**self._methods.get(method.name, {}), **request.settings}
        chosen: Choice = {}
        if method.tuned_like and request.tune:
            parent = self._parent(request)
            chosen = {
                name: value
                for name, value in self.settings(parent).items()
                if name in METHODS[method.tuned_like].grid and name in method.defaults
            }
        chosen = {**method.defaults, **chosen, **given}
        for name, candidates in self._searched(request):
            scores = {
                at: self._score(request, {**chosen, name: value})
                for at, value in enumerate(candidates)
            }
            # The first of equals: the grid's order decides, not the last bit of a mean.
            chosen[name] = candidates[max(scores, key=lambda at: (scores[at], -at))]
        return chosen

    def _searched(self, request: Request) -> Iterator[tuple[str, list[Any]]]:
        method = method_named(request.arguments["method"])
        if not request.tune:
            return
        grids = self._tuning["grids"].get(method.name, method.grid)
        given = {**self._methods.get(method.name, {}), **request.settings}
        for name, candidates in grids.items():
            if name not in given and len(candidates) > 1:
                yield name, list(candidates)

    def _parent(self, request: Request) -> Request:
        method = method_named(request.arguments["method"])
        return Request(
            request.labels,
            {**request.arguments, "method": method.tuned_like},
            data=request.data,
        )

    def _score(self, request: Request, settings: Choice) -> float:
        method = method_named(request.arguments["method"])
        arguments = {
            **request.arguments,
            # Where the partition changes nothing, all scenarios share one choice.
            **({"scenario": POOLED, "clients": 1} if method.invariant else {}),
            "seed": 0,
            "held_out": self._tuning["held_out"],
            "settings": self._shortened(settings),
        }
        return float(self._measured(Cell("method", arguments), request)["accuracy"])

    def _shortened(self, settings: Choice) -> Choice:
        """Candidates are tried with fewer rounds, and fewer layers."""
        return {
            name: min(value, self._tuning[name]) if name in ("rounds", "layers") else value
            for name, value in settings.items()
        }
