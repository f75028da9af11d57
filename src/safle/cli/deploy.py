"""``safle deploy``: a federation on other people's machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli.limit_options import chosen_limits, limit_options
from safle.cli.options import Command
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.federation.flower.report import Report

FOLDER = click.Path(file_okay=False, path_type=Path)
ROWS_SHOWN = 20
EXAMPLE = """\
Examples:

  safle deploy init federation --host fl.example.org --nodes hospital-a,hospital-b,hospital-c

  safle deploy check /opt/safle/nodes/hospital-a --connect

  safle deploy report results
"""


@click.group(panel="Over a network", epilog=EXAMPLE)
def deploy() -> None:
    """Prepare, check and read a federation over the network.

    Needs the extra flower, on the server and on every node: pip install 'safle[flower]'
    """


@deploy.command(cls=Command, epilog=EXAMPLE)
@click.argument("folder", type=FOLDER, help="The folder to make.")
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
@click.option(
    "--plain",
    is_flag=True,
    help="Let plain contributions out of the nodes; by default their policies let only masked "
    "ones out.",
)
@limit_options
@click.pass_obj
def init(
    session: Session, /, folder: Path, host: str, nodes: str, port: int, **settings: Any
) -> None:
    """Make keys, certificates, configuration, start scripts and systemd units.

    An authority of your own, the server's certificate, for every node a key and a strict policy
    of what it lets out, and the Flower app of the round. README.md in the folder says what goes
    where.
    """
    from safle.federation.deployment.folder import Deployment, make_folder

    names = tuple(name.strip() for name in nodes.split(",") if name.strip())
    limits = chosen_limits(settings)
    make_folder(folder, Deployment(names, host, port, limits=limits, **settings))
    facts = {
        "server": f"{folder / 'server'}, reached as {host}:{port}",
        "nodes": ", ".join(str(folder / "nodes" / name) for name in names),
        "next": f"{folder / 'README.md'}",
    }
    session.facts(f"{folder}: deployment", facts)


@deploy.command(cls=Command, epilog=EXAMPLE)
@click.argument("folder", type=FOLDER, help="The whole folder, its server, or one node's.")
@click.option("--connect", is_flag=True, help="Also try to reach the server.")
@click.pass_obj
def check(session: Session, /, folder: Path, connect: bool) -> None:
    """Check files, keys, certificates, names and settings, and say what to do.

    Exits with 1 if anything is wrong. Warnings alone are no error.
    """
    from safle.errors import SettingsError
    from safle.federation.deployment.checking import check_folder

    found = check_folder(folder, connect=connect)
    if found:
        session.text([str(finding) for finding in found])
    serious = sum(finding.serious for finding in found)
    if serious:
        raise SettingsError(f"{folder}: {serious} things are wrong, named above")
    session.facts(f"{folder}: deployment", {"errors": "none", "warnings": len(found) or "none"})


@deploy.command(cls=Command, epilog=EXAMPLE)
@click.argument("folder", type=FOLDER, help="The results of a run.")
@click.pass_obj
def report(session: Session, /, folder: Path) -> None:
    """Show the report of a round: every client, and the model. Exits with 1 if it failed."""
    from safle.errors import FederationError
    from safle.federation.flower.report import Report

    found = Report.read(folder / "report.json")
    show_report(session, found, folder)
    if found.error:
        raise FederationError(found.error)


def show_report(session: Session, found: Report, folder: Path) -> None:
    """Every client that is not in, some that are, and what the round gave."""
    from safle._internal.memory import readable

    rows = found.table()
    session.table(["client", "status", "samples", "size", "seconds"], rows[:ROWS_SHOWN], names=2)
    if len(rows) > ROWS_SHOWN:
        session.text([f"… and {len(rows) - ROWS_SHOWN} more in {folder / 'report.json'}"])
    facts = {
        "clients in the model": len(found.accepted),
        "samples": f"{found.samples:,}",
        "received": readable(found.bytes_received),
        "server's peak memory": readable(found.server_peak_bytes),
        "seconds": f"{found.seconds:.1f}",
        "digest": found.model,
    }
    session.facts(f"{folder / 'model.safetensors'}: model", facts)
