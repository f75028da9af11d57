"""Hugging Face ``datasets``: Parquet files of images, and any data set by name (``hf:NAME``).

Parquet files are streamed, a data set by name is memory-mapped from the library's own cache.
Nothing is decoded by the library, no code of a data set is ever run (the library has given up
loading scripts and pickles; a test watches over it), and local files are read without network.
"""

import glob
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from safle.basics.optional import require
from safle.basics.texts import reason_of
from safle.errors import ImageError
from safle.tables.common import find_label, listed
from safle_images.readers.files import Member, path_inside
from safle_images.readers.sources import (
    Label,
    Record,
    Selection,
    Unreadable,
    describe,
    listing_digest,
)

PREFIX = "hf:"
# Encoded images of this many rows are in memory at a time.
_BATCH = 32
_IMAGE_COLUMNS = ("image", "img", "bytes", "jpg", "png")
_READERS = frozenset({"arrow", "cache", "imagefolder", "parquet", "webdataset"})


class TableImages:
    """The images in a column of a data set, encoded.

    Parameters
    ----------
    where : for messages
    name : what the images' names begin with
    kind : for the description
    load : gives the data set with the named columns only
    files : name and size of what it is stored in
    folders : image files that rows name by path lie in one of these
    """

    def __init__(
        self,
        where: str,
        name: str,
        kind: str,
        load: Callable[[list[str] | None], Any],
        *,
        files: Sequence[tuple[str, int]],
        folders: Sequence[Path],
        selection: Selection,
        split: str | None,
    ) -> None:
        self._where, self._name, self._load, self._folders = where, name, load, folders
        self._most_bytes = selection.most_bytes
        with _reading(where):
            features = load(None).features
            self._image = _image_column(where, features, selection)
            label = _label_column(where, features, self._image, selection.label_column)
            names = tuple(features[label].names) if hasattr(features.get(label), "names") else None
            # One pass over the labels: a broken file is found now and not in an hour.
            rows = load([label or self._image])
            self._labels = [self._read_label(row[label], names) if label else None for row in rows]
        self.description = describe(kind, split, self._labels)
        about = (split, self._image, label)
        self._digest = listing_digest((*files, about, tuple(self._labels)))

    def __len__(self) -> int:
        return len(self._labels)

    def digest(self) -> str:
        """SHA-256 of the files' names and sizes, and of all labels."""
        return self._digest

    def records(self, start: int = 0) -> Iterator[Record]:
        """All images from the ``start``-th on."""
        if start >= len(self):
            return
        with _reading(self._where):
            for at, row in enumerate(self._load([self._image]).skip(start), start):
                data = self._data(row[self._image])
                yield Record(f"{self._name}/{at:08d}", self._labels[at], data)

    def _read_label(self, label: Label, names: tuple[str, ...] | None) -> Label:
        if names is None or label is None:
            return label
        # The hub writes -1 for a label it withholds.
        if not -1 <= int(label) < len(names):
            raise ImageError(
                f"{self._where}: has the label {label}, but its metadata names "
                f"{len(names)} classes, 0 to {len(names) - 1}; download it again"
            )
        return None if label == -1 else names[int(label)]

    def _data(self, cell: Any) -> bytes:
        if not isinstance(cell, dict):
            cell = {"path" if isinstance(cell, str) else "bytes": cell}
        data, path = cell.get("bytes"), cell.get("path")
        if data is None:
            return (
                self._read(path) if path else Unreadable("has neither bytes nor a file; embed it")
            )
        if len(data) > self._most_bytes:
            return Unreadable(f"has {len(data)} bytes; expected at most {self._most_bytes}")
        return bytes(data)

    def _read(self, name: str) -> bytes:
        places = (path_inside(folder, name) for folder in self._folders)
        place = next((place for place in places if place is not None), None)
        if place is None or "\0" in name:
            return Unreadable(f"is in {name!r}, outside the data set; embed the images")
        try:
            if place.is_file() and place.stat().st_size <= self._most_bytes:
                return place.read_bytes()
            return Unreadable(f"is no regular file of at most {self._most_bytes} bytes")
        except OSError as error:
            return Unreadable(f"cannot be read: {error.strerror}")


def open_parquet(path: Path, selection: Selection, shards: Sequence[Member]) -> TableImages:
    """The images of Parquet files: a single one, or those of one split of a folder."""
    selection.refuse(path, "Parquet files, which have labels of their own", "labels")
    library, sizes = _library(), {str(shard.at): (shard.name, shard.size) for shard in shards}
    split, chosen = None, list(sizes)
    if path.is_dir():
        with _reading(str(path)):
            splits = _shard_splits(library, path, sizes)
        split = selection.choose_split(path, splits)
        chosen = splits[str(split)]
    return TableImages(
        str(path),
        path.name,
        f"Parquet files in {path.name}",
        partial(_stream_parquet, library, chosen),
        files=[sizes[name] for name in chosen],
        folders=[path if path.is_dir() else path.parent],
        selection=selection,
        split=split,
    )


