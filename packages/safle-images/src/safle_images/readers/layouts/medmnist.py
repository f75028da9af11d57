"""MedMNIST's ``.npz`` files: arrays of images and of labels for each split.

Rows are streamed out of the zip: a file of 16 GB needs the memory of one image. Labels are numbers,
since the file does not name its classes.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import ImageError
from safle_images.readers.archives import naming
from safle_images.readers.files import Files
from safle_images.readers.sources import MOST_BYTES, ImageSource, Label, Selection

EXPECTED = "an .npz file with train_images and train_labels"
_SPLITS = ("train", "val", "test")


def recognises(files: Files) -> bool:
    """Whether the zip holds arrays of images."""
    return files.kind == "zip" and bool(files.named(*(f"{name}_images.npy" for name in _SPLITS)))


def open_source(files: Files, selection: Selection) -> ImageSource:
    """The images of a split, in the order of the array; grey ones become grey RGB."""
    selection.refuse(files.path, "MedMNIST", "image_column")
    splits = (name for name in _SPLITS if files.named(f"{name}_images.npy"))
    split = selection.choose_split(files.path, splits)
    images = f"{split}_images.npy"
    with _opened(files, images) as (_, shape, kind):
        size = math.prod(shape[1:])
        flat = len(shape) == 3 or (len(shape) == 4 and shape[3] == 3)
        if kind != np.uint8 or not flat or not 0 < size <= files.most_bytes:
            raise ImageError(
                f"{files.path}: {images} holds {kind} of shape {shape}; expected uint8 of shape "
                "(images, height, width), or with 3 colours at the end, and at most "
                f"{files.most_bytes} bytes per image"
            )
    count = shape[0]
    labels: list[Label] = [None] * count
    if selection.label_column != "":
        selection.refuse(files.path, "MedMNIST", "label_column")
        labels = _labels(files, split, count)

    def read(start: int) -> Iterator[NDArray[np.uint8]]:
        with _opened(files, images) as (file, _, _):
            file.seek(start * size, 1)
            for _ in range(start, count):
                pixels = np.frombuffer(file.read(size), np.uint8).reshape(shape[1:])
                grey = pixels.ndim == 2
                yield np.repeat(pixels[:, :, None], 3, axis=2) if grey else pixels

    names = [f"{split}/{row:08d}" for row in range(count)]
    return ImageSource(f"MedMNIST {files.path.stem}", split, names, labels, [*shape], read)


def _labels(files: Files, split: str | None, count: int) -> list[Label]:
    with _opened(files, f"{split}_labels.npy") as (file, shape, kind):
        if kind.kind not in "iu" or shape not in ((count,), (count, 1)) or count > MOST_BYTES // 8:
            raise ImageError(
                f"{files.path}: the labels are {kind} of shape {shape}; expected integers, one "
                f"class for each of {count} images (several at once are not read)"
            )
        return np.frombuffer(file.read(), kind).tolist()


@contextmanager
def _opened(files: Files, name: str) -> Iterator[tuple[IO[bytes], tuple[int, ...], Any]]:
    """A file at the numbers of its array, their shape and kind; no pickle is read."""
    if not files.named(name):
        raise ImageError(f'{files.path}: has no {name}; without labels: --label-column ""')
    member = files.named(name)[0]
    with (
        naming(files.path, "MedMNIST"),
        zipfile.ZipFile(files.path) as archive,
        archive.open(str(member.location)) as file,
    ):
        version = np.lib.format.read_magic(file)
        formats = np.lib.format
        read = formats.read_array_header_1_0 if version[0] == 1 else formats.read_array_header_2_0
        shape, in_columns, kind = read(file)
        size = math.prod(shape) * kind.itemsize
        if kind.hasobject or in_columns or size != member.size - file.tell() or min(shape) < 0:
            raise ImageError(
                f"{files.path}: {member.name} claims {shape} of {kind} in "
                f"{member.size - file.tell()} bytes; expected numbers in rows, and all of them"
            )
        yield file, shape, kind
