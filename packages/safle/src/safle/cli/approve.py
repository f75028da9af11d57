"""``safle approve``: a data protection officer's signature under what leaves."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import FILE, command, option
from safle.cli.session import Session

KEY = "Your private key: Ed25519, as ssh-keygen or OpenSSL make it."


@command("At a client", "safle approve a.stats --key ~/.ssh/id_ed25519")
@click.argument("contribution", type=FILE, help="A file that 'safle count' wrote, with its sheets.")
@option("--key", KEY, "FILE", type=FILE, required=True)
@option("--yes", "Do not ask.", is_flag=True)
def approve(session: Session, /, contribution: Path, key: Path, yes: bool) -> None:
    """Show the release sheet of a contribution, and sign both.

    The signature is written beside the contribution (.approval) and goes with it. A server
    that has a roster takes only what somebody on it has signed.
    """
    from safle.server.contribution import APPROVAL, TEXT
    from safle.site.approval import approve as sign
    from safle.site.approval import needs_password

    sheet = contribution.with_name(contribution.name + TEXT)
    session.text(sheet.read_text(errors="replace").splitlines())
    if not yes:
        click.confirm("Sign this?", abort=True, err=True)
    password = None
    if needs_password(key):
        password = click.prompt("Password of the key", hide_input=True, err=True).encode()
    approval = sign(contribution, key, password)
    facts = {"signed": approval.time, "by": approval.key, "of": approval.contribution}
    session.facts(f"{contribution}{APPROVAL}: approval", facts)
