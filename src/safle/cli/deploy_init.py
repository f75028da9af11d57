"""``safle deploy init``: a folder with all that a deployment needs."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import Command
from safle.cli.session import Session

EXAMPLE = """\
Example:

  safle deploy init federation --host fl.example.org --nodes hospital-a,hospital-b,hospital-c
"""


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument(
    "folder", type=click.Path(file_okay=False, path_type=Path), help="The folder to make."
)
@click.option(
    "--host", required=True, metavar="NAME", help="How nodes reach the server: a name or address."
)
@click.option(
    "--nodes", required=True, metavar="A,B,C", help="The clients' names, all that are expected."
)
@click.option("--port", type=click.IntRange(1, 65534), default=8443, metavar="N", help="Its port.")
@click.option(
    "--listen",
    default="0.0.0.0",
    metavar="ADDRESS",
    help="The server's own address to listen on; 127.0.0.1 behind a proxy or for a trial.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    default=3600.0,
    metavar="SECONDS",
    help="A round goes on after this without those that have not answered.",
)
@click.option(
    "--prefix",
    default="/opt/safle",
    metavar="DIR",
    help="Where the folders will be on their machines; for the systemd units.",
)
@click.pass_obj
def init(
    session: Session,
    /,
    folder: Path,
    host: str,
    nodes: str,
    port: int,
    listen: str,
    deadline: float,
    prefix: str,
) -> None:
    """Make keys, certificates, configuration, start scripts and systemd units.

    An authority of your own, the server's certificate, a key for every node, and the Flower
    app of the round. README.md in the folder says what goes where.
    """
    from safle.federation.deployment.folder import make_folder

    names = [name.strip() for name in nodes.split(",") if name.strip()]
    make_folder(
        folder,
        names,
        host=host,
        port=port,
        listen=listen,
        deadline=deadline,
        prefix=prefix.rstrip("/"),
    )
    facts = {
        "server": f"{folder / 'server'}, reached as {host}:{port}",
        "nodes": ", ".join(str(folder / "nodes" / name) for name in names),
        "next": f"{folder / 'README.md'}",
    }
    session.facts(f"{folder}: deployment", facts)
