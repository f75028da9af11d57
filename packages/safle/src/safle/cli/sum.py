"""``safle sum``: statistics, histograms or evaluation counts -> their sum."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli.limit_options import chosen_limits, empty_option, limit_options
from safle.cli.options import BY_FILES, COUNT, FILE, command, option, output
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.server.summing import Summed

FILES = (
    "Files of statistics, of histograms or of evaluation counts: paths, folders, or addresses "
    "for fsspec."
)
RAY = "Of statistics: add up on a Ray cluster; 'local' starts one, 'auto' finds it."
FEATURES = "Of histograms: refuse those of more or fewer features."
GRID = "Of histograms: refuse those on another grid."
RANGES = "Of histograms: as --grid, with a range for each feature."
FIRST: dict[str, Any] = {"show_default": "the first file's"}


@command(
    BY_FILES,
    "safle sum clients/*.stats -o total.stats",
    "safle sum total.stats late.stats -o total.stats",
    "safle sum sites/*.eval -o total.eval",
    "safle sum s3://bucket/clients/ --ray auto -o total.stats",
    name="sum",
)
@click.argument("files", nargs=-1, required=True, help=FILES)
@option(
    "--encoder encoder_path", "Refuse statistics of any other encoder.", "FILE", type=FILE, **FIRST
)
@option("--ray", RAY, "ADDRESS")
@option("--allow-duplicates", "Add the same contribution twice.", is_flag=True)
@option("--features", FEATURES, "N", type=COUNT, **FIRST)
@option("--grid", GRID, "LOW HIGH BINS", type=(float, float, int), **FIRST)
@option("--ranges", RANGES, "FILE BINS", type=(FILE, int))
@empty_option
@limit_options
@output("The sum to write.", "statistics", "histogram", "evaluation counts")
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
    session.announce_compilation()
    with session.progress(f"summing {len(sources)} files") as advance:
        options: dict[str, Any] = {"allow_duplicates": allow_duplicates, "progress": advance}
        options["limits"] = chosen_limits(limits)
        if kind == "evaluation counts":
            summed = sum_evaluations(sources, output, **options)
        elif kind == "histogram":
            declared = declared_grid(grid, ranges)
            summed = sum_histograms(sources, output, features=features, grid=declared, **options)
        else:
            made = load_encoder(encoder_path) if encoder_path else None
            summed = sum_files(sources, output, made=made, ray=ray, **options)
    session.facts(f"{output}: sum of {summed.kind}", _facts(summed))
    warn_of_classes(session, summed.classes)
    if kind == "histogram":
        warn_of_coarse(session, read_histogram(output))


def _check_usage(kind: str | None, of_statistics: object, of_histograms: object) -> None:
    if kind in ("histogram", "evaluation counts") and of_statistics != (None, None):
        raise click.UsageError("--encoder and --ray apply to statistics; leave them out")
    if kind != "histogram" and of_histograms != (None, None, None):
        raise click.UsageError("--features, --grid and --ranges are for histograms; leave them out")


def _facts(summed: Summed) -> dict[str, object]:
    from safle.basics.memory import readable
    from safle.cli.describe import listing

    return {
        "files": summed.files,
        "samples": f"{summed.samples:,}",
        **({"classes": listing(summed.classes)} if summed.classes else {}),
        "file": readable(summed.bytes),
        "digest": summed.digest,
    }
