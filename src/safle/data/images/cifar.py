"""CIFAR-10 and CIFAR-100 as distributed: the python version and the binary version.

Both hold 32×32 images as 3072 bytes: all red values row by row, then green, then blue.
See https://www.cs.toronto.edu/~kriz/cifar.html.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safle.data.images.files import Files, Member, check_size
from safle.data.images.pickled import read_pickled_arrays
from safle.data.images.records import Record, Unreadable, counted, listing_digest
from safle.data.images.selection import LABEL_COLUMN, Selection
from safle.errors import ImageError

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32


class Labels(NamedTuple):
    """Where one kind of label stands.

    Attributes
    ----------
    names_in : the file with the classes' names
    names_key : their key in it, if it is a pickle
    batch_key : the key of the labels in a pickled batch
    at : their byte in a row of a binary batch
    """

    names_in: str
    names_key: str
    batch_key: str
    at: int


@dataclass(frozen=True)
class Layout:
    """One of the four ways CIFAR is distributed."""

    title: str
    splits: dict[str, str]
    labels: dict[str, Labels]
    binary: bool

    @property
    def label_bytes(self) -> int:
        return len(set(self.labels.values()))


_TEN = {**{f"data_batch_{at}": "train" for at in range(1, 6)}, "test_batch": "test"}
_HUNDRED = {"train": "train", "test": "test"}


def _binary(splits: dict[str, str]) -> dict[str, str]:
    return {f"{name}.bin": split for name, split in splits.items()}


def _hundred(fine: str, coarse: str) -> dict[str, Labels]:
    fine_labels = Labels(fine, "fine_label_names", "fine_labels", 1)
    coarse_labels = Labels(coarse, "coarse_label_names", "coarse_labels", 0)
    return {
        LABEL_COLUMN: fine_labels,
        "fine_label": fine_labels,
        "coarse_label": coarse_labels,
    }


_LAYOUTS = (
    Layout(
        "CIFAR-10",
        _TEN,
        {LABEL_COLUMN: Labels("batches.meta", "label_names", "labels", 0)},
        binary=False,
    ),
    Layout("CIFAR-100", _HUNDRED, _hundred("meta", "meta"), binary=False),
    Layout(
        "CIFAR-10",
        _binary(_TEN),
        {LABEL_COLUMN: Labels("batches.meta.txt", "", "", 0)},
        binary=True,
    ),
    Layout(
        "CIFAR-100",
        _binary(_HUNDRED),
        _hundred("fine_label_names.txt", "coarse_label_names.txt"),
        binary=True,
    ),
)


class Batch(NamedTuple):
    """Images of one file: pixels uint8 (images, 3072), labels (images,)."""

    pixels: NDArray[np.uint8]
    labels: NDArray[Any]


class CifarImages:
    """Images of one split of CIFAR."""

    def __init__(
        self,
        files: Files,
        members: Sequence[Member],
        *,
        layout: Layout,
        labels: Labels,
        names: Sequence[str],
    ) -> None:
        self._files = files
        self._layout = layout
        self._members = members
        self._names = names
        self._labels = labels
        # One pass over the labels: a broken batch is found now and not in an hour.
        found = [batch.labels.tolist() for batch in self._batches(members)]
        self._counts = [len(numbers) for numbers in found]
        rows = zip(members, found, strict=True)
        self._digest = listing_digest(
            (tuple(names), *((member.name, member.size, numbers) for member, numbers in rows))
        )
        version = "binary" if layout.binary else "python"
        self.description = (
            f"{layout.title} ({version} version) in {files.path.name}: "
            f"{counted(len(self), 'image')}, {counted(len(names), 'class', 'classes')}"
        )

    def __len__(self) -> int:
        return sum(self._counts)

    def digest(self) -> str:
        """SHA-256 of the batches' names, sizes and labels."""
        return self._digest

    def records(self, start: int = 0) -> Iterator[Record]:
        """All images from the ``start``-th on."""
        first = 0
        while first < len(self._counts) and start >= self._counts[first]:
            start -= self._counts[first]
            first += 1
        members = self._members[first:]
        for member, batch in zip(members, self._batches(members), strict=True):
            stem = PurePosixPath(member.name).stem
            for at in range(start, len(batch.labels)):
                pixels = batch.pixels[at].reshape(_SHAPE).transpose(1, 2, 0)
                label = self._names[batch.labels[at]]
                yield Record(f"{stem}/{at:05d}", label, np.ascontiguousarray(pixels))
            start = 0

    def _batches(self, members: Sequence[Member]) -> Iterator[Batch]:
        contents = self._files.contents(members)
        for member in members:
            where = f"{self._files.path}: {member.name}"
            # The bytes are named nowhere: a pickle's need not stay beside its array.
            batch = self._batch(next(contents), where)
            if batch.labels.size and not 0 <= batch.labels.min() <= batch.labels.max() < len(
                self._names
            ):
                raise ImageError(
                    f"{where} has labels from {batch.labels.min()} to {batch.labels.max()}; "
                    f"expected 0 to {len(self._names) - 1}: download it again"
                )
            yield batch

    def _batch(self, data: bytes, where: str) -> Batch:
        if isinstance(data, Unreadable):
            raise ImageError(f"{where} {data.reason}")
        return self._binary(data, where) if self._layout.binary else self._python(data, where)

    def _binary(self, data: bytes, where: str) -> Batch:
        width = self._layout.label_bytes + _PIXELS
        if len(data) % width:
            raise ImageError(
                f"{where} has {len(data)} bytes, not a multiple of {width}; it is cut short: "
                "download it again"
            )
        rows = np.frombuffer(data, np.uint8).reshape(-1, width)
        return Batch(rows[:, self._layout.label_bytes :], rows[:, self._labels.at])

    def _python(self, data: bytes, where: str) -> Batch:
        entries = read_pickled_arrays(data, where=where)
        pixels, numbers = entries.get("data"), entries.get(self._labels.batch_key)
        if not isinstance(pixels, np.ndarray) or not _are_integers(numbers):
            raise ImageError(
                f"{where} has {', '.join(entries) or 'nothing'}; expected 'data' and "
                f"'{self._labels.batch_key}': download it again"
            )
        labels = np.array(numbers, dtype=np.int64)
        if pixels.dtype != np.uint8 or pixels.shape != (len(labels), _PIXELS):
            raise ImageError(
                f"{where} has images of shape {pixels.shape}, {pixels.dtype}, and {len(labels)} "
                f"labels; expected (labels, {_PIXELS}), uint8: download it again"
            )
        return Batch(pixels, labels)


