"""Federation: 100 clients through files, against one pooled fit of the same samples.

Federated: each client counts its 500 samples (E=512, V=16) and writes one file; the
server reads, verifies and adds the files one by one, and solves. Pooled: one count of
all samples and the same solve. Clients run one after the other here, so the overhead is
that of all their work on one machine; in a federation they run side by side.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.memory import Peak, Work, peak_of
from benchmarks.report import Bar, Disagreement, Outcome, note
from benchmarks.settings import Settings
from benchmarks.warming import load_solver
from safle import Encoder, Model, count, read_statistics, solve, sum_statistics, write_statistics
from safle.lab.partitions import iid
from safle.statistics import Accumulator
from safle.wire import add_contribution

CLIENTS, FEW_CLIENTS = 100, 10
BAR_OVERHEAD, BAR_GROWTH = 4.0, 1.05
REPEATS = 2

Parts = list[NDArray[np.int64]]


class Stopwatch:
    """Seconds by name of what was done, added up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def run(settings: Settings) -> Outcome:
    """Both ways, in turns; then the server alone, with few and with all clients."""
    dataset = data.load(settings)
    encoder = data.embedding(dataset.train)
    parts = iid(len(dataset.train), clients=CLIENTS, generator=np.random.default_rng(0))
    federated: list[Stopwatch] = []
    pooled: list[Stopwatch] = []
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"client-{client}.safle" for client in range(CLIENTS)]
        warm_up(encoder, dataset, paths[0])
        for turn in range(1 if settings.quick else REPEATS):
            note(f"federation, turn {turn + 1} ...")
            digests = set()
            for clocks, fit in ((pooled, _pooled), (federated, partial(federate, parts, paths))):
                clocks.append(Stopwatch())
                digests.add(fit(encoder, dataset, clocks[-1]).digest)
            if len(digests) != 1:
                raise Disagreement("federation: the federated model is not the pooled one")
        note("federation: the server's peak memory ...")
        peaks = {n: peak_of(prepare, paths[:n], True) for n in (FEW_CLIENTS, CLIENTS)}
        sums = {n: peak_of(prepare, paths[:n], False) for n in (FEW_CLIENTS, CLIENTS)}
    return _outcome(dataset.source, federated, pooled, peaks, sums)


def _outcome(
    source: str,
    federated: Sequence[Stopwatch],
    pooled: Sequence[Stopwatch],
    peaks: dict[int, Peak],
    sums: dict[int, Peak],
) -> Outcome:
    best = min(federated, key=lambda clock: clock.total)
    alone = min(pooled, key=lambda clock: clock.total)
    overhead = best.total / alone.total
    growth = _growth(peaks)
    return Outcome(
        figures={
            "overhead": overhead,
            "client_seconds": (best.seconds["count"] + best.seconds["write"]) / CLIENTS,
            "server_seconds_per_client": (best.seconds["read"] + best.seconds["sum"]) / CLIENTS,
            "server_peak_bytes": {str(n): peak.size for n, peak in peaks.items()},
            "server_peak_growth": growth,
            "sum_peak_bytes": {str(n): peak.size for n, peak in sums.items()},
            "sum_peak_growth": _growth(sums),
            "seconds": {"federated": best.total, "pooled": alone.total},
            "federated_parts": best.seconds,
            "pooled_parts": alone.seconds,
            "spread": {
                "federated": max(clock.total for clock in federated) / best.total,
                "pooled": max(clock.total for clock in pooled) / alone.total,
            },
        },
        data=source,
        compared="the bytes of the saved model, by digest",
        bars=[
            Bar("federation: time over a pooled fit", overhead, BAR_OVERHEAD, at_most=True),
            Bar("federation: server's peak, 100 over 10 clients", growth, BAR_GROWTH, True),
        ],
    )


def _growth(peaks: dict[int, Peak]) -> float:
    return peaks[CLIENTS].size / peaks[FEW_CLIENTS].size


def _pooled(encoder: Encoder, dataset: data.Dataset, clock: Stopwatch) -> Model:
    with clock.on("count"):
        statistics = count(encoder, dataset.train, dataset.train_labels)
    with clock.on("solve"):
        return Model(encoder, solve(statistics))


def federate(
    parts: Parts, paths: Sequence[Path], encoder: Encoder, dataset: data.Dataset, clock: Stopwatch
) -> Model:
    """The model of clients that count into files, one after the other."""
    for part, path in zip(parts, paths, strict=True):
        features, labels = dataset.train[part], dataset.train_labels[part]
        with clock.on("count"):
            contribution = count(encoder, features, labels)
        with clock.on("write"):
            write_statistics(path, contribution)
    total = Accumulator(encoder)
    for path in paths:
        with clock.on("read and sum"):
            add_contribution(total, path.read_bytes())
    statistics = total.snapshot()
    with clock.on("solve"):
        return Model(encoder, solve(statistics))


def warm_up(encoder: Encoder, dataset: data.Dataset, path: Path) -> None:
    """Compile every kernel, load every library."""
    features, labels = dataset.head(40)
    write_statistics(path, count(encoder, features, labels))
    sum_statistics([read_statistics(path), count(encoder, features[:20], labels[:20])])
    load_solver()


def prepare(paths: Sequence[Path], solving: bool) -> Work:
    """A server with its libraries loaded; the work is to sum the files, and maybe solve."""
    first = read_statistics(paths[0])
    sum_statistics([first, first])
    if solving:
        load_solver()

    def work() -> None:
        total = Accumulator(first)
        for path in paths:
            add_contribution(total, path.read_bytes())
        if solving:
            solve(total.snapshot())

    return work
