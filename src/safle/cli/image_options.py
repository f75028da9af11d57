"""Options of the commands that start from images, and what they choose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import rich_click as click

from safle.cli.options import COUNT, FILE, Decorator, option, options
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.data.backbones import Backbone
    from safle.data.backbones.runs import Options, Unreadables
    from safle.data.images import ImageSource

PREPROCESSING = ("resize", "crop", "interpolation", "mean", "deviation")
SOURCE = ("split", "labels", "label_column", "image_column")
TRIPLE = (float, float, float)
IMAGES = (
    "A folder, .zip or .tar of class folders, Tiny-ImageNet or WebDataset; a .csv file of "
    "paths and labels; .parquet files of images; hf:NAME, a Hugging Face data set."
)
LABEL_COLUMN = "The column of labels; or the suffix or JSON key of files beside images."
BACKBONE = "A name from 'safle backbones', or any ONNX file."
WORKERS = "Threads; the result does not depend on them."
UNREADABLE = "An error if a larger share of the images cannot be read."
BATCH = "Images a worker takes at a time; the result does not depend on it."
DEVICE = "cpu (ONNX Runtime), gpu (torch), or auto: a GPU where there is one."


def image_options(*, default: str | None, shown: str) -> Decorator:
    """IMAGES; which of them and their labels; which backbone; how the work is done."""
    devices, filters = click.Choice(["auto", "cpu", "gpu"]), click.Choice(["bilinear", "bicubic"])
    share = click.FloatRange(0.0, 1.0)
    return options(
        click.argument("images", type=click.Path(path_type=Path), help=IMAGES),
        option("--backbone", BACKBONE, "NAME|FILE.onnx", default=default, show_default=shown),
        option("--weights", "Instead of the published weights.", "FILE", type=FILE),
        option("--resize", "Of the shorter side.", "PIXELS", type=int),
        option("--crop", "Of the input's sides.", "PIXELS", type=int),
        option("--interpolation", "bilinear or bicubic.", "NAME", type=filters),
        option("--mean", "Subtracted, of values 0 to 255.", "R G B", type=TRIPLE),
        option("--deviation", "Divided by, of values 0 to 255.", "R G B", type=TRIPLE),
        option("--split", "Which split, if there are several.", "NAME"),
        option("--labels", "A .csv file with the labels of a folder.", "FILE", type=FILE),
        option("--label-column", LABEL_COLUMN, "NAME", default="label"),
        option("--image-column", "The column of paths or images (.csv, .parquet, hf:).", "NAME"),
        option("--max-unreadable", UNREADABLE, "SHARE", type=share, default=0.01),
        option("--batch", BATCH, "N", type=COUNT, default=32),
        option("--workers", WORKERS, "N", type=COUNT, show_default="one a processor"),
        option("--device", DEVICE, "NAME", type=devices, default="auto"),
    )


def choose_backbone(name: str, options: dict[str, Any]) -> Backbone:
    """The backbone that the options name."""
    from safle.data.backbones import load_backbone

    given = {key: options[key] for key in PREPROCESSING if options[key] is not None}
    return load_backbone(
        name, weights=options["weights"], preprocessing=given, device=options["device"]
    )


def choose_images(session: Session, path: Path, options: dict[str, Any]) -> ImageSource:
    """The images that the options select."""
    from safle.data.images import open_images

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


def unreadable_text(unreadable: Unreadables) -> str:
    """How many images could not be read, and where they are listed."""
    found = len(unreadable.found)
    return f"{found:,} (listed in {unreadable.report})" if found else "0"
