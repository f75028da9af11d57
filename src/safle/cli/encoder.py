"""``safle encoder``: make and show encoders."""

from pathlib import Path

import rich_click as click

from safle.cli.encoder_make import make
from safle.cli.options import FILE, Command, examples
from safle.cli.session import Session


@click.group(panel="Before the round")
def encoder() -> None:
    """Make or show the encoder: the function that all clients share.

    It turns features into integer codes, is a small file, and its fingerprint travels
    with every count.
    """


@click.command(cls=Command, epilog=examples("safle encoder show encoder.safetensors"))
@click.argument("file", type=FILE, help="An encoder file.")
@click.pass_obj
def show(session: Session, /, file: Path) -> None:
    """Show an encoder's settings, sizes and fingerprint."""
    from safle.cli.describe import encoder_facts
    from safle.encoders import load_encoder

    session.facts(f"{file}: encoder", encoder_facts(load_encoder(file)))


encoder.add_command(make)
encoder.add_command(show)
