"""Options of the commands that start from images, and what they choose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli.options import FILE, Decorator, Function
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
UNREADABLE = "An error if a larger share of the images cannot be read."
BATCH = "Images a worker takes at a time; the result does not depend on it."
DEVICE = "cpu (ONNX Runtime), gpu (torch), or auto: a GPU where there is one."


def _option(name: str, text: str, metavar: str = "NAME", **settings: Any) -> Decorator:
    return click.option(name, help=text, metavar=metavar, **settings)


def image_options(*, default: str | None, shown: str) -> Decorator:
    """IMAGES; which of them and their labels; which backbone; how the work is done."""
    counting = click.IntRange(min=1)
    options = (
        click.argument("images", type=click.Path(path_type=Path), help=IMAGES),
        _option(
            "--backbone",
            "A name from 'safle backbones', or any ONNX file.",
            "NAME|FILE.onnx",
            default=default,
            show_default=shown,
        ),
        _option("--weights", "Instead of the published weights.", "FILE", type=FILE),
        _option("--resize", "Of the shorter side.", "PIXELS", type=int),
        _option("--crop", "Of the input's sides.", "PIXELS", type=int),
        _option(
            "--interpolation", "bilinear or bicubic.", type=click.Choice(["bilinear", "bicubic"])
        ),
        _option("--mean", "Subtracted, of values 0 to 255.", "R G B", type=TRIPLE),
        _option("--deviation", "Divided by, of values 0 to 255.", "R G B", type=TRIPLE),
        _option("--split", "Which split, if there are several."),
        _option("--labels", "A .csv file with the labels of a folder.", "FILE", type=FILE),
        _option("--label-column", LABEL_COLUMN, default="label"),
        _option("--image-column", "The column of paths or images (.csv, .parquet, hf:)."),
        _option(
            "--max-unreadable", UNREADABLE, "SHARE", type=click.FloatRange(0.0, 1.0), default=0.01
        ),
        _option("--batch", BATCH, "N", type=counting, default=32),
        _option(
            "--workers",
            "Threads; the result does not depend on them.",
            "N",
            type=counting,
            show_default="one a processor",
        ),
        _option("--device", DEVICE, type=click.Choice(["auto", "cpu", "gpu"]), default="auto"),
    )

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


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
    with session.counting(title, len(source), "images") as advance:
        yield {
            "batch": options["batch"],
            "workers": options["workers"],
            "max_unreadable": options["max_unreadable"],
            "advance": advance,
            "note": session.note,
        }


def unreadable_text(unreadable: Unreadables) -> str:
    """How many images could not be read, and where they are listed."""
    found = len(unreadable.found)
    return f"{found:,} (listed in {unreadable.report})" if found else "0"
