"""``safle sum``: any number of statistics or histogram files -> their sum."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli.options import FILE, Command, output
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.federation.manifest import Manifest

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
@output("The sum to write; FILE.manifest.json beside it lists the contributions.")
@click.pass_obj
def add_up(
    session: Session,
    /,
    files: tuple[Path, ...],
    encoder_path: Path | None,
    allow_duplicates: bool,
    output: Path,
) -> None:
    """Add up contributions: every file is verified first, and none is taken twice.

    One file is in memory at a time. Order and grouping do not matter: the sum's bytes
    are the same, and a sum can be summed again.
    """
    from safle._internal.memory import readable

    histograms = _are_histograms(files)
    if histograms and encoder_path is not None:
        raise click.UsageError("--encoder does not apply to histograms; leave it out")
    session.announce_compilation()
    with session.progress(f"summing {len(files)} files") as advance:
        options: dict[str, Any] = {"allow_duplicates": allow_duplicates, "progress": advance}
        if not histograms:
            options["fingerprint"] = _fingerprint(encoder_path)
        manifest = _summation(histograms)(files, output, **options)
    facts = {
        "files": len(files),
        "contributions": len(manifest.contributions),
        "samples": f"{manifest.samples:,}",
        "file": readable(output.stat().st_size),
        "digest": manifest.digest,
    }
    session.facts(f"{output}: sum of {manifest.kind}", facts)


def _are_histograms(files: tuple[Path, ...]) -> bool:
    """Whether these are histograms; the first file decides, the others must be the same."""
    from safle.wire import peek_kind

    return peek_kind(files[0]) == "histogram"


def _summation(histograms: bool) -> Callable[..., Manifest]:
    from safle.federation.files import sum_files, sum_histograms

    return sum_histograms if histograms else sum_files


def _fingerprint(encoder_path: Path | None) -> str | None:
    from safle.encoders import load_encoder

    return None if encoder_path is None else load_encoder(encoder_path).fingerprint
