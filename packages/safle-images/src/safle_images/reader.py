"""Images in place of a table: what the core's commands find under ``safle.readers``.

Features are made in passing. They are kept in the cache, so that a command that was interrupted
goes on, and the next one on the same images need not make them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from safle import check_source
from safle.basics import atomic
from safle.errors import ImageError, SafleWarning
from safle_images.readers import ImageSource, open_images
from safle_images.readers.archives import TARS, is_image
from safle_images.readers.files import Files
from safle_images.readers.layouts import hub, lesions, lists, medmnist
from safle_images.readers.sources import LABEL_COLUMN

if TYPE_CHECKING:
    from safle.cli import Session
    from safle_images.backbones import Backbone

TABLES = (".csv", ".npz", ".parquet")
ALWAYS_IMAGES = (".zip", ".tsv", *TARS)
COLUMN_FLAGS = {"ignore": "--ignore", "id_column": "--id"}


def make_features(
    session: Session, path: Path, source: str, options: Mapping[str, Any], *, labelled: bool
) -> Path | None:
    """The features file of the images at ``path``; None if there is a table.

    Parameters
    ----------
    source : of the encoder; empty if it was made for no backbone, or is to be made
    options : ``backbone``, ``split``, ``label_column`` and `COLUMN_FLAGS` are the command line's
    labelled : whether the command needs labels; without, images may have none
    """
    from safle_images.backbones import load_backbone, write_features
    from safle_images.backbones.writing import count_unreadable, report_of

    if not are_images(path):
        # Of what is not there, or of no known type, the core says so.
        if options.get("backbone") is not None and path.is_file() and path.suffix.lower() in TABLES:
            raise ImageError(
                f"{path}: a table, which needs no --backbone; expected images: a folder, an "
                "archive, or a list of paths"
            )
        return None
    for option, flag in COLUMN_FLAGS.items():
        if options.get(option):
            raise ImageError(f"{path}: images, which have no columns; leave out {flag}")
    name = _find_backbone(path, source, options.get("backbone"))
    images = _open(path, options, labelled=labelled)
    session.note(f"{path}: {images.description}")
    backbone = load_backbone(name)
    if source:
        check_source(source, backbone.source, where=f"features of {name}")
    session.note(f"{name}: runs on {backbone.network.device}")
    target = _place_of(images, backbone, path)
    if not target.is_file():
        # Features can often be turned back into images: nobody else may read them.
        atomic.make_folder(target.parent).chmod(0o700)
        with session.progress(f"features of {path.name}", len(images), "images") as advance:
            write_features(images, backbone, target, advance=advance, note=session.note)
    if unreadable := count_unreadable(target):
        # Not by the session: where a cluster works, nobody sees what it says.
        warnings.warn(
            f"{path}: {unreadable:,} of {len(images):,} images cannot be read and are left out; "
            f"{report_of(target)} lists them",
            SafleWarning,
            stacklevel=2,
        )
    session.note(f"features are kept in {target}: delete it when you no longer need it")
    return target


def _open(path: Path, options: Mapping[str, Any], *, labelled: bool) -> ImageSource:
    """The images, with their labels if they have any."""
    split = options.get("split")
    column = options.get("label_column")
    known = LABEL_COLUMN if column is None else column
    try:
        return open_images(path, split=split, label_column=known)
    except ImageError:
        if labelled or column is not None:
            raise
        return open_images(path, split=split, label_column="")


def are_images(path: Path) -> bool:
    """Whether a path names images, and not a table: by its kind, or by what a list lists."""
    suffix = path.suffix.lower()
    if (
        path.is_dir()
        or str(path).startswith(hub.PREFIX)
        or path.name.lower().endswith(ALWAYS_IMAGES)
    ):
        return True
    if not path.is_file():
        return False
    if suffix == ".csv":
        return lesions.recognises(Files(path)) or _lists_images(path)
    if suffix == ".parquet":
        return _holds_images(path)
    return suffix == ".npz" and medmnist.recognises(Files(path))


def _lists_images(path: Path) -> bool:
    """Whether the first row of a .csv file names an image."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            titles, first = file.readline(10_000), file.readline(100_000)
    except (OSError, UnicodeDecodeError):
        return False
    separator = max(",;\t", key=titles.count)
    cells = dict(zip(titles.strip().split(separator), first.strip().split(separator), strict=False))
    return any(is_image(cells[name].strip('"')) for name in lists.COLUMNS if name in cells)


def _holds_images(path: Path) -> bool:
    """Whether a .parquet file has a column of encoded images, or of their paths."""
    try:
        columns = pl.read_parquet_schema(path)
    except (OSError, pl.exceptions.PolarsError):
        return False
    kinds = [columns[name] for name in ("image", "img", "bytes") if name in columns]
    return any(kind == pl.Binary or isinstance(kind, pl.Struct) for kind in kinds)


def _find_backbone(path: Path, source: str, given: str | None) -> str:
    """The name of the backbone: the one given, or the default if the encoder is for it."""
    from safle_images.backbones import DEFAULT

    if given is not None:
        return given
    if source.startswith(f"{DEFAULT} "):
        return DEFAULT
    if not source:
        raise ImageError(
            f"{path}: images, but the encoder does not name a backbone; "
            "expected one that 'safle encoder "
            f"make --backbone NAME --public IMAGES' made, or name it: --backbone {DEFAULT}"
        )
    raise ImageError(
        f"{path}: images, but the encoder is for the backbone [{source}]; expected its file: "
        "--backbone FILE.onnx"
    )


def _place_of(images: ImageSource, backbone: Backbone, path: Path) -> Path:
    """Where the features are kept: images that were changed since have another place."""
    from safle_images.backbones.default import cache_folder

    facts = (images.digest(), backbone.source, backbone.network.device, *_states(images, path))
    name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return cache_folder() / "features" / f"{name}.safetensors"


def _states(images: ImageSource, path: Path) -> Iterator[int]:
    """When the files were changed: sizes and names alone do not tell."""
    place = Path(str(path).removeprefix(hub.PREFIX))
    if not place.exists():
        # The name of a split may follow that of a data set.
        place = Path(str(place).partition(":")[0])
    if place.is_file():
        yield place.stat().st_mtime_ns
    folder = place if place.is_dir() else place.parent
    are_files = True
    for name in images.names:
        try:
            yield os.stat(f"{folder}/{name}").st_mtime_ns  # noqa: PTH116 (a Path for each is slow)
        except (OSError, ValueError):
            # A member of an archive, or a row of a data set.
            are_files = False
            yield 0
    if place.is_dir() and not are_files:
        # Rows of files that may have the same sizes as before.
        yield from sorted(file.stat().st_mtime_ns for file in place.rglob("*") if file.is_file())
