"""Frontier: what accuracy a client's megabytes buy, for every encoder and head.

One round, nothing tuned on a test set: the ridge is chosen by generalised cross-validation
from the summed statistics, the number of random features by the bytes that a rehearsed
client would send, everything else is a default. A client has a hundredth of the training
samples (n=500 on CIFAR-10). Statistics are those of any partition into clients, so they are
counted in one go; a client's bytes are those of a real file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data, frontier_data
from benchmarks.report import Bar, Outcome, note
from benchmarks.settings import REPOSITORY, Settings
from safle import Model, PublicSample, Solution, StackEncoder, count, make_encoder, solve
from safle.encoders import Encoder
from safle.encoders.calibration import Calibration
from safle.errors import SettingsError
from safle.federation.rehearsal import units_within, weigh
from safle.solver.heads import HEADS

CLIENTS = 100
SEEDS, QUICK_SEEDS = (0, 1, 2), (0,)
JUDGED = "averaged"
"""What safle takes by itself."""
BUDGETS = (1, 5, 20)
"""Megabytes a client."""
DEFAULT, LINEAR = "default", "linear (AFL)"
AIMS = {DEFAULT: 74.0, "within 20 MB": 72.8, "within 1 MB": 71.2}
PICTURE = REPOSITORY / "build" / "frontier.png"
Maker = Callable[[Calibration, int], Encoder]


@dataclass(frozen=True)
class Point:
    """One data set, encoder and head: means over the seeds."""

    data: str
    encoder: str
    head: str
    accuracy: float
    deviation: float
    megabytes: float
    columns: int
    seconds: float

    def row(self) -> list[str]:
        return [
            self.encoder,
            self.head,
            f"{100 * self.accuracy:.2f} ± {100 * self.deviation:.2f}",
            f"{self.megabytes:.3g}",
            f"{self.columns:,}",
            f"{self.seconds:.1f}",
        ]


def run(settings: Settings) -> Outcome:
    """Every data set, encoder and head, by seeds."""
    seeds = QUICK_SEEDS if settings.quick else SEEDS
    points: list[Point] = []
    sources = []
    for dataset in frontier_data.at_hand(settings):
        sources.append(dataset.source)
        for name, maker in makers(dataset, quick=settings.quick).items():
            points += _points(name, maker, dataset, seeds)
    picture = _picture(points, PICTURE)
    header = ["encoder", "head", "test accuracy, %", "MB a client", "columns", "seconds"]
    return Outcome(
        figures={
            "points": [vars(point) for point in points],
            "seeds": len(seeds),
            "clients": CLIENTS,
            "picture": str(picture) if picture else None,
        },
        data=", ".join(sources),
        compared="nothing: accuracies stand side by side",
        bars=[] if settings.quick else _bars(points),
        tables={
            f"What a client's megabytes buy: {source}": [
                header,
                *(point.row() for point in points if point.data == source),
            ]
            for source in sources
        },
    )


def makers(dataset: data.Dataset, *, quick: bool) -> dict[str, Maker]:
    """Encoders by name: a calibration and a seed make one."""

    def embedding(sample: Calibration, seed: int, group_size: int) -> Encoder:
        return make_encoder(sample, "embedding", buckets=4, group_size=group_size, seed=seed)

    def linear(sample: Calibration) -> Encoder:
        # As the default encoder has it.
        chosen = make_encoder(sample, units=1).settings.to_dict()
        same = {name: chosen[name] for name in ("transform", "fraction_bits")}
        return make_encoder(sample, "linear", **same)

    found: dict[str, Maker] = {LINEAR: lambda sample, _: make_encoder(sample, "linear")}
    if not quick:
        found |= {
            "linear of square roots": lambda sample, _: linear(sample),
            "embedding L=4 G=4 (SAFLe)": lambda sample, seed: embedding(sample, seed, 4),
            "both, L=4 G=2": lambda sample, seed: StackEncoder(
                [linear(sample), embedding(sample, seed, 2)]
            ),
        }
        for most in BUDGETS:
            units = _affordable(dataset, most)
            if units:
                found[f"within {most} MB"] = lambda sample, seed, units=units: make_encoder(
                    sample, units=units, seed=seed
                )
    return found | {DEFAULT: lambda sample, seed: make_encoder(sample, seed=seed)}


def _affordable(dataset: data.Dataset, megabytes: float) -> int:
    """Units that fit the budget; 0 where none do, or where the default does."""
    note(f"frontier: {dataset.source}, units within {megabytes} MB ...")
    sample = _public(dataset, 0)
    most = make_encoder(sample).settings.to_dict()["units"]
    try:
        units = units_within(
            lambda units: make_encoder(sample, units=units),
            1e6 * megabytes,
            most_units=most,
            samples=len(dataset.train) // CLIENTS,
            classes=len(np.unique(dataset.train_labels)),
        )
    except SettingsError:
        return 0
    return units if units < most else 0


def _public(dataset: data.Dataset, seed: int) -> PublicSample:
    return PublicSample(dataset.train[_shuffled(dataset, seed)[: data.PUBLIC_SAMPLES]])


def _shuffled(dataset: data.Dataset, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(len(dataset.train))


def _points(name: str, maker: Maker, dataset: data.Dataset, seeds: tuple[int, ...]) -> list[Point]:
    """All heads of one encoder."""
    trials: dict[str, list[float]] = {head: [] for head in HEADS}
    sizes, seconds, columns = [], [], 0
    for seed in seeds:
        note(f"frontier: {dataset.source}, {name}, seed {seed} ...")
        begun = time.perf_counter()
        encoder = maker(_public(dataset, seed), seed)
        statistics = count(encoder, dataset.train, dataset.train_labels)
        chosen = solve(statistics, head=JUDGED)
        seconds.append(time.perf_counter() - begun)
        columns = statistics.dim
        for head in HEADS:
            same = head == JUDGED
            solution = chosen if same else solve(statistics, head=head, ridge=chosen.ridge)
            trials[head].append(_accuracy(encoder, solution, dataset))
        client = _shuffled(dataset, seed)[: len(dataset.train) // CLIENTS]
        sent = weigh(encoder, dataset.train[client], dataset.train_labels[client])
        sizes.append(sent.bytes / 1e6)
    note(f"  { ({head: round(100 * fmean(found), 2) for head, found in trials.items()}) }")
    spent, size, where = fmean(seconds), fmean(sizes), dataset.source
    return [
        Point(where, name, head, fmean(found), _deviation(found), size, columns, spent)
        for head, found in trials.items()
    ]


def _accuracy(encoder: Encoder, solution: Solution, dataset: data.Dataset) -> float:
    model = Model(encoder, solution)
    predicted: NDArray[Any] = model.predict(dataset.test)
    return float((predicted == dataset.test_labels).mean())


def _deviation(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _bars(points: list[Point]) -> list[Bar]:
    """Of the head that safle takes; what is larger than its budget has nothing."""
    bars = []
    for encoder, aim in AIMS.items():
        for point in points:
            if (point.data, point.encoder, point.head) == (frontier_data.JUDGED, encoder, JUDGED):
                most = float("inf") if encoder == DEFAULT else float(encoder.split()[1])
                accuracy = 100 * point.accuracy if point.megabytes <= most else 0.0
                bars.append(Bar(f"frontier: accuracy, {encoder}", accuracy, aim))
    return bars


def _picture(points: list[Point], path: Path) -> Path | None:
    """One panel a data set: accuracy over megabytes, the heads of an encoder joined."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    sources = list(dict.fromkeys(point.data for point in points))
    colours = {name: f"C{at}" for at, name in enumerate(dict.fromkeys(p.encoder for p in points))}
    figure = Figure(figsize=(8, 0.4 + 3.6 * len(sources)), layout="constrained")
    figure.suptitle("circle: least squares, square: discriminant, diamond: averaged", fontsize=10)
    for axes, source in zip(
        figure.subplots(len(sources), squeeze=False)[:, 0], sources, strict=True
    ):
        own = [point for point in points if point.data == source]
        names = list(dict.fromkeys(point.encoder for point in own))
        for name in names:
            pair = [point for point in own if point.encoder == name]
            places = [point.megabytes for point in pair], [100 * point.accuracy for point in pair]
            axes.plot(*places, color=colours[name], alpha=0.4)
            for point, marker in zip(pair, "osD", strict=True):
                axes.errorbar(
                    [point.megabytes],
                    [100 * point.accuracy],
                    yerr=[100 * point.deviation],
                    fmt=marker,
                    color=colours[name],
                    capsize=3,
                    label=name if point.head == JUDGED else None,
                )
        axes.set(xscale="log", xlabel="MB a client, sent once", ylabel="test accuracy, %")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_title(source, fontsize=10)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)
    return path
