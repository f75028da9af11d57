"""``safle sum`` and ``safle solve``: files of contributions -> their sum -> a model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import rich_click as click

from safle.cli import options as opt
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.encoders import Encoder
    from safle.model import Model
    from safle.server.summing import Summed
    from safle.solver import Solution
    from safle.statistics.value import Sums

RIDGE = "Regularisation: chosen from the statistics alone, none (minimum norm), or given."
HEADS = click.Choice(["auto", "least-squares", "discriminant", "averaged", "quadratic"])
HEAD = (
    "least-squares (the paper's), discriminant (LDA), quadratic (a covariance for each class, "
    "where clients counted by class) or averaged, from the same statistics; auto is averaged "
    "where there are two classes or more."
)
AUTO = (
    "Choose ridge and head from the statistics alone, as without any option; refuses to go "
    "with --ridge or --head."
)
CRITERION = "How auto chooses: generalised cross-validation or marginal likelihood."
PRIORS = (
    "How frequent classes are where the model is used: all alike, or a .csv of lines "
    "'class,number'."
)
CURVE = "Also write the ridge curve: .png, .csv or .json."
CURVE_SUFFIXES = (".png", ".csv", ".json")


def _ridge(_context: click.Context, _option: click.Parameter, text: str) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise click.BadParameter(f"{text!r}; expected 'auto', 0 or a positive number")
    return number


def _priors(_context: click.Context, _option: click.Parameter, text: str | None) -> Any:
    if text is None or text == "uniform":
        return text
    import csv

    from safle.errors import InvalidInput
    from safle.tables.labels import parse_labels

    with Path(text).open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    try:
        names = parse_labels([name.strip() for name, _ in rows], where=text).tolist()
        return dict(zip(names, (float(number) for _, number in rows), strict=True))
    except ValueError as error:
        raise InvalidInput(f"{text}: {error}; expected lines like 'ill,0.1'") from error


solve_options = opt.options(
    opt.option("--ridge", RIDGE, "auto|0|NUMBER", callback=_ridge, default="auto"),
    opt.option("--head", HEAD, "NAME", type=HEADS, default="auto"),
    opt.option("--auto", AUTO, is_flag=True),
    opt.option("--criterion", CRITERION, type=click.Choice(["gcv", "evidence"]), default="gcv"),
    opt.option(
        "--priors", PRIORS, "uniform|FILE", callback=_priors, show_default="as they were counted"
    ),
    opt.written("--curve", CURVE, ".png", ".json", "ridge curve"),
)
"""How statistics are solved; ``curve`` and ``how`` of `solve_and_save`."""


@opt.command(
    opt.BY_FILES,
    "safle solve total.stats --encoder encoder.safetensors -o model.safetensors",
    "safle solve total.stats --encoder encoder.safetensors --curve ridge.png -o m.safetensors",
)
@click.argument("total", type=opt.FILE, help="Summed statistics.")
@opt.encoder_file("The encoder the clients counted with; the model carries a copy.")
@solve_options
@opt.output("The model file to write.", "model")
def solve(
    session: Session,
    /,
    total: Path,
    encoder_path: Path,
    output: Path,
    curve: Path | None,
    **how: Any,
) -> None:
    """Solve for the weights: one linear system, no rounds, no held-out data.

    Equal sums give equal model bytes, whoever counted what. Noisy sums ([b]safle publish[/b]) are
    solved with a ridge as large as their noise.
    """
    from safle.encoders import load_encoder
    from safle.wire import peek_kind, read_noisy, read_statistics

    check_usage(curve, how)
    opt.refuse_overwriting(output, total, encoder_path)
    encoder = load_encoder(encoder_path)
    noisy = total.exists() and peek_kind(total) == "noisy statistics"
    statistics = (read_noisy if noisy else read_statistics)(total, space=encoder.space)
    blame = "a sum does not tell whose contribution it was: 'safle store solve' checks each"
    solve_and_save(session, encoder, statistics, output, lambda _solving: blame, curve=curve, **how)


def solve_and_save(
    session: Session,
    encoder: Encoder,
    statistics: Sums,
    output: Path,
    explain: Callable[[Callable[[Sums], object]], str],
    *,
    curve: Path | None,
    **how: Any,
) -> Model:
    """Solve, write the model and maybe the ridge curve, and say what came out, or whose fault."""
    from safle.errors import SolveError
    from safle.model import Model
    from safle.solver import solve as solve_statistics

    _state_memory(session, statistics, how["ridge"])
    _advise(session, encoder, statistics)
    try:
        with session.progress("solving") as advance:
            solution = solve_statistics(statistics, **how, progress=advance)
    except SolveError as error:
        why = explain(partial(solve_statistics, **how))
        raise SolveError(f"{error}; {why}") from error
    _warn_of_copies(session, solution)
    model = Model(encoder, solution)
    model.save(output)
    if curve is not None and solution.curve is not None:
        write_curve(solution.curve, curve)
    session.facts(f"{output}: model", _facts(model, solution))
    return model


def _warn_of_copies(session: Session, solution: Solution) -> None:
    found = solution.curve
    # Under noise nothing is fitted without a residual, whatever the sums seem to say.
    exact = solution.privacy is None
    if exact and found is not None and found.suspects_copies(solution.sample_count):
        session.warn(
            f"the ridge, {solution.ridge:.4g}, is likely far too small: {solution.sample_count:,} "
            "samples are fitted without a residual by far fewer directions, as if lines stood "
            "there several times (weights, copies). Choose it with --ridge, on samples that were "
            "held out"
        )


def check_usage(curve: Path | None, how: dict[str, Any]) -> None:
    """Refuse what cannot be meant, or written, before the work; "auto" leaves ``how``."""
    if how.pop("auto") and (how["ridge"], how["head"]) != ("auto", "auto"):
        raise click.UsageError("--auto chooses ridge and head: leave out --ridge and --head")
    if curve is None:
        return
    if curve.suffix not in CURVE_SUFFIXES:
        raise click.UsageError(f"--curve {curve}: expected {', '.join(CURVE_SUFFIXES)}")
    if how["ridge"] != "auto":
        raise click.UsageError("--curve needs --ridge auto: a given ridge has no curve")
    if curve.suffix == ".png":
        from safle.evaluation import pictures

        pictures.require_matplotlib()


def _state_memory(session: Session, statistics: Sums, ridge: float | str) -> None:
    from safle.basics.memory import readable
    from safle.solver import solve_bytes

    rows, classes = statistics.dim, len(statistics.class_names)
    needed = 4 * 8 * rows**2 if ridge == 0 else solve_bytes(rows, classes)
    held = statistics.gram.packed.nbytes + statistics.cross.nbytes
    session.note(
        f"solving {rows:,} columns for {classes:,} class{'' if classes == 1 else 'es'}: needs "
        f"up to {readable(needed)} of memory beside the statistics' {readable(held)}"
    )


def _advise(session: Session, encoder: Encoder, statistics: Sums) -> None:
    """Where there are more classes than anybody said when the encoder was made."""
    from safle.encoders.random_features import suits_by_class

    setting = encoder.settings_type.declared().get("by_class")
    if setting is None or setting.default is not None or encoder.layout.class_layout:
        return
    if suits_by_class(encoder.feature_dim, classes := len(statistics.class_names)):
        session.note(
            f"{classes:,} classes: so many are told apart better by an encoder that was made with "
            f"--classes {classes}, which counts them apart"
        )


def write_curve(curve: Any, path: Path) -> None:
    """The ridge curve as a picture or as numbers, by suffix, atomically."""
    import json

    from safle.basics import atomic
    from safle.evaluation import pictures

    columns = {
        "ridge": curve.ridges.tolist(),
        curve.criterion: curve.scores.tolist(),
        "degrees_of_freedom": curve.degrees_of_freedom.tolist(),
    }
    if path.suffix == ".png":
        pictures.ridge_curve(curve, path)
    elif path.suffix == ".csv":
        rows = zip(*columns.values(), strict=True)
        lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows)]
        atomic.write_text(path, "\n".join(lines) + "\n")
    else:
        atomic.write_text(path, json.dumps({"best": curve.best, **columns}, indent=1) + "\n")


def _facts(model: Model, solution: Solution) -> dict[str, object]:
    from safle.cli.describe import listing, privacy_facts, temperature_of

    chosen = "" if solution.curve is None else f" (chosen by {solution.curve.criterion})"
    if solution.curve is not None and solution.ridge > solution.curve.best:
        chosen = " (as large as the noise)"
    rank = "full: the ridge is positive" if solution.rank is None else f"{solution.rank:,}"
    return {
        "samples": f"{solution.sample_count:,}",
        "classes": listing(model.class_names),
        "head": solution.head,
        "ridge": f"{solution.ridge:.6g}{chosen}",
        "probabilities": temperature_of(model),
        **privacy_facts(model),
        "residual": f"{solution.residual:.1e}",
        "rank": rank,
        "precision": solution.precision,
        "digest": model.digest,
    }


FILES = (
    "Files of statistics, of histograms or of evaluation counts: paths, folders, or addresses "
    "for fsspec."
)
RAY = "Of statistics: add up on a Ray cluster; 'local' starts one, 'auto' finds it."
FEATURES = "Of histograms: refuse those of more or fewer features."
GRID = "Of histograms: refuse those on another grid."
RANGES = "Of histograms: as --grid, with a range for each feature."
FIRST: dict[str, Any] = {"show_default": "the first file's"}


@opt.command(
    opt.BY_FILES,
    "safle sum clients/*.stats -o total.stats",
    "safle sum total.stats late.stats -o total.stats",
    "safle sum sites/*.eval -o total.eval",
    "safle sum s3://bucket/clients/ --ray auto -o total.stats",
    name="sum",
)
@click.argument("files", nargs=-1, required=True, help=FILES)
@opt.option(
    "--encoder encoder_path",
    "Refuse statistics of any other encoder.",
    "FILE",
    type=opt.FILE,
    **FIRST,
)
@opt.option("--ray", RAY, "ADDRESS")
@opt.option("--allow-duplicates", "Add the same contribution twice.", is_flag=True)
@opt.option("--features", FEATURES, "N", type=opt.COUNT, **FIRST)
@opt.option("--grid", GRID, "LOW HIGH BINS", type=(float, float, int), **FIRST)
@opt.option("--ranges", RANGES, "FILE BINS", type=(opt.FILE, int))
@opt.empty_option
@opt.limit_options
@opt.output("The sum to write.", "statistics", "histogram", "evaluation counts")
def add_up(
    session: Session,
    /,
    files: tuple[str, ...],
    ray: str | None,
    encoder_path: Path | None,
    allow_duplicates: bool,
    features: int | None,
    grid: tuple[float, float, int] | None,
    ranges: tuple[Path, int] | None,
    output: Path,
    **limits: Any,
) -> None:
    """Add up contributions: every file is verified first, and none is taken twice.

    What [b]safle store add[/b] and [b]solve[/b] do on the way, for whoever keeps the files
    elsewhere: the bytes are the same. One file is in memory at a time. Order, grouping and the
    number of processes do not matter, and a sum can be summed again. A sum does not know what it
    is made of: only a store can say who is in, and take somebody back.
    """
    from safle.basics.places import BESIDE, find_files
    from safle.cli.describe import warn_of_classes, warn_of_coarse
    from safle.cli.reading import declared_grid
    from safle.encoders import load_encoder
    from safle.server.summing import sum_evaluations, sum_files, sum_histograms
    from safle.wire import peek_kind, read_histogram

    sources = find_files(files, except_for=BESIDE)
    # The first file decides, the others must be the same.
    kind = peek_kind(sources[0]) if sources else None
    _check_usage(kind, (encoder_path, ray), (features, grid, ranges))
    with session.progress(f"summing {len(sources)} files") as advance:
        options: dict[str, Any] = {"allow_duplicates": allow_duplicates, "progress": advance}
        options["limits"] = opt.chosen_limits(limits)
        if kind == "evaluation counts":
            summed = sum_evaluations(sources, output, **options)
        elif kind == "histogram":
            declared = declared_grid(grid, ranges)
            summed = sum_histograms(sources, output, features=features, grid=declared, **options)
        else:
            space = load_encoder(encoder_path).space if encoder_path else None
            summed = sum_files(sources, output, space=space, ray=ray, **options)
    session.facts(f"{output}: sum of {summed.kind}", _sum_facts(summed))
    warn_of_classes(session, summed.classes)
    if kind == "histogram":
        warn_of_coarse(session, read_histogram(output))


def _check_usage(kind: str | None, of_statistics: object, of_histograms: object) -> None:
    if kind in ("histogram", "evaluation counts") and of_statistics != (None, None):
        raise click.UsageError("--encoder and --ray apply to statistics; leave them out")
    if kind != "histogram" and of_histograms != (None, None, None):
        raise click.UsageError("--features, --grid and --ranges are for histograms; leave them out")


def _sum_facts(summed: Summed) -> dict[str, object]:
    from safle.basics.memory import readable
    from safle.cli.describe import listing

    return {
        "files": summed.files,
        "samples": f"{summed.samples:,}",
        **({"classes": listing(summed.classes)} if summed.classes else {}),
        "file": readable(summed.bytes),
        "digest": summed.digest,
    }
