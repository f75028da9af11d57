"""``safle private sum``: masked files -> their masked sum, and the question to keyholders."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import command, output, written
from safle.cli.private_options import load_round, round_options
from safle.cli.session import Session

FILES = "Masked files: paths, folders, or addresses for fsspec."
REQUEST = "The request to write; every keyholder gets a copy."


@command(
    None,
    "safle private sum clients/*.masked --round round.private --operator operator.pub "
    "--request request.ask -o sum.masked",
    name="sum",
)
@click.argument("files", nargs=-1, required=True, help=FILES)
@round_options(key=False, required=True)
@written("--request", REQUEST, "request to keyholders", required=True)
@output("The masked sum to write; it stays here until the keyholders have answered.", "masked sum")
def add_up(
    session: Session,
    /,
    files: tuple[str, ...],
    round_path: Path,
    operator_path: Path,
    request: Path,
    output: Path,
) -> None:
    """Add up masked contributions, and ask the keyholders to open the sum.

    Every signature is checked against the round's roster, and no client is taken twice. One
    file is in memory at a time.
    """
    from safle.basics.atomic import write_together
    from safle.basics.memory import readable
    from safle.private.gathering import gather_files

    private_round = load_round(round_path, operator_path)
    session.announce_compilation()
    with session.progress(f"summing {len(files)} files") as advance:
        total = gather_files(private_round, files, advance)
    write_together({output: total.to_bytes(), request: total.request.to_bytes()})
    facts = {
        "clients": f"{len(total.heads)} of {len(private_round.clients)}",
        "request": f"{request} ({readable(request.stat().st_size)}), for "
        f"{', '.join(private_round.keyholders)}, who all must answer",
        "digest": total.digest,
    }
    session.facts(f"{output}: masked sum", facts)
