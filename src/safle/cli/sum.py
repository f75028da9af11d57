"""``safle sum``: any number of statistics or histogram files -> their sum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli.limit_options import chosen_limits, limit_options
from safle.cli.options import FILE, Command, output
from safle.cli.session import Session

EXAMPLE = """\
Examples:

  safle sum clients/*.stats -o total.stats

  safle sum total.stats late.stats -o total.stats
"""


@click.command("sum", cls=Command, panel="At the server", epilog=EXAMPLE)
@click.argument(
    "files", type=FILE, nargs=-1, required=True, help="Statistics files, or histogram files."
)
@click.option(
    "--encoder",
    "encoder_path",
    type=FILE,
    metavar="FILE",
    help="Refuse statistics of any other encoder.",
    show_default="the first file's",
)
@click.option("--allow-duplicates", is_flag=True, help="Add the same contribution twice.")
@click.option(
    "--features",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of histograms: refuse those of more or fewer features.",
    show_default="the first file's",
)
@click.option(
    "--grid",
    type=(float, float, int),
    metavar="LOW HIGH BINS",
    help="Of histograms: refuse those on another grid.",
    show_default="the first file's",
)
@limit_options
@output("The sum to write; FILE.manifest.json beside it lists the contributions.")
@click.pass_obj
def add_up(
    session: Session,
    /,
    files: tuple[Path, ...],
    encoder_path: Path | None,
    allow_duplicates: bool,
    features: int | None,
    grid: tuple[float, float, int] | None,
    output: Path,
    **limits: Any,
) -> None:
    """Add up contributions: every file is verified first, and none is taken twice.

    One file is in memory at a time. Order and grouping do not matter: the sum's bytes
    are the same, and a sum can be summed again.
    """
    from safle._internal.memory import readable
    from safle.encoders import load_encoder
    from safle.encoders.histogram import Grid
    from safle.federation.files import sum_files, sum_histograms
    from safle.wire import peek_kind

    # The first file decides, the others must be the same.
    histograms = peek_kind(files[0]) == "histogram"
    if histograms and encoder_path is not None:
        raise click.UsageError("--encoder does not apply to histograms; leave it out")
    if not histograms and (features, grid) != (None, None):
        raise click.UsageError("--features and --grid apply to histograms; leave them out")
    session.announce_compilation()
    with session.progress(f"summing {len(files)} files") as advance:
        options: dict[str, Any] = {"allow_duplicates": allow_duplicates, "progress": advance}
        options["limits"] = chosen_limits(limits)
        if histograms:
            declared = Grid(*grid) if grid else None
            manifest = sum_histograms(files, output, features=features, grid=declared, **options)
        else:
            made = load_encoder(encoder_path) if encoder_path else None
            manifest = sum_files(files, output, made=made, **options)
    facts = {
        "files": len(files),
        "contributions": len(manifest.contributions),
        "samples": f"{manifest.samples:,}",
        "file": readable(output.stat().st_size),
        "digest": manifest.digest,
    }
    session.facts(f"{output}: sum of {manifest.kind}", facts)
