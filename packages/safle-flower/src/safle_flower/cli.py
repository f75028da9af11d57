"""The commands that safle-flower adds: ``safle deploy`` and ``safle simulate``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.basics import readable, require_package, split_names
from safle.cli import (
    COUNT,
    FOLDER,
    POSITIVE,
    Session,
    command,
    encoder_file,
    examples,
    features_argument,
    limit_options,
    option,
    pick_table_options,
    seed_option,
    table_options,
    take_limits,
)

if TYPE_CHECKING:
    from safle_flower.report import Report

ROWS_SHOWN = 20
EXAMPLES = (
    "safle deploy init federation --host fl.example.org --nodes hospital-a,hospital-b,hospital-c",
    "safle deploy check /opt/safle/nodes/hospital-a --connect",
    "safle deploy report results",
)
KEYHOLDERS = "Nodes that open private sums and send no data; named as in the round."
LISTEN = "The server's own address to listen on; 127.0.0.1 behind a proxy or for a trial."
PLAIN = (
    "Let plain contributions out of the sites; by default their policies let only masked ones out."
)
TRUST = (
    "Run the node as the user who owns the data: the server's operator can then read them. "
    "By default the node has no path to data."
)
DEADLINE = "After this the round goes on without nodes that have not answered."
PREFIX = "The folders' place on their machines, for the systemd units."


@click.group(panel="Over a network", epilog=examples(*EXAMPLES))
def deploy() -> None:
    """Prepare, check and read a federation over the network.

    The server and every node need safle-flower: pip install safle-flower
    """


@command(*EXAMPLES, of=deploy)
@click.argument("folder", type=FOLDER, help="The folder to make.")
@option("--host", "How nodes reach the server: a name or address.", "NAME", required=True)
@option("--nodes", "The names of all expected clients.", "A,B,C", required=True)
@option("--keyholders", KEYHOLDERS, "D,E")
@option("--port", "The server's port.", "N", type=click.IntRange(1, 65534), default=8443)
@option("--listen", LISTEN, "ADDRESS", default="0.0.0.0")
@option("--deadline", DEADLINE, "SECONDS", type=POSITIVE, default=3600.0)
@option("--prefix", PREFIX, "DIR", default="/opt/safle")
@option("--plain", PLAIN, is_flag=True)
@option("--trust-operator", TRUST, is_flag=True)
@limit_options
def init(
    session: Session,
    /,
    folder: Path,
    host: str,
    nodes: str,
    keyholders: str | None,
    port: int,
    **settings: Any,
) -> None:
    """Make keys, certificates, configuration, start scripts and systemd units.

    The folder gets a certificate authority, the server's certificate, a key for every node, a
    strict policy and a separate user for every site, and the Flower app of the round.
    README.md in the folder says which file goes where. Needs openssl and ssh-keygen.
    """
    from safle_flower.deployment import Deployment, make_folder

    clients, holders = split_names(nodes), split_names(keyholders or "")
    settings["limits"] = take_limits(settings)
    make_folder(folder, Deployment(clients, host, port, keyholders=holders, **settings))
    facts = {
        "server": f"{folder / 'server'}, reached as {host}:{port}",
        "nodes": ", ".join(str(folder / "nodes" / name) for name in (*clients, *holders)),
        "next": f"{folder / 'README.md'}",
    }
    session.facts(f"{folder}: deployment", facts)


@command(*EXAMPLES, of=deploy)
@click.argument("folder", type=FOLDER, help="The whole folder, its server, or one node's.")
@option("--connect", "Also try to reach the server.", is_flag=True)
def check(session: Session, /, folder: Path, connect: bool) -> None:
    """Check files, keys, certificates, names and settings, and say what to do.

    Exits with 1 if anything is wrong. With warnings alone it exits with 0.
    """
    from safle.errors import SettingsError
    from safle_flower.checking import check_folder

    findings = check_folder(folder, connect=connect)
    if findings:
        session.text([str(finding) for finding in findings])
    serious = sum(finding.serious for finding in findings)
    if serious:
        raise SettingsError(f"{folder}: {serious} errors, listed above")
    session.facts(f"{folder}: deployment", {"errors": "none", "warnings": len(findings) or "none"})


@command(*EXAMPLES, of=deploy)
@click.argument("folder", type=FOLDER, help="The results of a run.")
def report(session: Session, /, folder: Path) -> None:
    """Show the report of a round: every client, and the model. Exits with 1 if it failed."""
    from safle.errors import FederationError
    from safle_flower.report import Report

    content = Report.read(folder / "report.json")
    show_report(session, content, folder)
    if content.error:
        raise FederationError(content.error)


def show_report(session: Session, content: Report, folder: Path) -> None:
    """Show the result of a round, and its clients: those with problems first, not all of them."""
    rows = content.table()
    session.table(["client", "status", "samples", "size", "seconds"], rows[:ROWS_SHOWN], names=2)
    if len(rows) > ROWS_SHOWN:
        session.text([f"… and {len(rows) - ROWS_SHOWN} more in {folder / 'report.json'}"])
    if content.error:
        session.facts(f"{folder}: no model", {"contributions kept": len(content.accepted)})
        return
    facts = {
        "clients in the model": len(content.accepted),
        "samples": f"{content.samples:,}",
        "received": readable(content.bytes_received),
        "server's peak memory": readable(content.server_peak_bytes),
        "seconds": f"{content.seconds:.1f}",
        "digest": content.model,
    }
    session.facts(f"{folder / 'model.safetensors'}: model", facts)


SPLITTING = "safle simulate train.npz --encoder encoder.safetensors --clients 100"
PARTITION = "How samples are split over clients: iid, alpha=A (Dirichlet) or shards=S."
PRIVATE = "Mask the contributions; two more nodes are keyholders. The model is the same."
OUT = "Where the model, the sum and the report go."


@command(
    f"{SPLITTING} --out simulation",
    f"{SPLITTING} --partition alpha=0.1 --private --out simulation",
    panel="Over a network",
)
@features_argument
@encoder_file()
@option("--clients", "How many.", "K", type=COUNT, default=10)
@option("--partition scenario", PARTITION, "HOW", default="iid")
@seed_option
@table_options()
@option("--private", PRIVATE, is_flag=True)
@option("--deadline", DEADLINE, "SECONDS", type=POSITIVE, default=3600.0)
@option("--out folder", OUT, "DIR", type=FOLDER, default="simulation")
@limit_options
def simulate(
    session: Session,
    /,
    features: Path,
    encoder_path: Path,
    clients: int,
    folder: Path,
    **settings: Any,
) -> None:
    """Split a table over many clients and run the round, in one process.

    The server and the messages are those of a real deployment.
    """
    # Flower sets the level of its log when it is first imported, so that comes before. Every
    # client's fate is in the report; line by line it would break the progress bar.
    require_package("flwr.app", "safle-flower", "a simulation")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    from safle_flower.simulation import simulate as run_simulation

    limits = take_limits(settings)
    options = {name: settings[name] for name in ("scenario", "seed", "private", "deadline")}
    with session.progress(f"{clients} clients") as advance:
        content = run_simulation(
            features,
            encoder_path,
            folder,
            clients=clients,
            limits=limits,
            reading=pick_table_options(settings),
            progress=advance,
            **options,
        )
    show_report(session, content, folder)
