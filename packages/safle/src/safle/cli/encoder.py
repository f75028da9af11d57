"""``safle encoder``: make encoders."""

import rich_click as click

from safle.cli.encoder_make import make
from safle.cli.options import FIRST, examples

EXAMPLES = examples(
    "safle encoder make --range 0 16 --features 64 -o encoder.safetensors",
    "safle inspect encoder.safetensors",
)


@click.group(panel=FIRST, epilog=EXAMPLES)
def encoder() -> None:
    """Make the encoder: the function that all clients share.

    It turns features into integer codes, is a small file, and its fingerprint travels
    with every count; [b]safle inspect[/b] shows it.
    """


encoder.add_command(make)
