"""Flower: 100 simulated clients through its engine, against the same clients through files.

Over Flower: `safle simulate`, from its start to the model: SuperLink, Ray, one app for the
server and one per client, 500 samples each (E=512, V=16). Through files: the same clients one
after the other, each counted into a file, all files read, verified, added and solved. The
server's memory is the most that its process has ever held, libraries included; in a simulation
that process holds Flower's own state as well.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import data, federation
from benchmarks.report import Bar, Disagreement, Outcome, note
from benchmarks.settings import Settings
from safle import Encoder
from safle.demo import iid
from safle.tables import write_table
from safle_flower.simulation.running import simulate
from safle_flower.simulation.simulation import Simulation

CLIENTS, QUICK_CLIENTS = (10, 50, 100), (2, 4, 6)
SAMPLES, QUICK_SAMPLES = 500, 100
BAR_GROWTH = 1.10


def run(settings: Settings) -> Outcome:
    """Files, then Flower with few, more and all clients."""
    dataset = data.load(settings)
    encoder = data.embedding(dataset.train)
    counts, samples = (QUICK_CLIENTS, QUICK_SAMPLES) if settings.quick else (CLIENTS, SAMPLES)
    # Quick runs are for seeing that everything works: Ray alone takes longer than all of it.
    engine = "in-process" if settings.quick else "flower"
    reports: dict[int, dict[str, Any]] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        encoder.save(folder / "encoder.safetensors")
        files_seconds, digest = _through_files(folder, encoder, dataset, counts[-1], samples)
        for clients in counts:
            note(f"flower, {clients} clients ...")
            reports[clients] = _through_flower(folder, dataset, clients, samples, engine)
    if reports[counts[-1]]["model"] != digest:
        raise Disagreement("flower: its model is not the one of files")
    return _outcome(dataset.source, reports, files_seconds)


def _through_files(
    folder: Path, encoder: Encoder, dataset: data.Dataset, clients: int, samples: int
) -> tuple[float, str]:
    note(f"flower: {clients} clients through files ...")
    paths = [folder / f"client-{client}.stats" for client in range(clients)]
    federation.warm_up(encoder, dataset, paths[0])
    parts = _parts(clients, samples)
    clock = federation.Stopwatch()
    model = federation.federate(parts, paths, encoder, dataset, clock)
    return clock.total, model.digest


def _parts(clients: int, samples: int) -> federation.Parts:
    return iid(clients * samples, clients=clients, generator=np.random.default_rng(0))


def _through_flower(
    folder: Path, dataset: data.Dataset, clients: int, samples: int, engine: str
) -> dict[str, Any]:
    features, labels = dataset.head(clients * samples)
    table = folder / f"{clients}.safetensors"
    write_table(table, features, labels)
    simulation = Simulation(str(table), str(folder / "encoder.safetensors"), clients)
    begun = time.perf_counter()
    found = simulate(simulation, folder / f"{clients}", engine=engine)
    return {**vars(found), "wall_seconds": time.perf_counter() - begun}


def _outcome(source: str, reports: dict[int, dict[str, Any]], files_seconds: float) -> Outcome:
    most = max(reports)
    peaks = {clients: found["server_peak_bytes"] for clients, found in reports.items()}
    growth = max(peaks.values()) / min(peaks.values())
    seconds = reports[most]["wall_seconds"]
    return Outcome(
        figures={
            "seconds": seconds,
            "server_peak_bytes": {str(clients): peak for clients, peak in peaks.items()},
            "server_peak_growth": growth,
            "overhead_over_files": seconds / files_seconds,
            "files_seconds": files_seconds,
            "round_seconds": reports[most]["round_seconds"],
            "bytes_received": reports[most]["bytes_received"],
            "seconds_by_clients": {str(k): found["wall_seconds"] for k, found in reports.items()},
        },
        data=source,
        compared="the bytes of the saved model, by digest",
        bars=[Bar("flower: server's peak, most over least", growth, BAR_GROWTH, at_most=True)],
    )
