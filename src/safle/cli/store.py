"""``safle store``: contributions kept on disk, for federations by files and over a network."""

from __future__ import annotations

import rich_click as click

from safle.cli.store_add import add
from safle.cli.store_list import list_members
from safle.cli.store_remove import remove
from safle.cli.store_solve import solve
from safle.cli.store_verify import verify

EXAMPLE = """\
Example:

  safle store add store --encoder encoder.safetensors clients/*.stats

  safle store solve store -o model.safetensors
"""


@click.group(panel="At the server", epilog=EXAMPLE)
def store() -> None:
    """Keep contributions, add late ones, take clients back, and solve again from what is kept.

    A store is a folder. It survives a kill at any moment, and the model solved from it is
    byte for byte the one of a federation of exactly the clients that are in.
    """


for command in (add, remove, list_members, verify, solve):
    store.add_command(command)
