"""``safle private keys``: the keys of a client, a keyholder or an operator."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import command, output
from safle.cli.session import Session


@command(None, "safle private keys hospital-a -o hospital-a.key")
@click.argument("name", help="Who you are in the round: hospital-a.")
@output("The private key to write; FILE with the ending .pub is for the others.", ".key")
def keys(session: Session, /, name: str, output: Path) -> None:
    """Make the two keys of a client, a keyholder or an operator.

    The private key stays with you, and nobody needs a copy. Take the public one to the
    operator by a way on which nobody can change it. A keyholder makes new keys for every round
    and deletes them after it: whoever steals them later opens nothing.
    """
    from safle.private.keys import PrivateKey

    key, public = PrivateKey.new(name), output.with_suffix(".pub")
    for path in (output, public):
        if path.exists() or output == public:
            raise click.UsageError(f"-o {output}: {path} would be lost; name another file")
    key.save(output)
    key.public.save(public)
    facts = {"name": name, "public key": public, "fingerprint": key.public.fingerprint}
    session.facts(f"{output}: private key", facts)
