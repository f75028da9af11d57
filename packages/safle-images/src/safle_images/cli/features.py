"""``safle features``: images -> a features file."""

from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli import Session, command, output, refuse_overwriting
from safle_images.cli.options import choose_backbone, choose_images, image_options, running


@command(
    "At a client",
    "safle features photographs/ -o features.safetensors",
    "safle features photographs/ --encoder encoder.safetensors -o features.safetensors",
    "safle features hf:cifar10 --split train --backbone resnet18 -o train.safetensors",
)
@image_options()
@output("The features file to write (.safetensors).", ".safetensors")
def features(session: Session, /, images: Path, output: Path, **options: Any) -> None:
    """Turn images into features with a pretrained backbone.

    A run that is interrupted goes on where it was when the same command is given again.
    Images that cannot be read are left out and listed beside the output.
    """
    from safle.basics import readable
    from safle_images.backbones import write_features

    if output.suffix != ".safetensors":
        raise click.UsageError(f"{output}: features are written as .safetensors")
    refuse_overwriting(output, images, *(options[n] for n in ("labels", "weights", "encoder_path")))
    source = choose_images(session, images, options)
    network = choose_backbone(options)
    with running(session, f"features of {images.name}", source, options) as settings:
        written = write_features(source, network, output, **settings)
    found = len(written.unreadable.found)
    facts: dict[str, object] = {
        "samples": f"{written.samples:,}",
        "features": f"{written.feature_dim:,}",
        "labels": f"{len(written.class_names):,} classes" if written.class_names else "none",
        "unreadable": f"{found:,} (listed in {written.unreadable.report})" if found else "0",
        "source": network.source,
        "file": readable(output.stat().st_size),
    }
    session.facts(f"{output}: features", facts)
