"""The server's side of a federation: gather, keep, add up, solve, write, report."""

from __future__ import annotations

import logging
import resource
import shutil
import sys
import time
from collections.abc import Collection
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from safle import Histogram
from safle.encoders import Encoder, load_encoder
from safle.errors import FederationError, SafleError, SettingsError, SolveError
from safle.model import Model
from safle.server import DATABASE, Contribution, Limits, Store
from safle.site import airlock
from safle.solver import solve
from safle.statistics import Accumulator, Statistics
from safle.wire import decode_histogram, write_statistics
from safle_flower import messages
from safle_flower.evaluation import COUNTS, PAGE, EvaluationTask
from safle_flower.private import add_up_privately
from safle_flower.report import KEPT, Report
from safle_flower.round import Progress, Round
from safle_flower.settings import Run

if TYPE_CHECKING:
    from flwr.serverapp import Grid

log = logging.getLogger("flwr")
MODEL, TOTAL, REPORT = "model.safetensors", "total.stats", "report.json"
RESULTS = (MODEL, TOTAL, COUNTS, PAGE, REPORT)
EARLIER = "earlier"
"""Where the results of the run before go when the next one begins."""


class CountTask:
    """Contributions: verified, kept in the store, and added up as they come."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.total: Accumulator = store.total()
        encoder = store.encoder
        files = {airlock.ENCODER: encoder.to_bytes()}
        expects = {"fingerprint": encoder.fingerprint}
        self.question = airlock.Question(airlock.COUNT, files, expects)

    def names(self) -> Collection[str]:
        return self._store.members

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        kept = self._store.add(Contribution(client, data), total=self.total)
        return kept.samples, kept.digest


class HistogramTask:
    """Histograms of the declared features on the declared grid, added up."""

    def __init__(self, run: Run) -> None:
        self._declared = run.calibration.declared()
        self._limits = run.limits
        self._names: list[str] = []
        self.total: Histogram | None = None
        ranges = run.calibration.ranges_file()
        expects = {"grid": self._declared.grid.to_json()}
        self.question = airlock.Question(airlock.HISTOGRAM, ranges, expects)

    def names(self) -> Collection[str]:
        return self._names

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        if client in self._names:
            raise FederationError(f"client {client!r} has sent its histogram already")
        grid, features, names = self._declared
        admit = partial(self._limits.check_grid, features=features, grid=grid)
        histogram = decode_histogram(data, admit=admit)
        self._limits.check_histogram(histogram, names=names)
        self.total = histogram if self.total is None else self.total + histogram
        self._names.append(client)
        return histogram.sample_count, ""


def serve(grid: Grid, run: Run, *, progress: Progress | None = None) -> Report:
    """Run a federation over ``grid``: its model, sum and report go to ``output``.

    Raises
    ------
    SafleError
        The settings are wrong, or too few contributions came: then the store keeps what came,
        and the next run asks only for the rest. However a run ends, its report is written.
    """
    begun = time.monotonic()
    output = run.places.path("output")
    set_aside(output)
    found = Report(rules=asdict(run.rules) | asdict(run.limits))
    try:
        _check(run)
        encoder = _encoder(grid, run, found)
        found.encoder = encoder.fingerprint
        if run.places.round:
            statistics = add_up_privately(grid, run, encoder, found, progress)
            write_statistics(output / TOTAL, statistics)
            _solve(encoder, statistics, output, run, found)
            return found
        with Store.create(run.places.path("store"), encoder) as store:
            # A run that declares nothing leaves what the store's operator has declared.
            if run.limits != Limits():
                store.declare(run.limits)
            task = CountTask(store)
            _gather(Round(grid, task, run.rules, progress), store, found)
            _check_enough(store, run, found)
            statistics = task.total.snapshot()
            write_statistics(output / TOTAL, statistics)
            try:
                model = _solve(encoder, statistics, output, run, found)
            except SolveError as error:
                why = store.explain(partial(solve, **run.solve.options()))
                raise SolveError(f"{error}; {why}") from error
        if run.rules.evaluate:
            _evaluate(grid, model, output, run, found)
    except BaseException as error:
        why = str(error) if isinstance(error, SafleError) else f"{type(error).__name__}: {error}"
        found.error = messages.printable(why)
        raise
    finally:
        _finish(found, output, begun)
    return found


def set_aside(output: Path) -> None:
    """Begin without results: an older model must not pass for that of a run that failed."""
    output.mkdir(parents=True, exist_ok=True)
    earlier, kept = output / EARLIER, (output / MODEL).exists()
    if kept:
        shutil.rmtree(earlier, ignore_errors=True)
        earlier.mkdir()
    for path in (output / name for name in RESULTS):
        if kept and path.exists():
            path.replace(earlier / path.name)
        path.unlink(missing_ok=True)


def _check(run: Run) -> None:
    """Refuse wrong settings before anybody is asked."""
    run.solve.options()
    if run.calibration.calibrate:
        run.calibration.declared()
        if run.places.round:
            raise SettingsError("a private round has its encoder already; leave calibrate out")
        if run.places.encoder:
            raise SettingsError("calibrate and encoder exclude each other; leave one out")
    else:
        run.places.path("encoder")
    if run.rules.evaluate and run.places.round:
        raise SettingsError(
            "evaluate asks for plain counts; after a private round, declare one of evaluation "
            "counts (safle private round --model) and leave evaluate out"
        )
    run.rules.check()
    run.places.path("store")


def _encoder(grid: Grid, run: Run, found: Report) -> Encoder:
    """The encoder of the round; who took part in its calibration is in the report."""
    if not run.calibration.calibrate:
        return load_encoder(run.places.path("encoder"))
    folder = run.places.path("store")
    if (folder / DATABASE).is_file():
        log.info("the store has its encoder already: no second calibration")
        return Store.open(folder).encoder
    task = HistogramTask(run)
    calibrating = Round(grid, task, run.rules)
    try:
        calibrating.run()
    finally:
        found.calibration = calibrating.rows()
    if task.total is None or len(task.names()) < run.rules.least:
        raise FederationError(
            f"{len(task.names())} histograms came, at least {run.rules.least} are needed: nothing "
            "to calibrate by; run again when the clients are there"
        )
    return run.calibration.build(task.total)


def _gather(gathering: Round, store: Store, found: Report) -> None:
    if store.members:
        log.info("%d contributions are in the store already", len(store.members))
    started = time.monotonic()
    try:
        gathering.run()
    finally:
        found.clients = gathering.rows()
        found.round_seconds = round(time.monotonic() - started, 3)
        for row in found.clients:
            if row.status == KEPT and row.client in store.members:
                kept = store.members[row.client]
                row.samples, row.digest = kept.samples, kept.digest


def _check_enough(store: Store, run: Run, found: Report) -> None:
    if len(store.members) < run.rules.least:
        raise FederationError(
            f"{len(store.members)} contributions are in, at least {run.rules.least} are needed "
            f"({found.summary}); {store.folder} keeps them: run again, and only the others are "
            "asked, or allow fewer with least"
        )


def _evaluate(grid: Grid, model: Model, output: Path, run: Run, found: Report) -> None:
    """Ask for evaluation counts; whoever sends none is named, and the model stays as it is."""
    task = EvaluationTask(model, run.limits)
    asking = Round(grid, task, run.rules)
    try:
        asking.run()
    finally:
        found.evaluation = asking.rows()
    task.write(output)


def _solve(
    encoder: Encoder, statistics: Statistics, output: Path, run: Run, found: Report
) -> Model:
    log.info("solving %d columns for %d samples", statistics.dim, statistics.sample_count)
    solution = solve(statistics, **run.solve.options())
    model = Model(encoder, solution)
    model.save(output / MODEL)
    found.model, found.total = model.digest, model.sum_digest
    found.samples = statistics.sample_count
    return model


def _finish(found: Report, output: Path, begun: float) -> None:
    answers = found.clients, found.calibration, found.keyholders, found.evaluation
    found.bytes_received = sum(row.bytes for rows in answers for row in rows)
    found.seconds = round(time.monotonic() - begun, 3)
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    found.server_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    found.write(output / REPORT)
    for row in found.table():
        log.info("%s", "  ".join(row))
    log.info("%s", found.summary)
