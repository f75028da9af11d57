"""Scaling: time and peak memory as n, E, V and the number of clients K grow.

One run a row, each in a process of its own; no bars. Memory is what the work adds to
a process that has its libraries loaded and its features or files at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import data
from benchmarks.federation import prepare as prepare_server
from benchmarks.memory import Work, peak_of
from benchmarks.report import Disagreement, Outcome, note
from benchmarks.settings import Settings
from benchmarks.warming import load_solver
from safle import Statistics, count, read_statistics, solve, write_statistics

RIDGE = 1000.0
CLIENT_SAMPLES = 500
CLIENTS, QUICK_CLIENTS = (1, 10, 100), (1, 3, 6)
HEADER = ["grows", "n", "E", "V", "seen D", "count s", "count MB", "solve s", "solve MB"]
CLIENT_HEADER = ["K", "read, verify, add: s", "peak MB", "file MB"]


@dataclass(frozen=True)
class Case:
    """Sizes of one row: ``features * buckets / group_size`` experts of ``2**group_size``."""

    grows: str
    samples: int
    features: int
    buckets: int
    group_size: int

    def inputs(self, settings: Settings) -> tuple[Any, Any, Any]:
        """Encoder, features, labels."""
        dataset = data.load(settings)
        features = dataset.train[:, : self.features].copy()
        encoder = data.embedding(features, buckets=self.buckets, group_size=self.group_size)
        return encoder, features[: self.samples], dataset.train_labels[: self.samples]


FULL = (
    *(Case("n", samples, 512, 4, 4) for samples in (2_500, 10_000, 50_000)),
    *(Case("E", 10_000, *shape) for shape in ((128, 4, 4), (256, 4, 4), (512, 4, 4), (512, 8, 4))),
    *(Case("V", 10_000, 128, size, size) for size in (2, 4, 6, 8)),
)
QUICK = (Case("n", 100, 32, 4, 4), Case("E", 100, 64, 4, 4), Case("V", 100, 32, 2, 2))


def run(settings: Settings) -> Outcome:
    """Every row of both tables."""
    rows = [_row(case, settings) for case in (QUICK if settings.quick else FULL)]
    clients = _clients(settings)
    return Outcome(
        figures={"sizes": rows, "clients": clients},
        data=data.load(settings).source,
        compared="a client read back, added and taken away == the client",
        tables={
            "Time and peak memory by size": [HEADER, *map(_size_cells, rows)],
            f"The server, by clients of n={CLIENT_SAMPLES}": [
                CLIENT_HEADER,
                *map(_client_cells, clients),
            ],
        },
    )


def _row(case: Case, settings: Settings) -> dict[str, Any]:
    note(f"scaling: {case} ...")
    encoder, features, labels = case.inputs(settings)
    counting = peak_of(prepare_count, case, settings, quick=settings.quick)
    solving = peak_of(prepare_solve, case, settings, quick=settings.quick)
    return {
        "grows": case.grows,
        "n": case.samples,
        "E": encoder.layout.experts,
        "V": 2**case.group_size,
        "seen": count(encoder, features, labels).dim,
        "count_seconds": counting.seconds,
        "count_peak_bytes": counting.size,
        "solve_seconds": solving.seconds,
        "solve_peak_bytes": solving.size,
    }


def _clients(settings: Settings) -> list[dict[str, Any]]:
    dataset = data.load(settings)
    encoder = data.embedding(dataset.train)
    counts = QUICK_CLIENTS if settings.quick else CLIENTS
    rows = []
    with TemporaryDirectory() as folder:
        paths = []
        samples = min(CLIENT_SAMPLES, len(dataset.train) // counts[-1])
        for client in range(counts[-1]):
            held = slice(client * samples, (client + 1) * samples)
            statistics = count(encoder, dataset.train[held], dataset.train_labels[held])
            paths.append(Path(folder) / f"client-{client}.safle")
            write_statistics(paths[-1], statistics)
        _check_sum(statistics, paths[-1])
        for clients in counts:
            rows.append(_client_row(paths[:clients], settings))
    return rows


def _client_row(paths: Sequence[Path], settings: Settings) -> dict[str, Any]:
    note(f"scaling: K={len(paths)} ...")
    peak = peak_of(prepare_server, paths, False, quick=settings.quick)
    return {
        "K": len(paths),
        "seconds": peak.seconds,
        "peak_bytes": peak.size,
        "file_bytes": sum(path.stat().st_size for path in paths) / len(paths),
    }


def _check_sum(statistics: Statistics, path: Path) -> None:
    if read_statistics(path) + statistics - statistics != statistics:
        raise Disagreement("scaling: adding and taking back is not the identity")


def prepare_count(case: Case, settings: Settings) -> Work:
    """Features in memory, kernels compiled; the work is to count."""
    encoder, features, labels = case.inputs(settings)
    count(encoder, features[:20], labels[:20])
    return partial(count, encoder, features, labels)


def prepare_solve(case: Case, settings: Settings) -> Work:
    """Statistics in memory, libraries loaded; the work is to solve."""
    encoder, features, labels = case.inputs(settings)
    load_solver()
    return partial(solve, count(encoder, features, labels), ridge=RIDGE)


def _size_cells(row: dict[str, Any]) -> list[str]:
    cells = [str(row[name]) for name in ("grows", "n", "E", "V", "seen")]
    for name in ("count", "solve"):
        cells += [f"{row[f'{name}_seconds']:.2f}", f"{row[f'{name}_peak_bytes'] / 1e6:.0f}"]
    return cells


def _client_cells(row: dict[str, Any]) -> list[str]:
    return [
        str(row["K"]),
        f"{row['seconds']:.2f}",
        f"{row['peak_bytes'] / 1e6:.0f}",
        f"{row['file_bytes'] / 1e6:.2f}",
    ]
