"""``safle store list``: who is in a store."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import Command, store_argument
from safle.cli.session import Session

EXAMPLE = "Example:\n\n  safle store list store/"


@click.command("list", cls=Command, epilog=EXAMPLE)
@store_argument
@click.pass_obj
def list_members(session: Session, /, folder: Path) -> None:
    """List the clients that are in, with samples, classes, bytes, time and digest.

    Reads the index alone, and may be used while a round is under way.
    """
    from safle._internal.memory import readable
    from safle.federation.store import Store

    store = Store.open(folder)
    session.table(
        ["client", "received", "samples", "classes", "size", "digest"],
        [
            (
                client,
                member.received,
                f"{member.contribution.samples:,}",
                len(member.contribution.classes),
                readable(member.contribution.bytes),
                member.contribution.digest[:16],
            )
            for client, member in store.members.items()
        ],
        names=2,
    )
    facts = {
        "clients": len(store.members),
        "samples": f"{store.sample_count:,}",
        "encoder": store.encoder.fingerprint,
    }
    session.facts(f"{folder}: store", facts)
