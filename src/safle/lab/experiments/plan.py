"""What an experiment asks for: requests, which become cells once settings are chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from safle.lab.baselines import method_named
from safle.lab.experiments.data import DataSet

Row = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """One figure of a table.

    Attributes
    ----------
    labels : what identifies it beside the seed: method, scenario, ...
    arguments : of the cell, without the settings
    settings : of the method, fixed by the experiment
    kind : of the cell
    tune : whether the method's grid is searched on held-out training samples
    data : which data set, where there are several
    """

    labels: dict[str, Any]
    arguments: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    kind: str = "method"
    tune: bool = True
    data: int = 0


@dataclass(frozen=True)
class Plan:
    """Data, settings, and the requests that several experiments share."""

    data: Sequence[DataSet]
    settings: Mapping[str, Any]

    @property
    def clients(self) -> int:
        return int(self.settings["federation"]["clients"])

    def seeds(self, method: str) -> range:
        """Seeds that a method is run with."""
        federation = self.settings["federation"]
        return range(int(federation["seeds_of"].get(method, federation["seeds"])))

    def method(
        self,
        name: str,
        scenario: str,
        *,
        labels: Mapping[str, Any] | None = None,
        clients: int | None = None,
        noise: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        seeds: range | None = None,
        tune: bool = True,
        data: int = 0,
    ) -> list[Request]:
        """A method in a scenario, for every seed."""
        method = method_named(name)
        count = 1 if scenario == "pooled" else clients or self.clients
        return [
            Request(
                {"method": method.title, "scenario": scenario, **(labels or {})},
                {
                    "method": name,
                    "scenario": scenario,
                    "clients": count,
                    "seed": seed,
                    "noise": dict(noise) if noise else None,
                },
                dict(settings or {}),
                tune=tune,
                data=data,
            )
            for seed in (self.seeds(name) if seeds is None else seeds)
        ]


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or of ours.

    Attributes
    ----------
    question : what it answers, in a sentence
    requests : what it needs measured
    """

    name: str
    title: str
    question: str
    requests: Callable[[Plan], list[Request]]
