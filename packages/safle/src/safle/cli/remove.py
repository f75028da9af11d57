"""``safle remove``: unlearn a client, exactly."""

from pathlib import Path

import rich_click as click

from safle.cli.options import BY_FILES, FILE, command, option, output, refuse_overwriting
from safle.cli.session import Session


@command(BY_FILES, "safle remove total.stats hospital_b.stats -o total.stats")
@click.argument("total", type=FILE, help="The sum.")
@click.argument("client", type=FILE, help="The contribution to take back.")
@option("--force", "Even if the sum's manifest does not list it.", is_flag=True)
@output("The sum without the client; may be TOTAL itself.", "statistics")
def remove(session: Session, /, total: Path, client: Path, force: bool, output: Path) -> None:
    """Take a client's contribution back out of a sum.

    Needs the client's file; [b]safle store remove[/b] has kept it. The result is byte for byte
    the sum that never saw the client, and so is the model solved from it.
    """
    from safle.server.files import remove_file

    refuse_overwriting(output, client)
    session.announce_compilation()
    manifest = remove_file(total, client, output, force=force)
    facts = {
        "contributions": len(manifest.contributions),
        "samples": f"{manifest.samples:,}",
        "digest": manifest.digest,
    }
    session.facts(f"{output}: sum without {client.name}", facts)
