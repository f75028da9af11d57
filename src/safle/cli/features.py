"""``safle features``: images -> a features file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli.image_options import (
    backbone_options,
    chosen_backbone,
    chosen_images,
    image_options,
    images_argument,
    running_options,
    unreadable_text,
)
from safle.cli.options import Command, output, refuse_overwriting
from safle.cli.session import Session

EXAMPLE = """\
Examples:

  safle features photographs/ -o features.safetensors

  safle features cifar10.zip --split train --backbone resnet18 -o train.safetensors
"""


@click.command(cls=Command, panel="At a client", epilog=EXAMPLE)
@images_argument
@backbone_options(default="efficientnet_lite0", shown="efficientnet_lite0")
@image_options
@running_options
@output("The features file to write (.safetensors).")
@click.pass_obj
def features(
    session: Session, /, images: Path, backbone: str, output: Path, **options: Any
) -> None:
    """Turn images into features with a pretrained backbone.

    A run that is interrupted goes on where it was when the same command is given again.
    Images that cannot be read are left out and listed beside the output.
    """
    from safle._internal.memory import readable
    from safle.data.backbones import write_features

    if output.suffix != ".safetensors":
        raise click.UsageError(f"{output}: features are written as .safetensors")
    refuse_overwriting(output, images, options["labels"], options["weights"])
    source = chosen_images(images, options)
    session.note(f"{images}: {source.description}")
    network = chosen_backbone(backbone, options)
    with session.counting(f"features of {images.name}", len(source), "images") as advance:
        written = write_features(
            source,
            network,
            output,
            batch=options["batch"],
            workers=options["workers"],
            max_unreadable=options["max_unreadable"],
            advance=advance,
            note=session.note,
        )
    from safle.cli.describe import listing

    facts: dict[str, object] = {
        "samples": f"{written.samples:,}",
        "features": f"{written.feature_dim:,}",
        "labels": listing(written.class_names) if written.class_names else "none",
        "unreadable": unreadable_text(len(written.unreadable.found), written.unreadable.report),
        "source": network.source,
        "file": readable(output.stat().st_size),
    }
    session.facts(f"{output}: features", facts)
