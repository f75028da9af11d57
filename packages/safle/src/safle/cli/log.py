"""``safle log``: what went out, came in, was refused, removed or opened."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import command
from safle.cli.session import Session


@command("Any file", "safle log", "safle log store", name="log")
@click.argument(
    "place",
    type=click.Path(path_type=Path),
    required=False,
    metavar="[LOG]",
    help="A log, or a store; by default this site's own ($SAFLE_LOG).",
)
def show_log(session: Session, /, place: Path | None) -> None:
    """Show a log, and check that no row of it was changed or taken out.

    A client's log says what has left by the commands of safle, a store's what came in. The last
    seal stands for the whole log: note it down, and rows that are cut off later will show.
    """
    from safle.server.database import DATABASE
    from safle.site.log import LOG, read_log, site_log

    path = place or site_log()
    if path.is_dir():
        path = path / (DATABASE if (path / DATABASE).exists() else LOG)
    events = read_log(path)
    rows = [(e.time, e.event, e.who, e.digest[:16], e.note) for e in events]
    session.table(["time", "event", "who", "SHA-256", "note"], rows, names=5)
    seal = events[-1].seal if events else "none"
    session.facts(f"{path}: log", {"rows": len(events), "unbroken": "yes", "last seal": seal})
