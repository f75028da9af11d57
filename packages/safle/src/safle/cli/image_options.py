"""Options of the commands that start from images, and what they choose."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import rich_click as click

from safle.cli.options import COUNT, FILE, Decorator, option, options, refuse_given, selected
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.encoders import Encoder
    from safle_images.backbones import Backbone
    from safle_images.backbones.runs import Options, Unreadables
    from safle_images.readers import ImageSource

PREPROCESSING = ("resize", "crop", "interpolation", "mean", "deviation")
SOURCE = ("split", "labels", "label_column", "image_column")
TRIPLE = (float, float, float)
IMAGES = (
    "A folder, .zip or .tar of class folders, Tiny-ImageNet or WebDataset; a .csv file of "
    "paths and labels; .parquet files of images; hf:NAME, a Hugging Face data set."
)
DATA = (
    "A table of features (.npz, .npy, .safetensors, .parquet, .csv), or images: a folder, an "
    "archive, hf:NAME, or with --backbone a .csv or .parquet file of them."
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
ONLY_TABLES = ("features_key", "labels_key", "ignore", "id_column", "weight_column", "classes")
DEVICE = "cpu (ONNX Runtime), gpu (torch), or auto: a GPU where there is one."


def preprocessing_options(panel: str | None = None) -> Decorator:
    """How images are prepared, where the backbone does not say."""
    filters, values = click.Choice(["bilinear", "bicubic"]), "of values 0 to 255."

    def pixels(names: str, text: str, metavar: str, **settings: Any) -> Decorator:
        return option(names, text, metavar, panel=panel, **settings)

    return options(
        pixels("--resize", "Of the shorter side.", "PIXELS", type=int),
        pixels("--crop", "Of the input's sides.", "PIXELS", type=int),
        pixels("--interpolation", "bilinear or bicubic.", "NAME", type=filters),
        pixels("--mean", f"Subtracted, {values}", "R G B", type=TRIPLE),
        pixels("--deviation", f"Divided by, {values}", "R G B", type=TRIPLE),
    )


def backbone_options(*, default: str | None, shown: str, panel: str | None = None) -> Decorator:
    """Which backbone, how images are prepared for it, and how the work is done."""
    devices, share = click.Choice(["auto", "cpu", "gpu"]), click.FloatRange(0.0, 1.0)

    def of_images(names: str, text: str, metavar: str, **settings: Any) -> Decorator:
        return option(names, text, metavar, panel=panel, **settings)

    return options(
        of_images("--backbone", BACKBONE, "NAME|FILE.onnx", default=default, show_default=shown),
        of_images("--weights", "Instead of the published weights.", "FILE", type=FILE),
        preprocessing_options(panel),
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
    from safle_images.readers.archives import TARS

    if path.is_dir() or str(path).startswith("hf:"):
        return True
    if path.suffix.lower() in (".csv", ".parquet"):
        return options["backbone"] is not None or options["image_column"] is not None
    return path.name.lower().endswith((".zip", *TARS))


def choose_backbone(name: str, options: dict[str, Any], source: str = "") -> Backbone:
    """The backbone that the options name, with an encoder's preprocessing unless they say one."""
    from safle_images.backbones import load_backbone

    given = {key: options[key] for key in PREPROCESSING if options[key] is not None}
    how = {"weights": options["weights"], "device": options["device"], "source": source}
    return load_backbone(name, preprocessing=given, **how)


def backbone_for(encoder: Encoder, where: Path, options: dict[str, Any]) -> Backbone:
    """The backbone that the options name, else the one that an encoder is for."""
    from safle_images.backbones.loading import name_in

    name = options["backbone"] or name_in(encoder.source)
    if name is None:
        onnx = encoder.source.startswith("onnx ")
        found = "is for an ONNX file that was not added here" if onnx else "names no backbone"
        raise click.UsageError(f"{where} {found}; say which one with --backbone")
    return choose_backbone(name, options, encoder.source)


@contextmanager
def as_table(
    session: Session, path: Path, encoder: Encoder, model: Path, options: dict[str, Any]
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A table and how to read it: ``path`` itself, or the features of its images for a while."""
    from safle.encoders.source import check_source
    from safle_images.backbones import write_features

    if not are_images(path, options):
        refuse_given(ONLY_IMAGES, "images")
        yield path, selected(options)
        return
    refuse_given(ONLY_TABLES, "a table")
    network = backbone_for(encoder, model, options)
    check_source(encoder.source, network.source, where=str(path), trusted=True)
    source = choose_images(session, path, {"labels": None, **options})
    with tempfile.TemporaryDirectory(prefix="safle-") as folder:
        output = Path(folder, "features.safetensors")
        how = options | {"batch": BATCH_SIZE}
        with running(session, f"features of {path.name}", source, how) as settings:
            written = write_features(source, network, output, **settings)
        for name, reason in written.unreadable.found:
            session.warn(f"{name} is left out: {reason}")
        yield output, {}


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


def unreadable_text(unreadable: Unreadables) -> str:
    """How many images could not be read, and where they are listed."""
    found = len(unreadable.found)
    return f"{found:,} (listed in {unreadable.report})" if found else "0"
