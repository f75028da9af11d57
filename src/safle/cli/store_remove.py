"""``safle store remove``: unlearn clients, exactly."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import Command, store_argument
from safle.cli.session import Session

EXAMPLE = """\
Example:

  safle store remove store/ hospital-c

  safle store solve store/ -o model.safetensors
"""


@click.command(cls=Command, epilog=EXAMPLE)
@store_argument
@click.argument("clients", nargs=-1, required=True, help="Names, as 'safle store list' shows them.")
@click.pass_obj
def remove(session: Session, /, folder: Path, clients: tuple[str, ...]) -> None:
    """Take clients back: their contributions are deleted, and the next model never saw them."""
    from safle.federation.store import Store

    with Store.open(folder, writing=True) as store:
        for client in clients:
            store.remove(client)
        facts = {"clients": len(store.members), "samples": f"{store.sample_count:,}"}
    session.facts(f"{folder}: store", facts)
