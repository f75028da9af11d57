"""``safle encoder show``: what an encoder file holds."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import FILE, Command
from safle.cli.session import Session


@click.command(cls=Command, epilog="Example:\n\n  safle encoder show encoder.safetensors")
@click.argument("file", type=FILE, help="An encoder file.")
@click.pass_obj
def show(session: Session, /, file: Path) -> None:
    """Show an encoder's settings, sizes and fingerprint."""
    from safle.cli.describe import encoder_facts
    from safle.encoders import load_encoder

    session.facts(f"{file}: encoder", encoder_facts(load_encoder(file)))
