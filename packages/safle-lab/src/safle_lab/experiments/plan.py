"""The requests of an experiment; settings are chosen before a request is measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct, field

from safle.demo import POOLED
from safle_lab.baselines import method_named
from safle_lab.baselines.base import Count
from safle_lab.experiments.cells import Cell
from safle_lab.experiments.data import DataSet


@dataclass(frozen=True)
class Request:
    """One figure of a table.

    Attributes
    ----------
    labels : what identifies it beside the seed: method, scenario, ...
    cell : the measurement; it has only those settings that the experiment fixes
    tune : whether the method's grid is searched on held-out training samples
    data : number of the data set in `Plan.data`
    """

    labels: dict[str, Any]
    cell: Cell
    tune: bool = False
    data: int = 0


class Federation(Struct, frozen=True, forbid_unknown_fields=True):
    """Number of clients and seeds; ``seeds_of`` has fewer seeds for methods that take long."""

    clients: Count = 100
    seeds: Count = 3
    seeds_of: dict[str, Count] = field(default_factory=lambda: {"deepafl": 1})


class Tuning(Struct, frozen=True, forbid_unknown_fields=True):
    """How settings are chosen.

    Attributes
    ----------
    held_out : share of the training samples on which settings are chosen
    rounds, layers : most rounds and layers with which a candidate is trained
    judged : number of last rounds whose mean accuracy decides; a single round says
        little where a few clients take part in each
    grids : candidates in place of a method's own, by method and setting
    """

    held_out: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    rounds: Count = 60
    layers: Count = 2
    judged: Count = 10
    grids: dict[str, dict[str, tuple[Any, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """The data, the federation, and the requests that several experiments share."""

    data: Sequence[DataSet]
    federation: Federation

    @property
    def feature_dim(self) -> int:
        return int(self.data[0].train.shape[1])

    def method(
        self,
        name: str,
        scenario: str,
        *,
        labels: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        seeds: int = 0,
        tune: bool = True,
        data: int = 0,
        **cell_fields: Any,
    ) -> Iterator[Request]:
        """A method in a scenario, for every seed; ``cell_fields`` go into the cell."""
        fields = {"clients": 1 if scenario == POOLED else self.federation.clients, **cell_fields}
        count = seeds or self.federation.seeds_of.get(name, self.federation.seeds)
        named = {"method": method_named(name).title, "scenario": scenario, **(labels or {})}
        for seed in range(count):
            cell = Cell(
                "method", scenario, seed=seed, method=name, settings=dict(settings or {}), **fields
            )
            yield Request(named, cell, tune, data)

    def pooled(
        self, labels: Mapping[str, Any], seeds: int, name: str = "safle", **more: Any
    ) -> Iterator[Request]:
        """A method with all samples at one client, as partitions change nothing; not tuned."""
        return self.method(name, POOLED, labels=labels, seeds=seeds, tune=False, **more)


class Experiment(Struct, frozen=True, forbid_unknown_fields=True):
    """A table or figure of the paper, or of ours; ``question`` is what it answers."""

    title: ClassVar[str]
    question: ClassVar[str]

    def requests(self, plan: Plan) -> Iterator[Request]:
        """The figures that the experiment needs."""
        raise NotImplementedError