def find_cifar(files: Files, selection: Selection) -> CifarImages | None:
    """CIFAR, if these files are it."""
    by_folder: dict[str, dict[str, Member]] = {}
    for member in files.members:
        folder, _, name = member.name.rpartition("/")
        by_folder.setdefault(folder, {})[name] = member
    for layout in _LAYOUTS:
        for here in by_folder.values():
            if layout.labels[LABEL_COLUMN].names_in in here and layout.splits.keys() & here.keys():
                return _open_cifar(files, layout, here, selection)
    return None


def _open_cifar(
    files: Files, layout: Layout, here: dict[str, Member], selection: Selection
) -> CifarImages:
    selection.refuse(files.path, f"{layout.title}, which has labels of its own", "labels")
    selection.refuse(files.path, layout.title, "image_column")
    labels = layout.labels.get(selection.label_column)
    if labels is None:
        raise ImageError(
            f"{files.path}: no labels {selection.label_column!r}; {layout.title} has "
            f"{', '.join(layout.labels)}"
        )
    if labels.names_in not in here:
        raise ImageError(f"{files.path}: no file {labels.names_in}; download it again")
    present = {split for name, split in layout.splits.items() if name in here}
    split = selection.choose_split(files.path, present)
    wanted = {here[name] for name in here if layout.splits.get(name) == split}
    members = [member for member in files.members if member in wanted]
    for member in members:
        check_size(files.path, member, files.most_bytes)
    names = _class_names(files, layout, here[labels.names_in], labels)
    return CifarImages(files, members, layout=layout, labels=labels, names=names)


def _class_names(files: Files, layout: Layout, member: Member, labels: Labels) -> list[str]:
    data, where = files.read(member), f"{files.path}: {member.name}"
    if layout.binary:
        return data.decode(errors="replace").split()
    names = read_pickled_arrays(data, where=where).get(labels.names_key)
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise ImageError(f"{where} has no '{labels.names_key}'; download it again")
    return [name.decode("latin-1") if isinstance(name, bytes) else name for name in names]


def _are_integers(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.ndim == 1
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < 256 for value in values
    )
