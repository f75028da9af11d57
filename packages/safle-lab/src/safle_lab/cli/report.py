"""``safle report``: results of experiments as one page."""

from pathlib import Path

import rich_click as click

from safle.cli import Session, command, written
from safle.errors import InvalidInput


@command("safle experiment all --out results && safle report results", panel="Try it")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR", help="Where results are.")
@written("-o --output", "The page to write; by default DIR/report.html.", "page")
def report(session: Session, /, folder: Path, output: Path | None) -> None:
    """Make one self-contained HTML page of all results in a folder.

    Tables and figures as in the paper, the paper's own figures beside them where there
    are any, what differs and why, settings and versions. The page needs no network and
    prints well.
    """
    from safle_lab.report import write_report

    if not folder.is_dir():
        raise InvalidInput(f"{folder}: no such directory; expected the --out of 'safle experiment'")
    target = output or folder / "report.html"
    names = write_report(folder, target)
    session.facts(str(target), {"experiments": ", ".join(names)})
