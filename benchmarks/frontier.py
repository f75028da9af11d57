"""Frontier: what accuracy a client's megabytes buy, for every encoder and head.

One round, nothing tuned on the test set: the ridge is chosen by generalised cross-validation
from the summed statistics, everything else is a default. A client has a hundredth of the
training samples (n=500 on CIFAR-10). Statistics are those of any partition into clients, so
they are counted in one go; a client's bytes are those of a real file.
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

from benchmarks import data
from benchmarks.report import Bar, Outcome, note
from benchmarks.settings import REPOSITORY, Settings
from safle import EmbeddingEncoder, LinearEncoder, Model, PublicSample, Statistics, count, solve
from safle.bucketing import BinaryOverlap
from safle.calibration import Calibration
from safle.encoders import Encoder
from safle.encoders.default import default_encoder
from safle.wire import encode_statistics

CLIENTS = 100
SEEDS, QUICK_SEEDS = (0, 1, 2), (0,)
HEADS = ("least-squares", "discriminant")
JUDGED_HEAD = "discriminant"
"""The better one on samples held out of the training set: see docs/heads.md."""
UNITS = (192, 1024, 4096)
DEFAULT = "default"
PICTURE = REPOSITORY / "build" / "frontier.png"
Maker = Callable[[Calibration, int], Encoder]


@dataclass(frozen=True)
class Point:
    """One encoder and head: means over the seeds."""

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
            f"{self.megabytes:.2f}",
            f"{self.columns:,}",
            f"{self.seconds:.1f}",
        ]


def makers(quick: bool) -> dict[str, Maker]:
    """Encoders by name: a calibration and a seed make one."""
    found: dict[str, Maker] = {
        "linear (AFL)": lambda sample, _: LinearEncoder.calibrated(sample),
        "linear of square roots": lambda sample, _: LinearEncoder.calibrated(
            sample, transform="square-root", fraction_bits=6
        ),
        "embedding L=4 G=4 (SAFLe)": lambda sample, seed: EmbeddingEncoder.calibrated(
            sample, bucketing=BinaryOverlap(4), group_size=4, seed=seed
        ),
    }
    for units in UNITS:
        found[f"random features, {units:,}"] = lambda sample, seed, units=units: default_encoder(
            sample, units=units, seed=seed
        )
    found[DEFAULT] = lambda sample, seed: default_encoder(sample, seed=seed)
    return {name: found[name] for name in ("linear (AFL)", DEFAULT)} if quick else found


def run(settings: Settings) -> Outcome:
    """Every encoder and head, by seeds."""
    dataset = data.load(settings)
    seeds = QUICK_SEEDS if settings.quick else SEEDS
    points = [
        point
        for name, maker in makers(settings.quick).items()
        for point in _points(name, maker, dataset, seeds)
    ]
    picture = _picture(points, PICTURE)
    header = ["encoder", "head", "test accuracy, %", "MB a client", "columns", "seconds"]
    return Outcome(
        figures={
            "points": [vars(point) for point in points],
            "seeds": len(seeds),
            "clients": CLIENTS,
            "picture": str(picture) if picture else None,
        },
        data=dataset.source,
        compared="nothing: accuracies stand side by side",
        bars=[] if settings.quick else _bars(points),
        tables={"What a client's megabytes buy": [header, *(point.row() for point in points)]},
    )


def _points(name: str, maker: Maker, dataset: data.Dataset, seeds: tuple[int, ...]) -> list[Point]:
    """Both heads of one encoder."""
    trials: dict[str, list[float]] = {head: [] for head in HEADS}
    sizes, seconds, columns = [], [], 0
    for seed in seeds:
        note(f"frontier: {name}, seed {seed} ...")
        begun = time.perf_counter()
        generator = np.random.default_rng(seed)
        shuffled = generator.permutation(len(dataset.train))
        public = PublicSample(dataset.train[shuffled[: data.PUBLIC_SAMPLES]])
        encoder = maker(public, seed)
        statistics = count(encoder, dataset.train, dataset.train_labels)
        ridge = solve(statistics).ridge
        seconds.append(time.perf_counter() - begun)
        columns = statistics.dim
        for head in HEADS:
            trials[head].append(_accuracy(encoder, statistics, ridge, head, dataset))
        client = shuffled[: len(shuffled) // CLIENTS]
        contribution = count(encoder, dataset.train[client], dataset.train_labels[client])
        sizes.append(len(encode_statistics(contribution)) / 1e6)
    return [
        Point(name, head, fmean(found), _deviation(found), fmean(sizes), columns, fmean(seconds))
        for head, found in trials.items()
    ]


def _accuracy(
    encoder: Encoder, statistics: Statistics, ridge: float, head: Any, dataset: data.Dataset
) -> float:
    solution = solve(statistics, ridge=ridge, head=head)
    predicted: NDArray[Any] = Model.from_solution(encoder, statistics, solution).predict(
        dataset.test
    )
    return float((predicted == dataset.test_labels).mean())


def _deviation(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _bars(points: list[Point]) -> list[Bar]:
    """By size, not by what the test set says: the most units that fit a client's budget."""
    own = [p for p in points if p.head == JUDGED_HEAD and p.encoder.startswith("random")]
    default = next(p for p in points if p.head == JUDGED_HEAD and p.encoder == DEFAULT)

    def largest(most: float) -> float:
        fitting = [point for point in own if point.megabytes <= most]
        return 100 * max(fitting, key=lambda point: point.columns).accuracy if fitting else 0.0

    return [
        Bar("frontier: accuracy of the default", 100 * default.accuracy, 74.0),
        Bar("frontier: accuracy at 20 MB a client", largest(20.0), 72.8),
        Bar("frontier: accuracy at 1 MB a client", largest(1.0), 71.2),
    ]


def _picture(points: list[Point], path: Path) -> Path | None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for head, marker in zip(HEADS, "os", strict=True):
        own = sorted((p for p in points if p.head == head), key=lambda p: p.megabytes)
        places = [p.megabytes for p in own], [100 * p.accuracy for p in own]
        axes.errorbar(
            *places, yerr=[100 * p.deviation for p in own], fmt=marker, label=head, capsize=3
        )
        if head == HEADS[0]:
            for place, point in enumerate(own):
                # The first to the left: small encoders stand close together.
                axes.annotate(
                    point.encoder,
                    (point.megabytes, 100 * point.accuracy),
                    xytext=(6, -13) if place else (-6, -3),
                    ha="left" if place else "right",
                    textcoords="offset points",
                    fontsize=8,
                )
    axes.set(xscale="log", xlabel="MB a client, sent once", ylabel="test accuracy, %")
    axes.margins(x=0.3, y=0.1)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)
    return path
