"""Federation: 100 clients through files, against one pooled fit of the same samples.

Federated: each client counts its 500 samples and writes one file; the server reads, verifies
and adds the files one by one, and solves. Pooled: one count of all samples and the same
solve. Clients run one after the other here, so the overhead is that of all their work on one
machine; in a federation they run side by side. With the paper's encoder (E=512, V=16), and
under ``default`` with the default one. What a server does for a client is set beside one
float64 product ``Z.T @ Z`` of that client's size, and its memory beside one gram.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.memory import Peak, Work, load_solver, peak_of
from benchmarks.report import Bar, Disagreement, Outcome, note
from benchmarks.settings import Settings
from safle import Accumulator, Encoder, Model, count, read, solve, sum_statistics, write
from safle.server.limits import open_contribution
from safle.wire.container import read_limited
from safle_lab.partitions import partition

CLIENTS, QUICK_CLIENTS = (10, 100), (2, 6)
"""The server's peak is measured with few and with all."""
BAR_OVERHEAD = {"paper": 4.0, "default": 3.5}
BAR_GROWTH, BAR_SERVER, BAR_GRAMS = 1.05, 1.2, 2.5
REPEATS = 2
PRODUCTS = 10

Parts = list[NDArray[np.int64]]


class Stopwatch:
    """Seconds by name of what was done, added up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.apart: dict[str, float] = {}

    @contextmanager
    def on(self, name: str, *, apart: bool = False) -> Iterator[None]:
        """Time what is done inside; what is ``apart`` is not part of the total."""
        begun, seconds = time.perf_counter(), self.apart if apart else self.seconds
        yield
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - begun

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def run(settings: Settings) -> Outcome:
    """With either encoder."""
    dataset = data.load(settings)
    encoders: dict[str, Encoder] = {
        "paper": data.embedding(dataset.train),
        "default": data.default(dataset.train),
    }
    figures: dict[str, dict[str, Any]] = {}
    bars: list[Bar] = []
    for name, encoder in encoders.items():
        figures[name] = _measure(name, encoder, dataset, settings)
        bars += _bars(name, figures[name])
    return Outcome(
        figures={**figures["paper"], "default": figures["default"]},
        data=dataset.source,
        compared="the bytes of the saved model, by digest",
        bars=bars,
    )


def _measure(
    name: str, encoder: Encoder, dataset: data.Dataset, settings: Settings
) -> dict[str, Any]:
    """Both ways, in turns; then the server alone, with few and with all clients."""
    counts, repeats = (QUICK_CLIENTS, 1) if settings.quick else (CLIENTS, REPEATS)
    generator = np.random.default_rng(0)
    parts = partition(dataset.train_labels, "iid", clients=counts[-1], generator=generator)
    federated: list[Stopwatch] = []
    pooled: list[Stopwatch] = []
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"client-{client}.safle" for client in range(counts[-1])]
        warm_up(encoder, dataset, paths[0])
        for turn in range(repeats):
            note(f"federation, {name} encoder, turn {turn + 1} ...")
            digests = set()
            for clocks, fit in ((pooled, _pooled), (federated, partial(federate, parts, paths))):
                clocks.append(Stopwatch())
                digests.add(fit(encoder, dataset, clocks[-1]).digest)
            if len(digests) != 1:
                raise Disagreement("federation: the federated model is not the pooled one")
            _multiply(len(parts[0]), paths[0], federated[-1])
        note("federation: the server's peak memory ...")
        peaks, sums = (
            {n: peak_of(prepare, paths[:n], solving, quick=settings.quick) for n in counts}
            for solving in (True, False)
        )
        gram = sum_statistics(map(read, paths)).gram.packed.nbytes
    return _figures(federated, pooled, peaks, sums, gram)


def _multiply(samples: int, path: Path, clock: Stopwatch) -> None:
    """Beside the server's work, in the same minute: the bare product of a client's size."""
    root = np.random.default_rng(0).standard_normal((samples, read(path).dim))
    for _ in range(PRODUCTS):
        with clock.on("products", apart=True):
            root.T @ root


def _figures(
    federated: Sequence[Stopwatch],
    pooled: Sequence[Stopwatch],
    peaks: dict[int, Peak],
    sums: dict[int, Peak],
    gram: int,
) -> dict[str, Any]:
    clients = max(peaks)
    best = min(federated, key=lambda clock: clock.total)
    alone = min(pooled, key=lambda clock: clock.total)
    server = best.seconds["read and sum"] / clients
    bare = best.apart["products"] / PRODUCTS
    return {
        "overhead": best.total / alone.total,
        "client_seconds": (best.seconds["count"] + best.seconds["write"]) / clients,
        "server_seconds_per_client": server,
        "bare_product_seconds": bare,
        "server_over_bare_product": server / bare,
        "server_peak_bytes": {str(n): peak.size for n, peak in peaks.items()},
        "server_peak_growth": _growth(peaks),
        "sum_peak_bytes": {str(n): peak.size for n, peak in sums.items()},
        "sum_peak_growth": _growth(sums),
        "sum_peak_grams": {str(n): peak.size / gram for n, peak in sums.items()},
        "gram_bytes": gram,
        "seconds": {"federated": best.total, "pooled": alone.total},
        "federated_parts": best.seconds,
        "pooled_parts": alone.seconds,
        "spread": {
            "federated": max(clock.total for clock in federated) / best.total,
            "pooled": max(clock.total for clock in pooled) / alone.total,
        },
    }


def _bars(name: str, found: dict[str, Any]) -> list[Bar]:
    (*_, grams), growth = found["sum_peak_grams"].values(), found["server_peak_growth"]
    asked = {
        "time over a pooled fit": (found["overhead"], BAR_OVERHEAD[name]),
        "server's peak, 100 over 10 clients": (growth, BAR_GROWTH),
    }
    if name == "default":
        over = found["server_over_bare_product"]
        asked["server per client over a bare product"] = (over, BAR_SERVER)
        asked["peak of summing, in grams"] = (grams, BAR_GRAMS)
    return [
        Bar(f"federation, {name} encoder: {what}", value, most, at_most=True)
        for what, (value, most) in asked.items()
    ]


def _growth(peaks: dict[int, Peak]) -> float:
    return peaks[max(peaks)].size / max(peaks[min(peaks)].size, 1)


def _pooled(encoder: Encoder, dataset: data.Dataset, clock: Stopwatch) -> Model:
    with clock.on("count"):
        statistics = count(encoder, dataset.train, dataset.train_labels)
    with clock.on("solve"):
        return Model.of(encoder, solve(statistics))


def federate(
    parts: Parts, paths: Sequence[Path], encoder: Encoder, dataset: data.Dataset, clock: Stopwatch
) -> Model:
    """The model of clients that count into files, one after the other."""
    for part, path in zip(parts, paths, strict=True):
        features, labels = dataset.train[part], dataset.train_labels[part]
        with clock.on("count"):
            contribution = count(encoder, features, labels)
        with clock.on("write"):
            write(path, contribution)
    total = Accumulator(encoder)
    for path in paths:
        with clock.on("read and sum"):
            total.add(open_contribution(path.name, read_limited(path), total.space)[0])
    statistics = total.snapshot()
    with clock.on("solve"):
        return Model.of(encoder, solve(statistics))


def warm_up(encoder: Encoder, dataset: data.Dataset, path: Path) -> None:
    """Compile every kernel, load every library."""
    features, labels = dataset.head(40)
    write(path, count(encoder, features, labels))
    sum_statistics([read(path), count(encoder, features[:20], labels[:20])])
    load_solver()


def prepare(paths: Sequence[Path], solving: bool) -> Work:
    """A server with its libraries loaded; the work is to sum the files, and maybe solve."""
    first = read(paths[0])
    sum_statistics([first, first])
    if solving:
        load_solver()

    def work() -> None:
        total = Accumulator(first.space)
        for path in paths:
            total.add(open_contribution(path.name, read_limited(path), total.space)[0])
        if solving:
            solve(total.snapshot())

    return work
