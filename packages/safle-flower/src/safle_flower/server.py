"""The server's side of a federation: gather, keep, add up, solve, write, report."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from msgspec.structs import replace

from safle import (
    LOG,
    Encoder,
    Limits,
    Model,
    Statistics,
    Store,
    load_encoder,
    solve,
    write,
    write_log,
)
from safle.basics import atomic, to_mapping
from safle.errors import EncoderMismatch, FederationError, SafleError, SettingsError, SolveError
from safle_flower.airlock import shorten
from safle_flower.report import KEPT, Report
from safle_flower.round import Progress, Round
from safle_flower.settings import Run
from safle_flower.tasks import COUNTS, PAGE, CountTask, EvaluationTask, MaskTask, RequestTask
from safle_private import PrivateRound, PublicKey

if TYPE_CHECKING:
    from flwr.serverapp import Grid

log = logging.getLogger("flwr")
MODEL, TOTAL, REPORT = "model.safetensors", "total.stats", "report.json"
RESULTS = (MODEL, TOTAL, COUNTS, PAGE, REPORT)
EARLIER = "earlier"
"""Folder for the results of the previous run, which move there when a run begins."""


def serve(grid: Grid, run: Run, *, progress: Progress | None = None) -> Report:
    """Run a federation over ``grid``: its model, sum and report go to ``output``.

    Raises
    ------
    SafleError
        The settings are wrong, or too few contributions came: then the store keeps them, and
        the next run asks only missing clients. However a run ends, it writes its report.
    """
    begun = time.monotonic()
    output = run.path("output")
    set_aside(output)
    report = Report([], rules=to_mapping(run))
    try:
        run.check()
        encoder = load_encoder(run.encoder)
        report.encoder = encoder.fingerprint
        if run.round:
            statistics = _add_up_privately(grid, run, encoder, report, progress)
            write(output / TOTAL, statistics)
            _solve(encoder, statistics, output, run, report)
            return report
        with Store.create(run.path("store"), encoder) as store:
            # A run without limits keeps those that the store's operator has declared.
            if run.limits != Limits():
                store.declare(run.limits)
            task = CountTask(store)
            _gather(Round(grid, task, run, progress), store, report)
            _check_enough(store, run, report)
            statistics = task.total.snapshot()
            write(output / TOTAL, statistics)
            try:
                model = _solve(encoder, statistics, output, run, report)
            except SolveError as error:
                why = store.explain(partial(solve, **run.solving))
                raise SolveError(f"{error}; {why}") from error
        if run.evaluate:
            _evaluate(grid, model, output, run, report)
    except BaseException as error:
        why = str(error) if isinstance(error, SafleError) else f"{type(error).__name__}: {error}"
        report.error = shorten(why)
        raise
    finally:
        _finish(report, output, begun)
    return report


def set_aside(output: Path) -> None:
    """Move old results away, or delete them if no model is among them.

    An old model must not pass for that of a run that failed.
    """
    atomic.make_folder(output)
    earlier, kept = output / EARLIER, (output / MODEL).exists()
    if kept:
        shutil.rmtree(earlier, ignore_errors=True)
        atomic.make_folder(earlier)
    for path in (output / name for name in RESULTS):
        if kept and path.exists():
            path.replace(earlier / path.name)
        path.unlink(missing_ok=True)


def _add_up_privately(
    grid: Grid, run: Run, encoder: Encoder, report: Report, progress: Progress | None
) -> Statistics:
    """Ask clients, then keyholders; return the opened sum."""
    operator = PublicKey.load(run.path("operator"))
    private_round = PrivateRound.load(run.path("round").read_bytes(), operator)
    zero = private_round.zero
    if zero.format != Statistics.format or private_round.privacy is not None:
        raise SettingsError(
            "this round does not add up statistics, or opens with noise; name a round of exact "
            "statistics"
        )
    if zero.made_with["encoder"] != encoder.fingerprint:
        raise EncoderMismatch(
            f"the round is of encoder {zero.made_with['encoder'][:12]}…, this run's is "
            f"{encoder.fingerprint[:12]}…: name the round's encoder"
        )
    folder = run.path("store")
    atomic.make_folder(folder)
    task = MaskTask(private_round, encoder, folder)
    counting = Round(grid, task, run, progress, keyholders=private_round.keyholders)
    _ask(counting, report, "clients")
    total = task.gathering.finish()
    asking = RequestTask(total.request, folder)
    # Nodes of a keyholder's name or role, and those that have not answered yet, are asked.
    rules = replace(run, expected="", clients=len(private_round.keyholders))
    _ask(Round(grid, asking, rules, only=counting.may_be_keyholder), report, "keyholders")
    statistics: Statistics = total.open(asking.answers.values())
    note = f"statistics of {', '.join(total.request.heads)}"
    write_log("opened", digest=total.request.digest, note=note, place=folder / LOG)
    return statistics


def _ask(asking: Round, report: Report, table: str) -> None:
    """Run a round; however it ends, the report has its lines."""
    try:
        asking.run()
    finally:
        setattr(report, table, asking.rows())


def _gather(gathering: Round, store: Store, report: Report) -> None:
    if store.members:
        log.info("%d contributions are in the store already", len(store.members))
    started = time.monotonic()
    try:
        _ask(gathering, report, "clients")
    finally:
        report.round_seconds = round(time.monotonic() - started, 3)
        for row in report.clients:
            if row.status == KEPT and row.client in store.members:
                kept = store.members[row.client]
                row.samples, row.digest = kept.samples, kept.digest


def _check_enough(store: Store, run: Run, report: Report) -> None:
    if len(store.members) < run.least:
        raise FederationError(
            f"{len(store.members)} contributions are in, at least {run.least} are needed "
            f"({report.summary}); {store.folder} keeps them: run again, and only missing "
            "clients are asked, or allow fewer with least"
        )


def _evaluate(grid: Grid, model: Model, output: Path, run: Run, report: Report) -> None:
    """Ask for evaluation counts; the report names clients that send none, the model stays."""
    task = EvaluationTask(model, run.limits)
    _ask(Round(grid, task, run), report, "evaluation")
    task.write(output)


def _solve(
    encoder: Encoder, statistics: Statistics, output: Path, run: Run, report: Report
) -> Model:
    log.info("solving %d columns for %d samples", statistics.dim, statistics.sample_count)
    solution = solve(statistics, **run.solving)
    model = Model.of(encoder, solution)
    model.save(output / MODEL)
    report.model, report.total = model.digest, model.sum_digest
    report.samples = statistics.sample_count
    return model


def _peak_bytes() -> int:
    """The most memory that this process has held."""
    try:
        import resource
    except ImportError:
        # Windows has no such module.
        return int(psutil.Process().memory_info().peak_wset)
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _finish(report: Report, output: Path, begun: float) -> None:
    answers = report.clients, report.keyholders, report.evaluation
    report.bytes_received = sum(row.bytes for rows in answers for row in rows)
    report.seconds = round(time.monotonic() - begun, 3)
    report.server_peak_bytes = _peak_bytes()
    report.write(output / REPORT)
    for row in report.table():
        log.info("%s", "  ".join(row))
    log.info("%s", report.summary)
