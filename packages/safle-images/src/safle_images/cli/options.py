"""Options of the commands that start from images, and what they choose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import rich_click as click

from safle.cli import COUNT, FILE, Decorator, Session, option, option_group

if TYPE_CHECKING:
    from safle_images.backbones import Backbone
    from safle_images.backbones.runs import Options
    from safle_images.readers import ImageSource

PREPROCESSING = ("resize", "crop", "interpolation", "mean", "deviation")
SOURCE = ("split", "labels", "label_column", "image_column")
TRIPLE = (float, float, float)
IMAGES = (
    "A folder, .zip or .tar of class folders, Tiny-ImageNet or WebDataset; a .csv file of "
    "paths and labels; .parquet files of images; hf:NAME, a Hugging Face data set."
)
LABEL_COLUMN = "The column of labels; or the suffix or JSON key of files beside images."
BACKBONE = "A name from 'safle backbones', or any ONNX file."
ENCODER = "An encoder or a model: take the backbone and the preprocessing that it is for."
WORKERS = "Threads; the result does not depend on them."
UNREADABLE = "An error if a larger share of the images cannot be read."
BATCH = "Images a worker takes at a time; the result does not depend on it."
IMAGE_COLUMN = "The column of paths or images (.csv, .parquet, hf:)."
DEVICE = "cpu (ONNX Runtime), gpu (torch), or auto: a GPU where there is one."


def preprocessing_options() -> Decorator:
    """How images are prepared, where the backbone does not say."""
    filters, values = click.Choice(["bilinear", "bicubic"]), "of values 0 to 255."
    return option_group(
        option("--resize", "Of the shorter side.", "PIXELS", type=int),
        option("--crop", "Of the input's sides.", "PIXELS", type=int),
        option("--interpolation", "bilinear or bicubic.", "NAME", type=filters),
        option("--mean", f"Subtracted, {values}", "R G B", type=TRIPLE),
        option("--deviation", f"Divided by, {values}", "R G B", type=TRIPLE),
    )


def image_options() -> Decorator:
    """IMAGES; which of them and their labels; which backbone; how the work is done."""
    devices, share = click.Choice(["auto", "cpu", "gpu"]), click.FloatRange(0.0, 1.0)
    named = "the encoder's, else efficientnet_lite0"
    return option_group(
        click.argument("images", type=click.Path(path_type=Path), help=IMAGES),
        option("--split", "Which split, if there are several.", "NAME"),
        option("--labels", "A .csv file with the labels of a folder.", "FILE", type=FILE),
        option("--label-column", LABEL_COLUMN, "NAME", default="label"),
        option("--image-column", IMAGE_COLUMN, "NAME"),
        option("--encoder encoder_path", ENCODER, "FILE", type=FILE),
        option("--backbone", BACKBONE, "NAME|FILE.onnx", show_default=named),
        option("--weights", "Instead of the published weights.", "FILE", type=FILE),
        preprocessing_options(),
        option("--max-unreadable", UNREADABLE, "SHARE", type=share, default=0.01),
        option("--batch", BATCH, "N", type=COUNT, default=32),
        option("--workers", WORKERS, "N", type=COUNT, show_default="one a processor"),
        option("--device", DEVICE, "NAME", type=devices, default="auto"),
    )


def choose_backbone(options: dict[str, Any]) -> Backbone:
    """The backbone that the options name, else an encoder's, else the default."""
    from safle.encoders import check_source
    from safle_images.backbones import DEFAULT, load_backbone
    from safle_images.backbones.loading import name_in

    path, name = options["encoder_path"], options["backbone"]
    source = "" if path is None else _source_for(path)
    if source and name is None:
        name = name_in(source)
        if name is None:
            raise click.UsageError(
                f"{path} is for the features of a file that was not added here; name it with "
                "--backbone FILE.onnx"
            )
    given = {key: options[key] for key in PREPROCESSING if options[key] is not None}
    how = {"weights": options["weights"], "device": options["device"], "source": source}
    backbone = load_backbone(name or DEFAULT, preprocessing=given, **how)
    if source:
        check_source(source, backbone.source, where=name)
    return backbone


def _source_for(path: Path) -> str:
    """What makes the features that an encoder or a model is for."""
    from safle.encoders import load_encoder
    from safle.errors import WireError
    from safle.model import load_model

    try:
        return load_encoder(path).source
    except WireError:
        return load_model(path).encoder.source


def choose_images(session: Session, path: Path, options: dict[str, Any]) -> ImageSource:
    """The images that the options select."""
    from safle_images.readers import open_images

    source = open_images(path, **{key: options[key] for key in SOURCE})
    session.note(f"{path}: {source.description}")
    return source


@contextmanager
def running(
    session: Session, title: str, source: ImageSource, options: dict[str, Any]
) -> Iterator[Options]:
    """A block in which progress is shown, with what a run over images takes."""
    with session.progress(title, len(source), "images") as advance:
        how = {name: options[name] for name in ("batch", "workers", "max_unreadable")}
        yield cast("Options", {**how, "advance": advance, "note": session.note})
