"""``safle solve``: the sum in a store or a file -> a model."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import Any, Literal

import rich_click as click

from safle.basics import atomic
from safle.basics.paths import MAX_BYTES, read_capped
from safle.basics.settings import describe
from safle.cli import options as opt
from safle.cli.facts import model_facts
from safle.cli.session import Session, command
from safle.encoders.base import Encoder, load_encoder
from safle.encoders.random_features import suits_by_class
from safle.errors import InvalidInput, SolveError
from safle.model.model import Model
from safle.server.store import Store
from safle.server.summing import read_total
from safle.solver.heads import HEADS
from safle.solver.ridge import RidgeCurve
from safle.solver.solution import Solution
from safle.solver.solving import solve as solve_statistics
from safle.statistics.statistics import Sums

ENCODER = "The encoder the clients counted with; the model carries a copy."
RIDGE = "Regularisation: auto (from the statistics alone), 0 (none: minimum norm), or a number."
HEAD = (
    f"{', '.join(f'{head.name} ({head.summary})' for head in HEADS.values())}, from the same "
    "statistics; auto is averaged where there are two classes or more."
)
PRIORS = (
    "How frequent classes are where the model is used: uniform, or a .csv of lines 'class,number'."
)
CURVE = "Also write the ridge curve: a .csv file."


def _parse_ridge(
    _context: click.Context, _option: click.Parameter, text: str
) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise click.BadParameter(f"{text!r}; expected 'auto', 0 or a positive number")
    return number


def _read_priors(_context: click.Context, _option: click.Parameter, text: str | None) -> Any:
    if text is None or text == "uniform":
        return text
    from safle.tables.columns import parse_labels

    data = read_capped(text, MAX_BYTES, "a list of priors", InvalidInput)
    try:
        rows = [row for row in csv.reader(data.decode().splitlines()) if row]
        names = parse_labels([name.strip() for name, _ in rows], where=text).tolist()
        return dict(zip(names, (float(number) for _, number in rows), strict=True))
    except ValueError as error:
        raise InvalidInput(f"{text}: {error}; expected lines like 'ill,0.1'") from error


def _explain(total: Path, **how: Any) -> str:
    """Whose contribution is at fault, if that can be found."""
    if total.is_dir():
        return Store.open(total).explain(partial(solve_statistics, **how))
    return "a sum does not show which contribution is at fault; solving a store does"


RARE = 10
"""A class that another one outnumbers so many times is rare."""


@command(
    "safle solve store -o model.safetensors",
    "safle solve total.stats --encoder encoder.safetensors -o model.safetensors",
    "safle solve store --curve ridge.csv -o model.safetensors",
)
@click.argument("total", type=opt.PLACE, metavar="SUM", help="A store, or summed statistics.")
@opt.file_option("--encoder encoder_path", ENCODER, show_default="the store's")
@opt.option("--ridge", RIDGE, "auto|0|NUMBER", callback=_parse_ridge, default="auto")
@opt.option("--head", HEAD, "NAME", type=click.Choice(["auto", *HEADS]), default="auto")
@opt.option(
    "--priors", PRIORS, "uniform|FILE", callback=_read_priors, show_default="as they were counted"
)
@opt.written("--curve", CURVE)
@opt.output("The model file to write.")
def solve(
    session: Session,
    /,
    total: Path,
    encoder_path: Path | None,
    output: Path,
    curve: Path | None,
    **how: Any,
) -> None:
    """Solve for the weights: one linear system, no rounds, no held-out data.

    Equal sums give equal model bytes, however the samples were split: the model of a store is that
    of exactly the clients in it, also after others were added and removed. Noisy sums
    ([b]safle publish[/b]) are solved with a ridge as large as their noise.
    """
    if curve is not None and how["ridge"] != "auto":
        raise click.UsageError("--curve needs --ridge auto: a given ridge has no curve")
    encoder = _load_encoder(total, encoder_path)
    with session.progress(f"reading {total}") as advance:
        statistics = read_total(total, encoder.space, advance)
    _announce_solving(session, encoder, statistics)
    try:
        with session.progress("solving") as advance:
            solution = solve_statistics(statistics, **how, progress=advance)
    except SolveError as error:
        raise SolveError(f"{error}; {_explain(total, **how)}") from error
    ridge_curve = solution.curve
    # Noisy sums may seem to fit without a residual; that does not suggest copies.
    if ridge_curve and not solution.promise and ridge_curve.suspects_copies(solution.sample_count):
        session.warn(
            f"the ridge, {solution.ridge:.4g}, is likely far too small: {solution.sample_count:,} "
            "samples are fitted without an error, by far fewer directions than samples, which "
            "suggests duplicated rows. Choose the ridge with --ridge, by "
            "held-out samples"
        )
    model = Model.of(encoder, solution)
    model.save(output)
    if curve is not None and ridge_curve is not None:
        _write_curve(ridge_curve, curve)
    session.facts(f"{output}: model", _facts(model, solution))
    if how["priors"] is None:
        _advise_priors(session, statistics)


def _advise_priors(session: Session, statistics: Sums) -> None:
    """Name the option that finds rare classes, if some are rare."""
    counts = dict(zip(statistics.class_names, statistics.class_counts.tolist(), strict=True))
    rarest = min(counts, key=counts.__getitem__)
    most = max(counts.values())
    if most > RARE * counts[rarest]:
        session.note(
            f"class {rarest} has {counts[rarest]:,} samples, another {most:,}: rare classes are "
            "often taken for frequent ones; --priors uniform finds more of them"
        )


def _load_encoder(total: Path, path: Path | None) -> Encoder:
    if path is not None:
        return load_encoder(path)
    if not total.is_dir():
        raise click.UsageError("--encoder is missing: only a store has its own")
    return Store.open(total).encoder


def _announce_solving(session: Session, encoder: Encoder, statistics: Sums) -> None:
    """Note what is solved; advise --by-class if it suits this number of classes."""
    classes = len(statistics.class_names)
    session.note(f"solving {statistics.dim:,} columns, number of classes: {classes:,}")
    setting = describe(encoder.settings_type).get("by_class")
    if setting is None or setting.default is not None or encoder.layout.class_layout:
        return
    if suits_by_class(encoder.feature_dim, classes):
        session.note(
            f"{classes:,} classes: an encoder made with --by-class would count them separately "
            "and predict them better"
        )


def _write_curve(curve: RidgeCurve, path: Path) -> None:
    columns = (curve.ridges, curve.scores, curve.degrees_of_freedom)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    header = f"ridge,{curve.criterion},degrees_of_freedom"
    lines = [header, *(",".join(map(repr, row)) for row in rows)]
    atomic.write_text(path, "\n".join(lines) + "\n")


def _facts(model: Model, solution: Solution) -> dict[str, object]:
    chosen = "" if solution.curve is None else f" (chosen by {solution.curve.criterion})"
    if solution.curve is not None and solution.ridge > solution.curve.best:
        chosen = " (as large as the noise)"
    return {
        "samples": f"{solution.sample_count:,}",
        **model_facts(model),
        "ridge": f"{solution.ridge:.4g}{chosen}",
        "residual": f"{solution.residual:.1e}",
        "rank": "full: the ridge is positive" if solution.rank is None else f"{solution.rank:,}",
        "precision": solution.precision,
    }
