"""What an experiment asks for: requests, each of one cell, which is one measurement.

Settings are chosen before the cell of a request is measured.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from msgspec import Struct
from msgspec import field as struct_field

from safle_lab.baselines import method_named
from safle_lab.baselines.base import Count
from safle_lab.experiments.data import REAL, DataSet, digest_of
from safle_lab.partitions import POOLED


@dataclass(frozen=True)
class Cell:
    """One measurement to make.

    Attributes
    ----------
    kind : one of `safle_lab.experiments.measuring.MEASURES`
    scenario, clients : how clients share the samples, see `safle_lab.partitions.partition`
    method, settings : the method's name and its settings
    noise, rate : the kind of label noise and its rate; "" for none
    held_out : share of the training samples that replaces the test set; 0 for none
    octaves : ridges to try, as powers of two times the automatic choice
    leaving : number of clients whose counts are taken back
    """

    kind: str
    scenario: str
    clients: int
    seed: int
    method: str = "safle"
    settings: dict[str, Any] = field(default_factory=dict)
    noise: str = ""
    rate: float = 0.0
    held_out: float = 0.0
    octaves: tuple[int, ...] = ()
    leaving: int = 0

    def key(self, data: DataSet) -> str:
        """The name of the cell's file, without its ending."""
        identity = {"cell": asdict(self), "data": data.fingerprint}
        if self.scenario == REAL and data.clients is not None:
            identity["clients"] = digest_of(data.clients)
            if data.test_clients is not None:
                identity["test clients"] = digest_of(data.test_clients)
        if self.kind == "method":
            method = method_named(self.method)
            if method.needs_texts and data.texts is not None:
                identity["texts"] = digest_of(data.texts)
            if method.program:
                identity["program"] = method.program
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


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
    seeds_of: dict[str, Count] = struct_field(default_factory=lambda: {"deepafl": 1})


@dataclass(frozen=True)
class Plan:
    """The data, the federation, and the requests that several experiments share."""

    data: Sequence[DataSet]
    federation: Federation

    @property
    def feature_dim(self) -> int:
        return int(self.data[0].train.shape[1])

    def clients_in(self, scenario: str) -> int:
        """How many clients share the samples."""
        known = {POOLED: 1, REAL: self.data[0].client_count}
        return known.get(scenario, self.federation.clients)

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
        fields = {"clients": self.clients_in(scenario), **cell_fields}
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
