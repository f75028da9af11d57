"""``safle sum``: files of contributions -> their sum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from safle.basics.memory import readable
from safle.basics.places import BESIDE, find_files
from safle.cli import options as opt
from safle.cli.facts import listing, warn_of_classes, warn_of_coarse
from safle.cli.limits import chosen_limits, empty_option, limit_options
from safle.cli.session import Session
from safle.encoders import load_encoder
from safle.server import sum_evaluations, sum_files, sum_histograms
from safle.wire import peek_kind, read_histogram

FILES = (
    "Files of statistics, of histograms or of evaluation counts: paths, folders, or addresses "
    "for fsspec."
)
ENCODER = "For statistics: refuse those of any other encoder."
RAY = "For statistics: add up on a Ray cluster; 'local' starts one, 'auto' finds it."


@opt.command(
    "safle sum clients/*.stats -o total.stats",
    "safle sum total.stats late.stats -o total.stats",
    "safle sum sites/*.eval -o total.eval",
    "safle sum s3://bucket/clients/ --ray auto -o total.stats",
    name="sum",
)
@click.argument("files", nargs=-1, required=True, help=FILES)
@opt.option(
    "--encoder encoder_path", ENCODER, "FILE", type=opt.FILE, show_default="the first file's"
)
@opt.option("--ray", RAY, "ADDRESS")
@opt.option("--allow-duplicates", "Add the same contribution twice.", is_flag=True)
@empty_option
@limit_options
@opt.output("The sum to write.", "statistics", "histogram", "evaluation counts")
def add_up(
    session: Session,
    /,
    files: tuple[str, ...],
    encoder_path: Path | None,
    ray: str | None,
    allow_duplicates: bool,
    output: Path,
    **limits: Any,
) -> None:
    """Add up contributions: every file is verified first, and none is taken twice.

    The sum has the same bytes as that of [b]safle store add[/b] and [b]solve[/b]; use it for files
    that you keep outside a store. One file is in memory at a time. Order, grouping and the
    number of processes do not matter, and a sum can be summed again. A sum does not
    list its contributions: only a store can name them and remove one.
    """
    sources = find_files(files, except_for=BESIDE)
    # The first file decides the kind; the others must be of the same kind.
    kind = peek_kind(sources[0]) if sources else None
    others = {"histogram": sum_histograms, "evaluation counts": sum_evaluations}
    if kind in others and (encoder_path or ray):
        raise click.UsageError("--encoder and --ray apply to statistics; leave them out")
    with session.progress(f"summing {len(sources)} files") as advance:
        how: dict[str, Any] = {"allow_duplicates": allow_duplicates, "progress": advance}
        how["limits"] = chosen_limits(limits)
        if kind in others:
            summed = others[kind](sources, output, **how)
        else:
            space = load_encoder(encoder_path).space if encoder_path else None
            summed = sum_files(sources, output, space=space, ray=ray, **how)
    facts = {
        "files": summed.files,
        "samples": f"{summed.samples:,}",
        **({"classes": listing(summed.classes)} if summed.classes else {}),
        "file": readable(summed.bytes),
        "digest": summed.digest,
    }
    session.facts(f"{output}: sum of {summed.kind}", facts)
    warn_of_classes(session, summed.classes)
    if kind == "histogram":
        warn_of_coarse(session, read_histogram(output))
