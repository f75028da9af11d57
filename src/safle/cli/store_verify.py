"""``safle store verify``: read and check everything in a store."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import Command, store_argument
from safle.cli.session import Session

EXAMPLE = "Example:\n\n  safle store verify store/"


@click.command(cls=Command, epilog=EXAMPLE)
@store_argument
@click.pass_obj
def verify(session: Session, /, folder: Path) -> None:
    """Read every contribution and check seal, digest, counts and encoder.

    Exits with 1 and names what is wrong, if anything is.
    """
    from safle.errors import StoreError
    from safle.federation.store import Store

    session.announce_compilation()
    store = Store.open(folder)
    with session.progress(f"verifying {len(store.members)} contributions") as advance:
        problems = store.problems(advance)
    if problems:
        session.text(problems)
        raise StoreError(f"{folder}: {len(problems)} problems, named above")
    session.facts(f"{folder}: store", {"contributions": len(store.members), "problems": "none"})
