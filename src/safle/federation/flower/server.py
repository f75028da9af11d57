"""The server's side of a federation: gather, keep, add up, solve, write, report."""

from __future__ import annotations

import logging
import resource
import sys
import time
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from safle.encoders import Encoder, load_encoder
from safle.encoders.building import build_encoder
from safle.encoders.histogram import Grid as HistogramGrid
from safle.encoders.histogram import Histogram
from safle.errors import FederationError, SafleError, SettingsError
from safle.federation.files import write_sum
from safle.federation.flower import messages
from safle.federation.flower.report import ClientReport, Report
from safle.federation.flower.round import Progress, Round
from safle.federation.flower.settings import Config, Rules, complete, place, solver_options
from safle.federation.store import INDEX, Store
from safle.model import Model
from safle.solver import solve
from safle.statistics import Accumulator
from safle.wire import decode_histogram

if TYPE_CHECKING:
    from flwr.app import RecordDict
    from flwr.serverapp import Grid

log = logging.getLogger("flwr")
MODEL, TOTAL, REPORT = "model.safetensors", "total.stats", "report.json"


class CountTask:
    """Contributions: verified, kept in the store, and added up as they come."""

    message_type = messages.COUNT

    def __init__(self, store: Store, total: Accumulator) -> None:
        self._store = store
        self._total = total
        self._encoder = store.encoder.to_bytes()

    def content(self) -> RecordDict:
        return messages.question(messages.known_marks(self.names()), self._encoder)

    def names(self) -> Collection[str]:
        return self._store.members

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        statistics = self._store.add(client, data)
        try:
            self._total.add(statistics)
        except (SafleError, MemoryError):
            # What this machine cannot add must not be in the store as if it had been.
            self._store.remove(client)
            raise
        kept = self._store.members[client].contribution
        return kept.samples, kept.digest


class HistogramTask:
    """Histograms on one grid, added up."""

    message_type = messages.HISTOGRAM

    def __init__(self, grid: HistogramGrid) -> None:
        self._grid = grid
        self._names: list[str] = []
        self.total: Histogram | None = None

    def content(self) -> RecordDict:
        grid = self._grid
        return messages.question({"low": grid.low, "high": grid.high, "bins": grid.bins})

    def names(self) -> Collection[str]:
        return self._names

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        if client in self._names:
            raise FederationError(f"client {client!r} has sent its histogram already")
        histogram = decode_histogram(data)
        if histogram.grid != self._grid:
            raise FederationError(f"counted on {histogram.grid}; expected {self._grid}")
        self.total = histogram if self.total is None else self.total + histogram
        self._names.append(client)
        return histogram.sample_count, ""


def serve(grid: Grid, config: Config, *, progress: Progress | None = None) -> Report:
    """Run a federation over ``grid``: its model, sum, manifest and report go to ``output``.

    Raises
    ------
    SafleError
        The settings are wrong, or too few contributions came: then the report is written,
        the store keeps what came, and the next run asks only for the rest.
    """
    begun = time.monotonic()
    config = complete(config)
    rules, output, folder = Rules.of(config), place(config, "output"), place(config, "store")
    how = solver_options(config)
    output.mkdir(parents=True, exist_ok=True)
    encoder, calibration = _encoder(grid, config, rules, folder)
    with Store.create(folder, encoder) as store:
        total = store.total()
        if store.members:
            log.info("%d contributions are in the store already", len(store.members))
        started = time.monotonic()
        rows = Round(grid, CountTask(store, total), rules, progress).run()
        found = Report(rows, calibration, asdict(rules), encoder=encoder.fingerprint)
        found.round_seconds = round(time.monotonic() - started, 3)
        try:
            _check_enough(store, rules)
            _solve(store, total, output, how, found)
        except Exception as error:
            found.error = str(error)
            raise
        finally:
            _finish(found, store, output, begun)
    return found


def _encoder(
    grid: Grid, config: Config, rules: Rules, folder: Path
) -> tuple[Encoder, list[ClientReport]]:
    """The encoder of the round, and who took part in its calibration."""
    if not config["calibrate"]:
        return load_encoder(place(config, "encoder")), []
    if config["encoder"]:
        raise SettingsError("calibrate and encoder exclude each other; leave one out")
    if (folder / INDEX).is_file():
        log.info("the store has its encoder already: no second calibration")
        return Store.open(folder).encoder, []
    task = HistogramTask(
        HistogramGrid(float(config["low"]), float(config["high"]), int(config["bins"]))
    )
    rows = Round(grid, task, rules).run()
    if task.total is None or len(task.names()) < rules.least:
        raise FederationError(
            f"{len(task.names())} histograms came, at least {rules.least} are needed: nothing to "
            "calibrate by; run again when the clients are there"
        )
    made = build_encoder(
        task.total,
        kind=str(config["kind"]),
        units=int(config["units"]) or None,
        bits=int(config["bits"]),
        transform=str(config["transform"]) or None,
        bucketing=str(config["bucketing"]),
        buckets=int(config["buckets"]) or None,
        group_size=int(config["group-size"]) or None,
        seed=int(config["encoder-seed"]),
        fraction_bits=int(config["fraction-bits"]),
    )
    return made, rows


def _check_enough(store: Store, rules: Rules) -> None:
    if len(store.members) < rules.least:
        raise FederationError(
            f"{len(store.members)} contributions are in, at least {rules.least} are needed; "
            f"{store.folder} keeps them: run again, and only the others are asked"
        )


def _solve(
    store: Store, total: Accumulator, output: Path, how: dict[str, object], found: Report
) -> None:
    statistics = total.snapshot()
    manifest = write_sum(output / TOTAL, statistics, store.manifest())
    log.info("solving %d columns for %d samples", statistics.dim, statistics.sample_count)
    model = Model(store.encoder, solve(statistics, **how))  # type: ignore[arg-type]
    model.save(output / MODEL)
    found.total, found.model, found.samples = manifest.digest, model.digest, manifest.samples


def _finish(found: Report, store: Store, output: Path, begun: float) -> None:
    for row in found.clients:
        member = store.members.get(row.client)
        if row.status == "kept" and member is not None:
            kept = member.contribution
            row.samples, row.digest = kept.samples, kept.digest
    found.bytes_received = sum(row.bytes for row in (*found.clients, *found.calibration))
    found.seconds = round(time.monotonic() - begun, 3)
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    found.server_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    found.write(output / REPORT)
    for line in found.lines():
        log.info("%s", line)
