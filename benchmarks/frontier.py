"""Frontier: what accuracy a client's megabytes buy, for every encoder and head.

One round, nothing tuned on a test set: the ridge is chosen by generalised cross-validation
from the summed statistics; beside the default there are encoders of fewer units, and
everything else is a default. A client has a hundredth of the training
samples, at most 500. Statistics are those of any partition into clients, so they are
counted in one go; a client's bytes are those of a real file. A network trained on the pooled
samples by gradient descent stands beside.

What one seed of one encoder gave is kept in build/frontier, so that a run can be continued;
remove the folder to measure again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data, frontier_data
from benchmarks.frontier_network import train_network
from benchmarks.frontier_picture import draw
from benchmarks.report import Bar, Outcome, note
from benchmarks.settings import REPOSITORY, Settings
from safle import HEADS, Encoder, Model, Solution, count, encode, make_encoder, public_sample
from safle.basics import to_mapping
from safle.basics.progress import no_progress
from safle.encoders.calibration import Calibration
from safle.encoders.random_features import suits_by_class
from safle.errors import InvalidInput
from safle.solver.choice import choose_ridge
from safle.solver.least_squares import LeastSquares, solve_exactly
from safle.statistics.statistics import Sums

CLIENTS, MOST_SAMPLES = 100, 500
SEEDS, QUICK_SEEDS = (0, 1, 2), (0,)
JUDGED = "averaged"
"""What safle takes by itself."""
UNITS = (900, 4_096)
"""Smaller than the default: about 1 and 3 MB a client with 512 features."""
DEFAULT, LINEAR, NETWORK = "default", "linear (AFL)", "pooled network"
LINEAR_BY_CLASS, OTHER = "linear by class", "default, the other way"
"""The other way: by class where the default is not, and not by class where it is."""
AIMS = {
    ("cifar10", LINEAR_BY_CLASS): (0.6, 72.6),
    ("cifar10", DEFAULT): (8.0, 74.2),
    (frontier_data.TINY, LINEAR_BY_CLASS): (1.0, 56.0),
    (frontier_data.TINY, DEFAULT): (float("inf"), 56.5),
}
"""Megabytes at most, and per cent at least."""
PICTURE, KEPT = REPOSITORY / "build" / "frontier.png", REPOSITORY / "build" / "frontier"
Maker = Callable[[Calibration, int], Encoder]
"""A calibration and a seed make one."""


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
        for name, maker in makers(dataset, quick=settings.quick):
            points += _points(name, maker, dataset, seeds, keep=not settings.quick)
        points += _network(dataset, seeds, keep=not settings.quick)
    picture = draw(points, PICTURE)
    header = ["encoder", "head", "test accuracy, %", "MB per client", "columns", "seconds"]
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


def makers(dataset: data.Dataset, *, quick: bool) -> Iterator[tuple[str, Maker]]:
    """Encoders by name, what is judged first: a run that is cut short has that."""

    def embedding(sample: Calibration, seed: int, group_size: int) -> Encoder:
        return make_encoder(sample, "embedding", buckets=4, group_size=group_size, seed=seed)

    def linear(sample: Calibration, **settings: Any) -> Encoder:
        # As the default encoder has it.
        chosen = to_mapping(make_encoder(sample, units=1).settings)
        same = {name: chosen[name] for name in ("transform", "fraction_bits")}
        return make_encoder(sample, "linear", **same, **settings)

    default = partial(_default, dataset)
    if not quick:
        yield LINEAR_BY_CLASS, lambda sample, _: linear(sample, by_class=True)
    yield DEFAULT, default
    yield LINEAR, lambda sample, _: make_encoder(sample, "linear")
    yield OTHER, lambda sample, seed: default(sample, seed, by_class=not _by_class(dataset))
    if quick:
        return
    yield "linear of square roots", lambda sample, _: linear(sample)
    yield "embedding L=4 G=4 (SAFLe)", lambda sample, seed: embedding(sample, seed, 4)
    for units in UNITS:
        yield f"{units:,} units", partial(default, units=units)


def _by_class(dataset: data.Dataset) -> bool:
    """What `safle encoder make` chooses where it knows the classes, and the estimator."""
    return suits_by_class(dataset.train.shape[1], len(np.unique(dataset.train_labels)))


def _default(dataset: data.Dataset, sample: Calibration, seed: int, **settings: Any) -> Encoder:
    return make_encoder(sample, seed=seed, **{"by_class": _by_class(dataset)} | settings)


def _public(dataset: data.Dataset, seed: int) -> Calibration:
    return public_sample(dataset.train[_shuffled(dataset, seed)[: data.PUBLIC_SAMPLES]])


def _shuffled(dataset: data.Dataset, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(len(dataset.train))


def _client_samples(dataset: data.Dataset) -> int:
    return min(MOST_SAMPLES, len(dataset.train) // CLIENTS)


def _points(
    name: str, maker: Maker, dataset: data.Dataset, seeds: tuple[int, ...], *, keep: bool
) -> list[Point]:
    """All heads of one encoder."""
    trials = []
    for seed in seeds:
        encoder = maker(_public(dataset, seed), seed)
        trial = partial(_try_heads, encoder, dataset, seed)
        trials.append(_kept(f"{dataset.source}, {name}, seed {seed}", trial, keep=keep))
    return _means(name, dataset, trials)


def _network(dataset: data.Dataset, seeds: tuple[int, ...], *, keep: bool) -> list[Point]:
    """Not federated: what a client would send is its samples."""

    def trial(seed: int) -> dict[str, Any]:
        begun = time.perf_counter()
        accuracy = train_network(dataset, seed)
        return {
            "accuracies": {"gradient descent": accuracy},
            "seconds": time.perf_counter() - begun,
            "columns": dataset.train.shape[1],
            "megabytes": _client_samples(dataset) * dataset.train[0].nbytes / 1e6,
        }

    trials = [
        _kept(f"{dataset.source}, {NETWORK}, seed {seed}", partial(trial, seed), keep=keep)
        for seed in seeds
    ]
    return _means(NETWORK, dataset, trials)


def _kept(name: str, trial: Callable[[], dict[str, Any]], *, keep: bool) -> dict[str, Any]:
    """What the trial gives, or gave in an earlier run."""
    path = KEPT / f"{name.replace('/', '-')}.json"
    if keep and path.exists():
        note(f"frontier: {name} is in {path}")
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    note(f"frontier: {name} ...")
    found = trial()
    note(f"  { ({head: round(100 * right, 2) for head, right in found['accuracies'].items()}) }")
    if keep:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    return found


def _try_heads(encoder: Encoder, dataset: data.Dataset, seed: int) -> dict[str, Any]:
    """Accuracies of all heads that the encoder's statistics allow, and what they took."""
    begun = time.perf_counter()
    statistics = count(encoder, dataset.train, dataset.train_labels)
    base = _solve(statistics)

    def base_of(part: Sums = statistics, _ridge: object = "auto") -> LeastSquares:
        """All heads share what is solved of all columns."""
        return base if part is statistics else _solve(part)

    accuracies = {}
    seconds = 0.0
    for name in sorted(HEADS, key=lambda name: name != JUDGED):
        # Some heads need sums that are counted by class.
        with suppress(InvalidInput):
            fitted = HEADS[name].fit(statistics, base_of)
            seconds = seconds or time.perf_counter() - begun
            solution = Solution.of(statistics, base, fitted)
            accuracies[name] = dataset.accuracy(Model.of(encoder, solution))
    client = _shuffled(dataset, seed)[: _client_samples(dataset)]
    sent = count(encoder, dataset.train[client], dataset.train_labels[client])
    return {
        "accuracies": accuracies,
        "seconds": seconds,
        "columns": statistics.dim,
        "megabytes": len(encode(sent)) / 1e6,
    }


def _solve(statistics: Sums) -> LeastSquares:
    return solve_exactly(choose_ridge(statistics, "auto", "auto", no_progress))


def _means(name: str, dataset: data.Dataset, trials: list[dict[str, Any]]) -> list[Point]:
    columns = trials[-1]["columns"]
    seconds, size = (fmean(trial[key] for trial in trials) for key in ("seconds", "megabytes"))
    points = []
    for head in trials[0]["accuracies"]:
        found = [trial["accuracies"][head] for trial in trials]
        mean, deviation = fmean(found), _deviation(found)
        points.append(Point(dataset.source, name, head, mean, deviation, size, columns, seconds))
    return points


def _deviation(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _bars(points: list[Point]) -> list[Bar]:
    """Of the head that safle takes; what is larger than its budget has nothing."""
    bars = []
    for (source, encoder), (most, aim) in AIMS.items():
        for point in points:
            if (point.data, point.encoder, point.head) == (source, encoder, JUDGED):
                accuracy = 100 * point.accuracy if point.megabytes <= most else 0.0
                bars.append(Bar(f"frontier: accuracy, {source}, {encoder}", accuracy, aim))
    return bars
