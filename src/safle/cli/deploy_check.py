"""``safle deploy check``: what is wrong with a deployment folder."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import Command
from safle.cli.session import Session

EXAMPLE = """\
Examples:

  safle deploy check federation

  safle deploy check /opt/safle/nodes/hospital-a --connect
"""


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument(
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="The whole folder, its server, or one node's.",
)
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