def open_named(text: str, selection: Selection) -> TableImages:
    """A data set by name, ``hf:NAME`` or ``hf:NAME:SPLIT``: a folder, the cache, or the hub."""
    selection.refuse(text, "a named data set, which has labels of its own", "labels")
    name, _, split = text.removeprefix(PREFIX).partition(":")
    if split and selection.split not in (None, split):
        raise ImageError(f"{text}: --split says {selection.split!r}; say it once")
    library = _library()
    with _reading(text):
        found = _load_named(library, name)
    chosen = replace(selection, split=split or selection.split).choose_split(text, found)
    dataset = found[str(chosen)]
    stored = [Path(file["filename"]) for file in dataset.cache_files]
    return TableImages(
        text,
        name.strip("/").replace("/", "-"),
        f"data set {name}",
        partial(_undecoded, library, dataset),
        files=[(file.name, file.stat().st_size) for file in stored],
        folders=[Path(name), Path(library.config.HF_CACHE_HOME)],
        selection=selection,
        split=chosen,
    )


def _load_named(library: Any, name: str) -> dict[str, Any]:
    """Each split's data set."""
    if any(Path(name, file).is_file() for file in ("dataset_dict.json", "state.json")):
        saved = library.load_from_disk(name)
        return dict(saved) if isinstance(saved, dict) else {str(saved.split or "all"): saved}
    builder = library.load_dataset_builder(name)
    # A class made for a named data set has its packaged reader as a base.
    kinds = [base.__module__.rsplit(".", 1)[-1] for base in type(builder).__mro__]
    if _READERS.isdisjoint(kinds):
        raise ImageError(
            f"{PREFIX}{name}: is read as {kinds[0]!r}; expected {', '.join(sorted(_READERS))}"
        )
    return dict(library.load_dataset(name))


def _stream_parquet(library: Any, files: Sequence[str], columns: list[str] | None) -> Any:
    # Streaming leaves nothing in the cache but a lock, and that goes with the folder.
    with tempfile.TemporaryDirectory() as cache:
        dataset = library.load_dataset(
            "parquet",
            data_files={"all": [glob.escape(os.path.abspath(file)) for file in files]},  # noqa: PTH100
            split="all",
            streaming=True,
            cache_dir=cache,
            batch_size=_BATCH,
            columns=columns,
        )
    return _undecoded(library, dataset, None)


def _undecoded(library: Any, dataset: Any, columns: list[str] | None) -> Any:
    """The data set with the named columns, its images left as they are encoded."""
    chosen = dataset if columns is None else dataset.select_columns(columns)
    for name, feature in chosen.features.items():
        if isinstance(feature, library.Image):
            chosen = chosen.cast_column(name, library.Image(decode=False))
    return chosen


def _shard_splits(library: Any, path: Path, shards: Iterable[str]) -> dict[str, list[str]]:
    """The library's idea of splits: ``train-00000-of-00002.parquet``, ``train/0.parquet``."""
    root = str(path.resolve())
    patterns = library.data_files.get_data_patterns(glob.escape(root))
    found = library.data_files.DataFilesDict.from_patterns(patterns, base_path=root)
    by_place = {os.path.realpath(shard): shard for shard in shards}
    splits = {
        str(split): sorted(
            by_place[name] for name in map(os.path.realpath, names) if name in by_place
        )
        for split, names in found.items()
    }
    return {split: names for split, names in splits.items() if names}


def _image_column(where: str, features: Any, selection: Selection) -> str:
    declared = [name for name, feature in features.items() if _kind(feature) == "Image"]
    wanted = (selection.image_column,) if selection.image_column else (*declared, *_IMAGE_COLUMNS)
    image = next((name for name in wanted if name in features), None)
    feature = features[image] if image is not None else None
    kind = _kind(feature["bytes"] if isinstance(feature, dict) and "bytes" in feature else feature)
    if image is None or kind not in ("Image", "binary", "large_binary", "string"):
        raise ImageError(
            f"{where}: has the columns {listed(features)}; expected encoded images, their bytes "
            f"or paths, in {listed(dict.fromkeys(wanted))}: name the column with "
            "--image-column NAME (image_column= in Python)"
        )
    return image


def _label_column(where: str, features: Any, image: str, wanted: str) -> str | None:
    """The column of labels; None if there is nothing that could be one, or '' was wanted."""
    others = [name for name in features if name != image and not name.startswith("__")]
    declared = [name for name in others if hasattr(features[name], "names") or name == "cls"]
    if wanted == "":
        return None
    if find_label(where, wanted, list(features), ImageError) is None:
        if len(declared) != 1 and others:
            raise ImageError(
                f"{where}: no column {wanted!r} but {listed(declared or others)}; say which "
                "is the label with --label-column NAME (label_column= in Python), or that there "
                "is none with an empty NAME"
            )
        return next(iter(declared), None)
    if not _kind(features[wanted]).startswith(("int", "uint", "string", "large_string")):
        raise ImageError(
            f"{where}: column {wanted!r} holds {_kind(features[wanted])}; expected labels, "
            "integers or text"
        )
    return wanted


def _kind(feature: Any) -> str:
    """``Image``, or the type of a column's values; classes are integers."""
    name = type(feature).__name__
    return name if name == "Image" else str(getattr(feature, "dtype", name))


def _library() -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    datasets = require("datasets", "safle-images", "reading Parquet and named data sets")
    # Else the library tells the hub of every data set that is opened, local ones too.
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    return datasets


@contextmanager
def _reading(where: str) -> Iterator[None]:
    try:
        yield
    except (ImageError, MemoryError):
        raise
    # The library, pyarrow and the hub's client share no base of their errors.
    except Exception as error:
        raise ImageError(
            f"{where}: cannot be read ({reason_of(error)}); it is not a whole data set of images: "
            "copy or download it again"
        ) from error
