"""``safle features``: images -> a features file."""

from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli.image_options import (
    choose_backbone,
    choose_images,
    image_options,
    running,
    unreadable_text,
)
from safle.cli.options import command, output, refuse_overwriting
from safle.cli.session import Session


@command(
    "At a client",
    "safle features photographs/ -o features.safetensors",
    "safle features hf:cifar10 --split train --backbone resnet18 -o train.safetensors",
)
@image_options(default="efficientnet_lite0", shown="efficientnet_lite0")
@output("The features file to write (.safetensors).", ".safetensors")
def features(
    session: Session, /, images: Path, backbone: str, output: Path, **options: Any
) -> None:
    """Turn images into features with a pretrained backbone.

    A run that is interrupted goes on where it was when the same command is given again.
    Images that cannot be read are left out and listed beside the output.
    """
    from safle.basics.memory import readable
    from safle.cli.describe import listing
    from safle_images.backbones import write_features

    if output.suffix != ".safetensors":
        raise click.UsageError(f"{output}: features are written as .safetensors")
    refuse_overwriting(output, images, options["labels"], options["weights"])
    source = choose_images(session, images, options)
    network = choose_backbone(backbone, options)
    with running(session, f"features of {images.name}", source, options) as settings:
        written = write_features(source, network, output, **settings)
    facts: dict[str, object] = {
        "samples": f"{written.samples:,}",
        "features": f"{written.feature_dim:,}",
        "labels": listing(written.class_names) if written.class_names else "none",
        "unreadable": unreadable_text(written.unreadable),
        "source": network.source,
        "file": readable(output.stat().st_size),
    }
    session.facts(f"{output}: features", facts)
