"""Options of the commands that start from images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli.options import FILE, Decorator, Function

if TYPE_CHECKING:
    from safle.data.backbones import Backbone

PREPROCESSING = ("resize", "crop", "interpolation", "mean", "deviation")
SOURCE = ("split", "labels", "label_column", "image_column")
TRIPLE = (float, float, float)


def images_argument(function: Function) -> Function:
    """IMAGES, a folder or a file."""
    text = (
        "A folder, .zip or .tar of class folders, Tiny-ImageNet or WebDataset; a .csv file of "
        "paths and labels; .parquet files of images; hf:NAME, a Hugging Face data set."
    )
    return click.argument("images", type=click.Path(path_type=Path), help=text)(function)


def image_options(function: Function) -> Function:
    """Which images and labels are read."""
    return _decorated(
        function,
        click.option("--split", metavar="NAME", help="Which split, if there are several."),
        click.option(
            "--labels", type=FILE, metavar="FILE", help="A .csv file with the labels of a folder."
        ),
        click.option(
            "--label-column",
            metavar="NAME",
            default="label",
            help="The column of labels; or the suffix or JSON key of files beside images.",
        ),
        click.option(
            "--image-column",
            metavar="NAME",
            help="The column of paths or images (.csv, .parquet, hf:).",
        ),
    )


def running_options(function: Function) -> Function:
    """How the work is done; the result does not depend on it."""
    return _decorated(
        function,
        click.option(
            "--max-unreadable",
            type=click.FloatRange(0.0, 1.0),
            default=0.01,
            metavar="SHARE",
            help="An error if a larger share of the images cannot be read.",
        ),
        click.option(
            "--batch",
            type=click.IntRange(min=1),
            default=32,
            metavar="N",
            help="Images a worker takes at a time; the result does not depend on it.",
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            metavar="N",
            show_default="one a processor",
            help="Threads; the result does not depend on them.",
        ),
        click.option(
            "--device",
            type=click.Choice(["auto", "cpu", "gpu"]),
            default="auto",
            metavar="NAME",
            help="cpu (ONNX Runtime), gpu (torch), or auto: a GPU where there is one.",
        ),
    )


def backbone_options(*, default: str | None, shown: str) -> Decorator:
    """Which backbone, and its preprocessing where it is not the declared one."""

    def decorate(function: Function) -> Function:
        return _decorated(
            function,
            click.option(
                "--backbone",
                metavar="NAME|FILE.onnx",
                default=default,
                show_default=shown,
                help="A name from 'safle backbones', or any ONNX file.",
            ),
            click.option(
                "--weights", type=FILE, metavar="FILE", help="Instead of the published weights."
            ),
            click.option("--resize", type=int, metavar="PIXELS", help="Of the shorter side."),
            click.option("--crop", type=int, metavar="PIXELS", help="Of the input's sides."),
            click.option(
                "--interpolation",
                type=click.Choice(["bilinear", "bicubic"]),
                metavar="NAME",
                help="bilinear or bicubic.",
            ),
            click.option(
                "--mean", type=TRIPLE, metavar="R G B", help="Subtracted, of values 0 to 255."
            ),
            click.option(
                "--deviation", type=TRIPLE, metavar="R G B", help="Divided by, of values 0 to 255."
            ),
        )

    return decorate


def chosen_backbone(name: str, options: dict[str, Any]) -> Backbone:
    """The backbone that the options name."""
    from safle.data.backbones import load_backbone

    given = {key: options[key] for key in PREPROCESSING if options[key] is not None}
    return load_backbone(
        name, weights=options["weights"], preprocessing=given, device=options["device"]
    )


def chosen_images(path: Path, options: dict[str, Any]) -> Any:
    """The images that the options select."""
    from safle.data.images import open_images

    return open_images(path, **{key: options[key] for key in SOURCE})


def unreadable_text(found: int, report: Path) -> str:
    """How many images could not be read, and where they are listed."""
    return f"{found:,} (listed in {report})" if found else "0"


def _decorated(function: Function, *options: Any) -> Function:
    for option in reversed(options):
        function = option(function)
    return function
