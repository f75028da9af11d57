"""The server's side of a federation: gather, keep, add up, solve, write, report."""

from __future__ import annotations

import logging
import resource
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from safle.encoders import Encoder, load_encoder
from safle.errors import EncoderMismatch, FederationError, SafleError, SettingsError, SolveError
from safle.model import Model
from safle.private import PrivateRound, PublicKey, StatisticsSpace
from safle.server import Limits, Store
from safle.site import LOG, write_log
from safle.solver import solve
from safle.statistics import Statistics
from safle.wire import write_statistics
from safle_flower import messages
from safle_flower.report import KEPT, Report
from safle_flower.round import Progress, Round
from safle_flower.settings import Run
from safle_flower.tasks import (
    COUNTS,
    PAGE,
    CountTask,
    EvaluationTask,
    MaskTask,
    RequestTask,
)

if TYPE_CHECKING:
    from flwr.serverapp import Grid

log = logging.getLogger("flwr")
MODEL, TOTAL, REPORT = "model.safetensors", "total.stats", "report.json"
RESULTS = (MODEL, TOTAL, COUNTS, PAGE, REPORT)
EARLIER = "earlier"
"""Where the results of the run before go when the next one begins."""


def serve(grid: Grid, run: Run, *, progress: Progress | None = None) -> Report:
    """Run a federation over ``grid``: its model, sum and report go to ``output``.

    Raises
    ------
    SafleError
        The settings are wrong, or too few contributions came: then the store keeps what came,
        and the next run asks only for the rest. However a run ends, its report is written.
    """
    begun = time.monotonic()
    output = run.path("output")
    set_aside(output)
    found = Report([], rules=run.to_flat())
    try:
        run.check()
        encoder = load_encoder(run.encoder)
        found.encoder = encoder.fingerprint
        if run.round:
            statistics = _add_up_privately(grid, run, encoder, found, progress)
            write_statistics(output / TOTAL, statistics)
            _solve(encoder, statistics, output, run, found)
            return found
        with Store.create(run.path("store"), encoder) as store:
            # A run that declares nothing leaves what the store's operator has declared.
            if run.limits != Limits():
                store.declare(run.limits)
            task = CountTask(store)
            _gather(Round(grid, task, run, progress), store, found)
            _check_enough(store, run, found)
            statistics = task.total.snapshot()
            write_statistics(output / TOTAL, statistics)
            try:
                model = _solve(encoder, statistics, output, run, found)
            except SolveError as error:
                why = store.explain(partial(solve, **run.solving))
                raise SolveError(f"{error}; {why}") from error
        if run.evaluate:
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


def _add_up_privately(
    grid: Grid, run: Run, encoder: Encoder, found: Report, progress: Progress | None
) -> Statistics:
    """Both messages of a private round; the opened sum."""
    operator = PublicKey.load(run.path("operator"))
    private_round = PrivateRound.load(run.path("round").read_bytes(), operator)
    space = private_round.space
    if not isinstance(space, StatisticsSpace) or space.privacy is not None:
        raise SettingsError(
            "this round is not one of statistics, or opens with noise; name one of exact statistics"
        )
    if space.space.fingerprint != encoder.fingerprint:
        raise EncoderMismatch(
            f"the round is of encoder {space.space.fingerprint[:12]}…, this run's is "
            f"{encoder.fingerprint[:12]}…: name the round's encoder"
        )
    folder = run.path("store")
    folder.mkdir(parents=True, exist_ok=True)
    task = MaskTask(private_round, encoder, folder)
    counting = Round(grid, task, run, progress, keyholders=private_round.keyholders)
    _ask(counting, found, "clients")
    total = task.gathering.finish()
    asking = RequestTask(total)
    # Those who said that they are keyholders, and those who came too late to say anything.
    rules = replace(run, expected="", clients=len(private_round.keyholders))
    _ask(Round(grid, asking, rules, only=counting.may_be_keyholder), found, "keyholders")
    statistics: Statistics = total.open(asking.answers.values())
    note = f"statistics of {', '.join(total.heads)}"
    write_log("opened", digest=total.digest, note=note, place=folder / LOG)
    return statistics


def _ask(asking: Round, found: Report, table: str) -> None:
    """Run a round; however it ends, the report has its lines."""
    try:
        asking.run()
    finally:
        setattr(found, table, asking.rows())


def _gather(gathering: Round, store: Store, found: Report) -> None:
    if store.members:
        log.info("%d contributions are in the store already", len(store.members))
    started = time.monotonic()
    try:
        _ask(gathering, found, "clients")
    finally:
        found.round_seconds = round(time.monotonic() - started, 3)
        for row in found.clients:
            if row.status == KEPT and row.client in store.members:
                kept = store.members[row.client]
                row.samples, row.digest = kept.samples, kept.digest


def _check_enough(store: Store, run: Run, found: Report) -> None:
    if len(store.members) < run.least:
        raise FederationError(
            f"{len(store.members)} contributions are in, at least {run.least} are needed "
            f"({found.summary}); {store.folder} keeps them: run again, and only the others are "
            "asked, or allow fewer with least"
        )


def _evaluate(grid: Grid, model: Model, output: Path, run: Run, found: Report) -> None:
    """Ask for evaluation counts; whoever sends none is named, and the model stays as it is."""
    task = EvaluationTask(model, run.limits)
    _ask(Round(grid, task, run), found, "evaluation")
    task.write(output)


def _solve(
    encoder: Encoder, statistics: Statistics, output: Path, run: Run, found: Report
) -> Model:
    log.info("solving %d columns for %d samples", statistics.dim, statistics.sample_count)
    solution = solve(statistics, **run.solving)
    model = Model(encoder, solution)
    model.save(output / MODEL)
    found.model, found.total = model.digest, model.sum_digest
    found.samples = statistics.sample_count
    return model


def _finish(found: Report, output: Path, begun: float) -> None:
    answers = found.clients, found.keyholders, found.evaluation
    found.bytes_received = sum(row.bytes for rows in answers for row in rows)
    found.seconds = round(time.monotonic() - begun, 3)
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    found.server_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    found.write(output / REPORT)
    for row in found.table():
        log.info("%s", "  ".join(row))
    log.info("%s", found.summary)
