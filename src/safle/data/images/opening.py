"""A path -> a source of images: recognises what is there."""

from __future__ import annotations

import os
from pathlib import Path

from safle.data.images.cifar import find_cifar
from safle.data.images.class_folders import open_class_folders
from safle.data.images.files import Files, is_image
from safle.data.images.folder import list_folder
from safle.data.images.listed_files import open_csv
from safle.data.images.parquet import open_parquet
from safle.data.images.records import ImageSource
from safle.data.images.selection import LABEL_COLUMN, MOST_BYTES, Selection
from safle.data.images.tarred import TarFiles
from safle.data.images.zipped import ZipFiles
from safle.errors import ImageError

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


def open_images(
    path: str | os.PathLike[str],
    *,
    split: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    label_column: str = LABEL_COLUMN,
    image_column: str | None = None,
    most_bytes: int = MOST_BYTES,
) -> ImageSource:
    """Open a set of images, with labels if there are any.

    Parameters
    ----------
    path
        A folder, .zip or .tar (.gz, .bz2, .xz) of class folders, of
        Tiny-ImageNet, or of CIFAR-10 or CIFAR-100 in their python or binary
        version; a .csv file of paths and labels; a .parquet file of encoded
        images, or a folder of them.
    split
        Which split, needed where there are several: ``train`` and ``test``
        folders, CIFAR's batches, a ``split`` column, ``train-00000-of-...``.
    labels
        A .csv file with the labels of images in folders, used instead of the
        folders' names. Its rows name an image by its path inside ``path`` or by
        its file name, with or without suffix.
    label_column
        The column of labels (.csv, .parquet); ``coarse_label`` for CIFAR-100's
        twenty classes. The default may be missing.
    image_column
        The column of paths (.csv) or encoded images (.parquet), if it does not
        have one of the usual names.
    most_bytes
        A larger file is refused before it is read.

    Returns
    -------
    source : ImageSource
        Sorted by name; a .tar, a .csv and a .parquet file keep their own order.
        A class folder's name is its images' label. Labels of a .csv file are
        integers if all of them are, and the numbers in a .parquet file become
        names if its metadata has them.

    Raises
    ------
    ImageError
        There is nothing that can be used. A single file that cannot be read is
        found only when it is decoded.
    MissingExtra
        A .parquet file, and pyarrow is not installed.
    """
    selection = Selection(
        split=split,
        labels=None if labels is None else _existing_file(Path(labels)),
        label_column=label_column,
        image_column=image_column,
        most_bytes=most_bytes,
    )
    place = Path(path)
    if not place.is_dir():
        suffix = _existing_file(place).suffix.lower()
        if suffix == ".csv":
            return open_csv(place, selection)
        if suffix == ".parquet":
            return open_parquet(place, selection)
    files = _open_files(place, most_bytes)
    cifar = find_cifar(files, selection)
    if cifar is not None:
        return cifar
    shards = [member for member in files.members if member.name.endswith(".parquet")]
    if place.is_dir() and shards and not any(is_image(member.name) for member in files.members):
        return open_parquet(place, selection, shards)
    return open_class_folders(files, selection)


def _open_files(path: Path, most_bytes: int) -> Files:
    name = path.name.lower()
    if path.is_dir():
        return list_folder(path, most_bytes=most_bytes)
    if name.endswith(".zip"):
        return ZipFiles(path, most_bytes=most_bytes)
    if name.endswith(_TARS):
        return TarFiles(path, most_bytes=most_bytes)
    raise ImageError(
        f"{path}: unknown kind of file; expected a folder, .zip, {', '.join(_TARS)}, .csv or "
        ".parquet"
    )


def _existing_file(path: Path) -> Path:
    if path.is_dir():
        raise ImageError(f"{path}: is a directory; expected a file in it")
    if not path.exists():
        raise ImageError(f"{path}: no such file or folder")
    if not path.is_file():
        raise ImageError(f"{path}: not a regular file; copy its contents into one")
    if path.stat().st_size == 0:
        raise ImageError(f"{path}: is empty; copy or download it again")
    return path
