"""Readers: folders, archives and data sets -> encoded images and labels -> pixels.

A reader lists a source once and then streams it: an image is in memory only while it is used, and
nothing is unpacked to disk or unpickled.
"""

import os
from pathlib import Path

from safle.errors import ImageError
from safle.tables import existing_file
from safle_images.readers.decoding import MOST_PIXELS, decode
from safle_images.readers.folders import open_folders, open_list
from safle_images.readers.hub import PREFIX, open_dataset
from safle_images.readers.sources import (
    LABEL_COLUMN,
    MOST_BYTES,
    ImageSource,
    Label,
    Record,
    Selection,
    Unreadable,
)


def open_images(
    path: str | os.PathLike[str],
    *,
    split: str | None = None,
    label_column: str = LABEL_COLUMN,
    image_column: str | None = None,
    most_bytes: int = MOST_BYTES,
) -> ImageSource:
    """Open a set of images, with labels if there are any.

    Parameters
    ----------
    path
        A folder or .zip of class folders; a .csv file of paths and labels; a .parquet file of
        images, or a folder of them; ``hf:NAME`` or ``hf:NAME:SPLIT``, a data set that Hugging Face
        ``datasets`` reads: a folder, or a name on the hub.
    split
        Needed where there are several: ``train`` and ``test`` folders, a ``split`` column.
    label_column
        The column of labels (.csv, .parquet, hf:); empty if there are none.
    image_column
        The column of paths or encoded images, if it does not have one of the usual names.
    most_bytes
        A larger file is refused before it is read.

    Returns
    -------
    source : ImageSource
        Images sorted by name, or in the order of the .csv file or data set. Labels of a .csv file
        become integers if all are integers; those of a data set become names if it declares them.

    Raises
    ------
    ImageError
        The source cannot be used. A single unreadable file raises only when it is decoded.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "pets")
    >>> for name in ("cat", "dog"):
    ...     (folder / name).mkdir(parents=True)
    ...     _ = (folder / name / "1.png").write_bytes(b"...")
    >>> images = open_images(folder)
    >>> images.description
    'class folders in pets: 2 images, 2 classes'
    >>> [(record.name, record.label) for record in images.records()]
    [('cat/1.png', 'cat'), ('dog/1.png', 'dog')]
    """
    selection = Selection(split, label_column, image_column, most_bytes)
    if str(path).startswith(PREFIX):
        return open_dataset(str(path).removeprefix(PREFIX), selection)
    place = Path(path)
    if place.is_dir():
        return open_folders(place, selection)
    name = existing_file(place, ImageError).name.lower()
    if name.endswith(".csv"):
        return open_list(place, selection)
    if name.endswith(".parquet"):
        return open_dataset(str(place), selection)
    if name.endswith(".zip"):
        return open_folders(place, selection)
    raise ImageError(
        f"{path}: unknown file type; expected a folder, .zip, .csv, .parquet or {PREFIX}NAME"
    )


__all__ = ["MOST_PIXELS", "ImageSource", "Label", "Record", "Unreadable", "decode", "open_images"]
