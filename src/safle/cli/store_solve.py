"""``safle store solve``: everything in a store -> a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli.options import Command, output, store_argument, written
from safle.cli.session import Session
from safle.cli.solve import check_usage, solve_and_save, solve_options

EXAMPLE = """\
Example:

  safle store solve store/ -o model.safetensors
"""


@click.command(cls=Command, epilog=EXAMPLE)
@store_argument
@written("--sum", "total", help="Also write the sum, with its manifest beside it.")
@solve_options
@output("The model file to write.")
@click.pass_obj
def solve(
    session: Session,
    /,
    folder: Path,
    total: Path | None,
    output: Path,
    curve: Path | None,
    **how: Any,
) -> None:
    """Add up everything in the store, verified again, and solve.

    The model's bytes are those of a federation of exactly these clients, whatever
    was added and removed before.
    """
    from safle.federation.files import write_sum
    from safle.federation.store import Store

    check_usage(curve, how)
    session.announce_compilation()
    store = Store.open(folder)
    with session.progress(f"summing {len(store.members)} contributions") as advance:
        statistics = store.total(advance).snapshot()
    if total is not None:
        write_sum(total, statistics, store.manifest())
    solve_and_save(session, store.encoder, statistics, output, curve=curve, **how)
