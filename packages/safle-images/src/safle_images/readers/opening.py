"""A path or a name -> a source of images: recognises what is there."""

import os
from pathlib import Path

from safle.errors import ImageError
from safle.tables.common import LABEL_COLUMN, existing_file
from safle_images.readers.archives import TARS, TarFiles, ZipFiles
from safle_images.readers.class_folders import open_class_folders
from safle_images.readers.files import Files, Member, is_image, list_folder
from safle_images.readers.hub import PREFIX, open_named, open_parquet
from safle_images.readers.lists import open_csv
from safle_images.readers.sources import MOST_BYTES, ImageSource, Selection


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
        A folder, .zip or .tar (.gz, .bz2, .xz) of class folders, of Tiny-ImageNet, or of images
        with labels beside them (WebDataset); a .csv file of paths and labels; a .parquet file
        of images, or a folder of them; ``hf:NAME`` or ``hf:NAME:SPLIT``, a Hugging Face data
        set by the name of its folder or of its place on the hub.
    split
        Needed where there are several: ``train`` and ``test`` folders, a ``split`` column.
    labels
        A .csv file with the labels of images in folders. Its rows name an image by its path
        inside ``path`` or by its file name, with or without suffix.
    label_column
        The column of labels (.csv, .parquet, hf:), or where they are beside images: ``cls``
        for ``1.cls``, or a key of ``1.json``; empty if there are none.
    image_column
        The column of paths or encoded images, if it does not have one of the usual names.
    most_bytes
        A larger file is refused before it is read.

    Returns
    -------
    source : ImageSource
        Sorted by name; a .tar, a .csv and a .parquet file keep their own order. Labels that
        are text are integers if all of them are; a data set's numbers become names if it
        declares them.

    Raises
    ------
    ImageError
        Nothing can be used. A single file that cannot be read is found when it is decoded.
    MissingExtra
        A data set of Hugging Face's kinds, and ``datasets`` is not installed.

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
    found = None if labels is None else existing_file(labels, ImageError)
    selection = Selection(split, found, label_column, image_column, most_bytes)
    if str(path).startswith(PREFIX):
        return open_named(str(path), selection)
    place = Path(path)
    if not place.is_dir():
        suffix = existing_file(place, ImageError).suffix.lower()
        if suffix == ".csv":
            return open_csv(place, selection)
        if suffix == ".parquet":
            selection.refuse(place, "a single .parquet file", "split")
            shard = Member(place.name, place.stat().st_size, str(place))
            return open_parquet(place, selection, [shard])
    files = _open_files(place, most_bytes)
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
    if name.endswith(TARS):
        return TarFiles(path, most_bytes=most_bytes)
    raise ImageError(
        f"{path}: unknown kind of file; expected a folder, .zip, {', '.join(TARS)}, .csv, "
        f".parquet or {PREFIX}NAME"
    )
