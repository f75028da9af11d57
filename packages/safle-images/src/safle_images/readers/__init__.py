"""Readers: folders, archives and data sets -> encoded images and labels -> pixels.

A reader lists a source once and then streams it: an image is in memory only while it is used, and
nothing is unpacked to disk or unpickled.
"""

import os
from pathlib import Path

from safle import existing_file
from safle.errors import ImageError
from safle_images.readers.decoding import MOST_PIXELS, decode
from safle_images.readers.files import Files
from safle_images.readers.layouts import LAYOUTS, find_layout
from safle_images.readers.layouts.hub import PREFIX, open_dataset
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
    layout: str | None = None,
    most_bytes: int = MOST_BYTES,
) -> ImageSource:
    """Open a set of images, with labels if there are any.

    Parameters
    ----------
    path
        A folder, .zip, .tar or .tar.gz in one of the layouts, such as CIFAR's or class folders; a
        .csv file of paths and labels; a .parquet or .npz file; ``hf:NAME`` or ``hf:NAME:SPLIT``, a
        data set that Hugging Face ``datasets`` reads: a folder, or a name on the hub.
    split
        Needed where there are several: ``train`` and ``test`` folders, a ``split`` column.
    label_column
        The column of labels (.csv, .parquet, hf:), or ``coarse`` of CIFAR-100; empty if there are
        none.
    image_column
        The column of paths or encoded images, if it does not have one of the usual names.
    layout
        The name of a layout, such as ``folders``: read as this one, not as the one it looks like.
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
    selection = Selection(split, label_column, image_column, layout)
    if str(path).startswith(PREFIX):
        source = open_dataset(str(path).removeprefix(PREFIX), selection, most_bytes)
    else:
        place = Path(path) if Path(path).is_dir() else existing_file(path, ImageError)
        files = Files(place, most_bytes=most_bytes)
        source = find_layout(files, layout).open_source(files, selection)
    for label in {*source.labels}:
        if isinstance(label, str) and len(f"{label}.".splitlines()) > 1:
            raise ImageError(
                f"{path}: has the class {label!r}; expected names of one line: rename it"
            )
    return source


__all__ = [
    "LAYOUTS",
    "MOST_PIXELS",
    "ImageSource",
    "Label",
    "Record",
    "Unreadable",
    "decode",
    "open_images",
]
