"""``safle features``: images -> a features file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import COUNT, FILE, Session, command, option, output

if TYPE_CHECKING:
    from safle_images.backbones import Backbone

IMAGES = (
    "A folder or .zip of class folders; a .csv file of paths and labels; .parquet files of "
    "images; hf:NAME, a data set that Hugging Face datasets reads."
)
LABEL_COLUMN = "The column of labels (.csv, .parquet, hf:); empty if there are none."
BACKBONE = "efficientnet_lite0, or a file that 'safle backbones export' wrote."
ENCODER = "An encoder or a model; the command refuses a backbone other than the one it is for."
WORKERS = "Threads; the result does not depend on them."
UNREADABLE = "The largest share of unreadable images; with more, the command fails."
BATCH = "Images a worker takes at a time; the result does not depend on it."
IMAGE_COLUMN = "The column of paths or images (.csv, .parquet, hf:)."
DEVICE = "cpu, gpu, or auto: a GPU where ONNX Runtime has one."
SHARE, DEVICES = click.FloatRange(0.0, 1.0), click.Choice(["auto", "cpu", "gpu"])


@command(
    "safle features photographs/ -o features.safetensors",
    "safle features photographs/ --encoder encoder.safetensors -o features.safetensors",
    "safle features hf:cifar10 --split train --backbone resnet18.onnx -o train.safetensors",
    panel="At a client",
)
@click.argument("images", type=click.Path(path_type=Path), help=IMAGES)
@option("--split", "Which split, if there are several.", "NAME")
@option("--label-column", LABEL_COLUMN, "NAME", default="label")
@option("--image-column", IMAGE_COLUMN, "NAME")
@option("--backbone", BACKBONE, "NAME|FILE.onnx", default="efficientnet_lite0")
@option("--encoder encoder_path", ENCODER, "FILE", type=FILE)
@option("--max-unreadable", UNREADABLE, "SHARE", type=SHARE, default=0.01)
@option("--batch", BATCH, "N", type=COUNT, default=32)
@option("--workers", WORKERS, "N", type=COUNT, show_default="one a processor")
@option("--device", DEVICE, "NAME", type=DEVICES, default="auto")
@output("The features file to write (.safetensors).", "features")
def features(session: Session, /, images: Path, output: Path, **options: Any) -> None:
    """Turn images into features with a pretrained backbone.

    Give the same command again to resume an interrupted run.
    Images that cannot be read are left out and listed beside the output.
    """
    from safle.basics import readable
    from safle_images.backbones import load_backbone, write_features
    from safle_images.readers import open_images

    if output.suffix != ".safetensors":
        raise click.UsageError(f"{output}: features are written as .safetensors")
    names = ("split", "label_column", "image_column")
    source = open_images(images, **{name: options[name] for name in names})
    session.note(f"{images}: {source.description}")
    backbone = load_backbone(options["backbone"], device=options["device"])
    if options["encoder_path"] is not None:
        _check_encoder(backbone, options["encoder_path"])
    how = {name: options[name] for name in ("batch", "workers", "max_unreadable")}
    with session.progress(f"features of {images.name}", len(source), "images") as advance:
        written = write_features(
            source, backbone, output, **how, advance=advance, note=session.note
        )
    unreadable = len(written.unreadable)
    facts: dict[str, object] = {
        "samples": f"{written.samples:,}",
        "features": f"{backbone.feature_dim:,}",
        "labels": f"{written.classes:,} classes" if written.classes else "none",
        "unreadable": f"{unreadable:,} (listed in {written.report})" if unreadable else "0",
        "source": backbone.source,
        "file": readable(output.stat().st_size),
    }
    session.facts(f"{output}: features", facts)


def _check_encoder(backbone: Backbone, path: Path) -> None:
    """Before the work, refuse a backbone other than the one the encoder or model is for."""
    from safle.encoders import check_source, load_encoder
    from safle.errors import WireError
    from safle.model import load_model

    try:
        encoder = load_encoder(path)
    except WireError:
        encoder = load_model(path).encoder
    check_source(encoder.source, backbone.source, where=f"features of {backbone.name}")
