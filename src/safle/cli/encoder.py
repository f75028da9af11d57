"""``safle encoder``: make and show encoders."""

from __future__ import annotations

import rich_click as click

from safle.cli.encoder_make import make
from safle.cli.encoder_show import show


@click.group(panel="Before the round")
def encoder() -> None:
    """Make or show the encoder: the function that all clients share.

    It turns features into integer codes, is a small file, and its fingerprint travels
    with every count.
    """


encoder.add_command(make)
encoder.add_command(show)
