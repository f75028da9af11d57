"""The paper's experiments, and ours: each is a class, whose fields are its settings.

The defaults are for features files. digits.toml replaces some of them for the built-in digits,
and a user's file replaces some of either.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

import safle
from safle_lab.baselines import METHODS
from safle_lab.baselines.base import Count
from safle_lab.experiments.plan import Cell, Experiment, Federation, Plan, Request
from safle_lab.label_noise import KINDS, NoiseKind
from safle_lab.partitions import POOLED

Names = Annotated[tuple[str, ...], Meta(min_length=1)]
Values = dict[str, Any]
Strategy = Literal["integer", "one-hot", "binary-overlap"]
Rate = Annotated[float, Meta(ge=0, le=1)]
ITERATIVE = ("fedavg", "fedprox", "moon", "feddyn", "fedntd", "fednova")
ROBUST = ("fednoro", "fedcorr", "safle-trimmed")
NEED_TEXTS = tuple(name for name, method in METHODS.items() if method.needs_texts)
"""Methods that need texts which describe the classes."""
OURS = ("safle", "safle-smallest", "safle-default")
UNIFORM = "safle-uniform"
"""Priors are worth a row where classes are not equally frequent: a settings file asks for it."""
PROTOCOL = {"rounds": 200, "participation": 0.1, "epochs": 5, "batch": 50}
"""FedNTD's published protocol for CIFAR-10; table 1 has its kinds of partition."""
MANY_CLASSES = ("alpha=0.1", "alpha=0.01", "shards=10", "shards=5")
"""The paper's scenarios of CIFAR-100 and Tiny-ImageNet."""


class Table1(Experiment, frozen=True):
    """Methods x scenarios, and the partitions; ``only`` gives a method scenarios of its own.

    Methods that need texts of the classes take part if the data have such texts.
    """

    title = "Accuracy of every method on non-IID clients"
    question = "Who is how accurate when clients hold few classes each, on the same features?"
    methods: Names = tuple(name for name in METHODS if name not in (*ROBUST, *NEED_TEXTS, UNIFORM))
    scenarios: Names = ("alpha=0.1", "alpha=0.05", "shards=4", "shards=2")
    only: dict[str, Names] = field(default_factory=dict)

    def requests(self, plan: Plan) -> Iterator[Request]:
        """Pictures of the partitions, then methods x scenarios x seeds."""
        for scenario in self.scenarios:
            cell = Cell("partition", scenario, plan.clients_in(scenario), 0)
            yield Request({"partition_of": scenario}, cell)
        added = () if plan.data[0].texts is None else NEED_TEXTS
        for method in dict.fromkeys((*self.methods, *added)):
            for scenario in self.only.get(method, self.scenarios):
                yield from plan.method(method, scenario)


