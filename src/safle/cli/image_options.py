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
BATCH_SIZE = 32
IMAGE_COLUMN = "The column of paths or images (.csv, .parquet, hf:)."
ONLY_IMAGES = (
    *("backbone", "weights", "resize", "crop", "interpolation", "mean", "deviation"),
    *("image_column", "max_unreadable", "workers", "device"),
)
"""Options that say nothing about a table."""
DEVICE = "cpu (ONNX Runtime), gpu (torch), or auto: a GPU where there is one."


def backbone_options(*, default: str | None, shown: str, panel: str | None = None) -> Decorator:
    """Which backbone, how images are prepared for it, and how the work is done."""
    devices, filters = click.Choice(["auto", "cpu", "gpu"]), click.Choice(["bilinear", "bicubic"])
    share = click.FloatRange(0.0, 1.0)

    def of_images(names: str, text: str, metavar: str, **settings: Any) -> Decorator:
        return option(names, text, metavar, panel=panel, **settings)

    return options(
        of_images("--backbone", BACKBONE, "NAME|FILE.onnx", default=default, show_default=shown),
        of_images("--weights", "Instead of the published weights.", "FILE", type=FILE),
        of_images("--resize", "Of the shorter side.", "PIXELS", type=int),
        of_images("--crop", "Of the input's sides.", "PIXELS", type=int),
        of_images("--interpolation", "bilinear or bicubic.", "NAME", type=filters),
        of_images("--mean", "Subtracted, of values 0 to 255.", "R G B", type=TRIPLE),
        of_images("--deviation", "Divided by, of values 0 to 255.", "R G B", type=TRIPLE),
        of_images("--image-column", IMAGE_COLUMN, "NAME"),
        of_images("--max-unreadable", UNREADABLE, "SHARE", type=share, default=0.01),
        of_images("--workers", WORKERS, "N", type=COUNT, show_default="one a processor"),
        of_images("--device", DEVICE, "NAME", type=devices, default="auto"),
    )


def image_options(*, default: str | None, shown: str) -> Decorator:
    """IMAGES; which of them and their labels; which backbone; how the work is done."""
    return options(
        click.argument("images", type=click.Path(path_type=Path), help=IMAGES),
        option("--split", "Which split, if there are several.", "NAME"),
        option("--labels", "A .csv file with the labels of a folder.", "FILE", type=FILE),
        option("--label-column", LABEL_COLUMN, "NAME", default="label"),
        option("--batch", BATCH, "N", type=COUNT, default=BATCH_SIZE),
        backbone_options(default=default, shown=shown),
    )


def are_images(path: Path, options: dict[str, Any]) -> bool:
    """Whether ``path`` is of images; a .csv or .parquet file is, if options say so."""
    from safle.data.images.archives import TARS

    if path.is_dir() or str(path).startswith("hf:"):
        return True
    if path.suffix.lower() in (".csv", ".parquet"):
        return options["backbone"] is not None or options["image_column"] is not None
    return path.name.lower().endswith((".zip", *TARS))


def backbone_of(source: str, encoder: Path) -> str:
    """The catalogue's name at the beginning of an encoder's source."""
    from safle.data.backbones import CARDS

    name = source.partition(" ")[0]
    if name in CARDS:
        return name
    found = "is for an ONNX file" if name == "onnx" else "names no backbone"
    raise click.UsageError(f"{encoder} {found}; say which one with --backbone")


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
