"""``safle sum`` adds up files without a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.facts import counts_facts, warn_of_classes
from safle.cli.session import Session, command
from safle.encoders.base import load_encoder
from safle.server.summing import sum_files
from safle.wire.container import read_limited

FILES = (
    "Files of statistics, of histograms or of evaluation counts: paths, folders, addresses for "
    "fsspec; or stores."
)
ENCODER = "For statistics: refuse those of any other encoder."
RAY = "Add up on a Ray cluster; 'local' starts one, 'auto' finds it."


@command(
    "safle sum clients/*.stats -o total.stats",
    "safle sum total.stats late.stats -o all.stats",
    "safle sum sites/*.eval -o total.eval",
    "safle sum s3://bucket/clients/ --ray auto -o total.stats",
    name="sum",
)
@click.argument("files", nargs=-1, required=True, help=FILES)
@opt.file_option("--encoder encoder_path", ENCODER, show_default="the first file's")
@opt.option("--ray", RAY, "ADDRESS")
@opt.flag("--allow-duplicates", "Add the same contribution twice.")
@opt.limit_options
@opt.output("The sum to write.")
def add_up(
    session: Session,
    /,
    files: tuple[str, ...],
    encoder_path: Path | None,
    ray: str | None,
    output: Path,
    **options: Any,
) -> None:
    """Add up contributions: every file is verified first, and none is added twice.

    A store counts as the sum of all its clients, with the same bytes as the sum of their files. One
    file is in memory at a time. Order, grouping and the number of processes do not matter, and a
    sum can be summed again. A sum does not list its contributions: only a store can name them and
    remove one.
    """
    space = load_encoder(encoder_path).space if encoder_path else None
    limits = opt.take_limits(options)
    with session.progress("summing") as advance:
        total, summed = sum_files(
            files, output, space=space, limits=limits, progress=advance, ray=ray, **options
        )
    facts = {"files": summed, **counts_facts(total, read_limited(output))}
    session.facts(f"{output}: sum of {total.format}", facts)
    warn_of_classes(session, [*total.samples_by_class()])