class Bucketing(Experiment, frozen=True):
    """Three ways of bucketing; groups as large as columns and ``largest_group`` allow."""

    title = "Three ways of bucketing"
    question = "Which bucketing is best, and with how many buckets?"
    strategies: tuple[Strategy, ...] = ("integer", "one-hot", "binary-overlap")
    buckets: tuple[int, ...] = (2, 8, 14, 20)
    columns: int = 8192
    largest_group: int = 4
    seeds: int = 1

    def requests(self, plan: Plan) -> Iterator[Request]:
        for strategy in self.strategies:
            for buckets in self.buckets:
                size = self.group_size(strategy, buckets, plan.feature_dim)
                coding = {"buckets": buckets, "group_size": size}
                labels, settings = {"strategy": strategy} | coding, {"bucketing": strategy} | coding
                yield from plan.pooled(labels, self.seeds, settings=settings)

    def group_size(self, strategy: str, buckets: int, feature_dim: int) -> int:
        """The largest group that stays within the columns; at least 1."""
        bucketing = safle.Bucketing(strategy, buckets)
        digits = feature_dim * bucketing.functions
        sizes = range(1, min(self.largest_group, digits) + 1)
        fitting = (s for s in sizes if -(-digits // s) * bucketing.radix**s <= self.columns)
        return max(fitting, default=1)


class Backbones(Experiment, frozen=True):
    """Methods that are the same for any partition, on several features files."""

    title = "Other backbones"
    question = "Does the order of the methods hold on other features?"
    methods: Names = ("afl", *OURS)
    seeds: int = 1

    def requests(self, plan: Plan) -> Iterator[Request]:
        for number, data in enumerate(plan.data):
            labels = {"features": data.name, "feature_dim": int(data.train.shape[1])}
            for name in self.methods:
                yield from plan.pooled(labels, self.seeds, name, data=number)


class Rounds(Experiment, frozen=True):
    """The methods of one scenario; every run records its accuracy on the way."""

    title = "Accuracy against rounds"
    question = "How many exchanges with clients does an accuracy take?"
    methods: Names = ("local", *ITERATIVE, "afl", "deepafl", *OURS)
    scenario: str = "alpha=0.1"

    def requests(self, plan: Plan) -> Iterator[Request]:
        for method in self.methods:
            yield from plan.method(method, self.scenario)


class Communication(Experiment, frozen=True):
    """Methods as in `Rounds`, and SAFLe with ``encoders`` of (buckets, group size)."""

    title = "Accuracy against communication"
    question = "What does an accuracy cost a client, in megabytes really sent and received?"
    methods: Names = (
        *("local", "fedavg", "feddyn", "one-shot-average", "wisard", "fedcgs"),
        *("afl", "deepafl", "safle-smallest", "safle-default"),
    )
    scenario: str = "alpha=0.1"
    encoders: tuple[tuple[int, ...], ...] = ((1, 2), (2, 2), (4, 2), (4, 4), (8, 2))

    def requests(self, plan: Plan) -> Iterator[Request]:
        for method in self.methods:
            yield from plan.method(method, self.scenario)
        for buckets, size in self.encoders:
            labels = {"encoder": f"L={buckets}, G={size}"}
            coding = {"buckets": buckets, "group_size": size}
            yield from plan.method(
                *("safle", self.scenario), labels=labels, settings=coding, seeds=1, tune=False
            )


def small_encoder() -> Values:
    """A small encoder, for experiments that solve many models."""
    return {"buckets": 4, "group_size": 2}


class Clients(Experiment, frozen=True):
    """More clients with fewer samples each."""

    title = "More and more clients"
    question = "What happens when the same samples are spread over ever more clients?"
    methods: Names = ("local", "fedavg", "afl", *OURS)
    scenario: str = "alpha=0.1"
    counts: tuple[int, ...] = (100, 500, 1000)
    seeds: int = 1
    encoder: Values = field(default_factory=small_encoder)

    def requests(self, plan: Plan) -> Iterator[Request]:
        for method in self.methods:
            coding = self.encoder if method == "safle" else {}
            for count in self.counts:
                case: Values = {"labels": {"clients": count}, "clients": count, "seeds": self.seeds}
                yield from plan.method(method, self.scenario, settings=coding, **case)


class Sparsity(Experiment, frozen=True):
    """A fixed model size: many small tables, or few large ones."""

    title = "Many small tables or few large ones"
    question = (
        "At a fixed number of columns, how large should a table be, and how full is the gram?"
    )
    columns: int = 8192
    group_sizes: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7)
    seeds: int = 1

    def requests(self, plan: Plan) -> Iterator[Request]:
        """V = 2^G over G, at about the same E V."""
        for size in self.group_sizes:
            buckets = self.buckets_for(size, plan.feature_dim)
            labels = {"table_rows": 2**size, "group_size": size, "buckets": buckets}
            coding = {"buckets": buckets, "group_size": size}
            yield from plan.pooled(labels, self.seeds, settings=coding)

    def buckets_for(self, group_size: int, feature_dim: int) -> int:
        """L such that E V = (d L / G) 2^G comes nearest to the columns."""
        return max(1, round(self.columns * group_size / (2**group_size * feature_dim)))


class Noise(Experiment, frozen=True):
    """Wrong labels at the clients; settings are chosen with the noise in place."""

    title = "Wrong labels"
    question = "How much accuracy do wrong labels cost?"
    kinds: tuple[NoiseKind, ...] = KINDS
    rates: tuple[Rate, ...] = (0.0, 0.2, 0.3, 0.4, 0.6)
    methods: Names = ("local", "fedavg", *ROBUST, "afl", *OURS)
    scenario: str = "alpha=0.1"
    seeds: int = 1
    encoder: Values = field(default_factory=small_encoder)

    def requests(self, plan: Plan) -> Iterator[Request]:
        for kind in self.kinds:
            for method in self.methods:
                coding = self.encoder if method == "safle" else {}
                for rate in self.rates:
                    case: Values = {"labels": {"noise": kind, "rate": rate}, "seeds": self.seeds}
                    # Without noise, all kinds share one cell, also with other experiments.
                    noise: Values = {"noise": kind, "rate": rate} if rate else {}
                    yield from plan.method(method, self.scenario, settings=coding, **case, **noise)


class Ridge(Experiment, frozen=True):
    """Accuracy over the ridge; ``octaves`` are powers of two around the automatic choice."""

    title = "The ridge, and its automatic choice"
    question = "How much does the ridge decide, and does the choice from the counts alone find it?"
    columns: Names = ("linear", "embedding")
    octaves: tuple[int, ...] = (-12, -9, -6, -4, -2, 0, 2, 4, 6, 9)
    seeds: int = 1
    encoder: Values = field(default_factory=small_encoder)

    def requests(self, plan: Plan) -> Iterator[Request]:
        del plan
        for columns in self.columns:
            settings = {**self.encoder, "columns": columns}
            for seed in range(self.seeds):
                cell = Cell("ridge", POOLED, 1, seed, settings=settings, octaves=self.octaves)
                yield Request({"columns_of": columns}, cell)


class Unlearning(Experiment, frozen=True):
    """Clients leave: their counts are taken back, against counting again without them."""

    title = "Unlearning"
    question = "Is the model without a client the one that never saw it, and what does that cost?"
    columns: Names = ("linear", "embedding")
    leaving: tuple[int, ...] = (1, 10, 50)
    scenario: str = "alpha=0.1"
    seeds: int = 1
    encoder: Values = field(default_factory=small_encoder)

    def requests(self, plan: Plan) -> Iterator[Request]:
        for columns in self.columns:
            settings = {**self.encoder, "columns": columns}
            for leaving in self.leaving:
                for seed in range(self.seeds):
                    partition = (self.scenario, plan.clients_in(self.scenario), seed)
                    cell = Cell("unlearning", *partition, settings=settings, leaving=leaving)
                    yield Request({"columns_of": columns, "leaving": leaving}, cell)


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


def method_defaults() -> dict[str, Values]:
    """Settings of methods on features files, in place of the methods' own defaults."""
    return {
        **{name: dict(PROTOCOL) for name in (*ITERATIVE, "fednoro", "fedcorr")},
        "moon": {"hidden": 64, **PROTOCOL},
        "safle": {"buckets": 8, "group_size": 2},
    }


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of all experiments: shared ones, those of methods, and a table per experiment."""

    federation: Federation = field(default_factory=Federation)
    tuning: Tuning = field(default_factory=Tuning)
    methods: dict[str, Values] = field(default_factory=method_defaults)
    table1: Table1 = field(default_factory=Table1)
    bucketing: Bucketing = field(default_factory=Bucketing)
    backbones: Backbones = field(default_factory=Backbones)
    rounds: Rounds = field(default_factory=Rounds)
    communication: Communication = field(default_factory=Communication)
    clients: Clients = field(default_factory=Clients)
    sparsity: Sparsity = field(default_factory=Sparsity)
    noise: Noise = field(default_factory=Noise)
    ridge: Ridge = field(default_factory=Ridge)
    unlearning: Unlearning = field(default_factory=Unlearning)
