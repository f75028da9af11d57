"""CIFAR-10 and CIFAR-100 as their authors ship them: the binary and the python version.

A binary record is one byte for each label (coarse, then fine) and 3,072 bytes: 32 × 32 of red, of
green, of blue. The python version holds the same rows in pickles, which are not unpickled
(:mod:`safle_images.readers.opcodes`). Both give the same names, labels and pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from safle.errors import ImageError
from safle_images.readers.archives import Member
from safle_images.readers.files import Files
from safle_images.readers.opcodes import as_array, read_opcodes
from safle_images.readers.sources import ImageSource, Label, Selection

EXPECTED = "data_batch_1 (.bin) with batches.meta (.txt), or train and test with their label names"
_BATCHES = {"train": tuple(f"data_batch_{at}" for at in range(1, 6)), "test": ("test_batch",)}
_WHOLE: dict[str, tuple[str, ...]] = {"train": ("train",), "test": ("test",)}
_COLUMNS = ("coarse", "fine")
_PIXELS = 3 * 32 * 32


class _Version(NamedTuple):
    """One of the four archives; ``names`` are the classes' files, by column."""

    title: str
    suffix: str
    batches: dict[str, tuple[str, ...]]
    names: dict[str, str]


_VERSIONS = (
    _Version("CIFAR-10", ".bin", _BATCHES, {"label": "batches.meta.txt"}),
    _Version("CIFAR-10", "", _BATCHES, {"label": "batches.meta"}),
    _Version("CIFAR-100", ".bin", _WHOLE, {n: f"{n}_label_names.txt" for n in _COLUMNS}),
    _Version("CIFAR-100", "", _WHOLE, {"coarse": "meta", "fine": "meta"}),
)


def recognises(files: Files) -> bool:
    """Whether one of the four versions is among the files."""
    return bool(_find(files))


def open_source(files: Files, selection: Selection) -> ImageSource:
    """The images of a split, in the order of their batches."""
    several = _find(files)
    if len(several) > 1:
        folders = sorted(next(iter(beside.values())).folder or "." for _, beside in several)
        raise ImageError(f"{files.path}: has CIFAR in {', '.join(folders)}; name one of them")
    ((version, found),) = several
    selection.refuse(files.path, version.title, "image_column")
    batches = {
        split: [found[name + version.suffix] for name in names if name + version.suffix in found]
        for split, names in version.batches.items()
    }
    split = selection.choose_split(files.path, (name for name, some in batches.items() if some))
    column = selection.label_of(files.path, [*version.names], [[*version.names][-1]])
    classes: list[str] = []
    if column is not None:
        if version.names[column] not in found:
            raise ImageError(f"{files.path}: has no {version.names[column]}, the classes' names")
        classes = _class_names(files, version, found[version.names[column]], column)
    names: list[str] = []
    labels: list[Label] = []
    sizes: list[int] = []
    for member in batches[str(split)]:
        pixels, values = _read(files, version, member, column)
        if column is not None and not all(0 <= value < len(classes) for value in values):
            raise ImageError(
                f"{files.path}: {member.name} has a label that is not among {len(classes)} classes"
            )
        stem = member.base.removesuffix(".bin")
        names += [f"{stem}/{row:05d}" for row in range(len(pixels))]
        labels += [classes[value] if classes else None for value in values]
        sizes.append(len(pixels))

    def read(start: int) -> Iterator[NDArray[np.uint8]]:
        for member, size in zip(batches[str(split)], sizes, strict=True):
            if start < size:
                rows = _read(files, version, member, None)[0][start:]
                images = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
                yield from map(np.ascontiguousarray, images)
            start = max(0, start - size)

    shown = "" if column in (None, "label") else f", {column} labels"
    return ImageSource(f"{version.title}{shown}", split, names, labels, sizes, read)


def _find(files: Files) -> list[tuple[_Version, dict[str, Member]]]:
    """Each version that is there, and the files beside its class names, by their last names."""
    found = []
    for version in _VERSIONS:
        wanted = {batch + version.suffix for some in version.batches.values() for batch in some}
        for meta in files.named([*version.names.values()][-1]):
            beside = {m.base: m for m in files.members if m.folder == meta.folder}
            if wanted & beside.keys():
                found.append((version, beside))
    return found


def _class_names(files: Files, version: _Version, member: Member, column: str) -> list[str]:
    if version.suffix:
        return [line.strip() for line in files.lines(member)]
    key = "label_names" if column == "label" else f"{column}_label_names"
    where = f"{files.path}: {member.name}"
    names = read_opcodes(files.read(member), where).get(key, [])
    if not names or not all(isinstance(name, str) for name in names):
        raise ImageError(f"{where}: no list of names called {key!r}")
    return names


def _read(
    files: Files, version: _Version, member: Member, column: str | None
) -> tuple[NDArray[np.uint8], list[int]]:
    """The pixels of a batch, a row for each image, and its labels."""
    where = f"{files.path}: {member.name}"
    data = files.read(member)
    if version.suffix:
        size = len(version.names) + _PIXELS
        if len(data) % size:
            raise ImageError(f"{where} has {len(data)} bytes; expected records of {size}")
        rows = np.frombuffer(data, np.uint8).reshape(-1, size)
        at = [*version.names].index(column) if column else 0
        return rows[:, len(version.names) :], rows[:, at].tolist()
    tree = read_opcodes(data, where)
    pixels = as_array(tree.get("data"), where)
    key = "labels" if column in (None, "label") else f"{column}_labels"
    values = [0] * len(pixels) if column is None else tree.get(key, [])
    whole = len(values) == len(pixels) and all(type(value) is int for value in values)
    if not whole or pixels.shape[1] != _PIXELS:
        raise ImageError(f"{where}: expected {_PIXELS} numbers and one of its {key} per image")
    return pixels, values
