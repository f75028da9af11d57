"""``safle deploy report``: how a round went."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import Command
from safle.cli.session import Session

EXAMPLE = "Example:\n\n  safle deploy report results"


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument(
    "folder", type=click.Path(file_okay=False, path_type=Path), help="The results of a run."
)
@click.pass_obj
def report(session: Session, /, folder: Path) -> None:
    """Show the report of a round: every client, and the model. Exits with 1 if it failed."""
    from safle.cli.federation_report import show_report
    from safle.errors import FederationError
    from safle.federation.flower.report import read_report

    path = folder / "report.json"
    if not path.exists():
        raise FederationError(
            f"{path}: no report; the run ended before its round was over: see its log"
        )
    found = read_report(path)
    show_report(session, found, folder)
    if found["error"]:
        raise FederationError(found["error"])
