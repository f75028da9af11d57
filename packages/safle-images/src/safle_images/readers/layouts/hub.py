"""Hugging Face ``datasets``: Parquet files of images, and any data set by name (``hf:NAME``).

The library streams local files, without a copy and without network, and memory-maps a data set of
the hub from its own cache. It decodes nothing, and never runs code of a data set (it no longer
loads scripts and pickles; a test checks that).
"""

import glob
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from safle.basics import name_some, reason_of
from safle.errors import ImageError
from safle_images.readers.archives import is_image, path_inside
from safle_images.readers.files import Files
from safle_images.readers.layouts.folders import check_folders
from safle_images.readers.sources import (
    LABEL_COLUMN,
    MOST_BYTES,
    NAME_THE_COLUMN,
    ImageSource,
    Label,
    Selection,
    Unreadable,
)

EXPECTED = "Parquet files, or a data set that was saved to disk"
PREFIX = "hf:"
_SAVED = ("dataset_dict.json", "state.json")
_IMAGE_COLUMNS = ("image", "img", "bytes")
_READERS = frozenset({"arrow", "cache", "imagefolder", "parquet", "webdataset"})
_TARS = "webdataset"
_WHOLE = "all"
"""The name of the only split of a data set whose split has no name."""
LABELS = (".cls", ".json", ".txt")
"""The files of a WebDataset that hold labels."""
_BATCH = 32
"""Rows of a Parquet file that are in memory at a time."""
Load = Callable[[list[str] | None], Any]
"""Columns, or None for all -> the data set with these columns, its images still encoded."""


def recognises(files: Files) -> bool:
    """Whether a folder was saved by the library, or has Parquet files and no images."""
    if files.kind == "folder" and any(member.name in _SAVED for member in files.members):
        return True
    on_disk = files.kind in ("folder", "file") and not files.images
    return on_disk and any(member.name.endswith(".parquet") for member in files.members)


def open_source(files: Files, selection: Selection) -> ImageSource:
    """The images of a split, in the order of the data set."""
    return open_dataset(str(files.path), selection, files.most_bytes)


def open_dataset(name: str, selection: Selection, most_bytes: int = MOST_BYTES) -> ImageSource:
    """A data set: a .parquet file, a folder, or ``NAME`` or ``NAME:SPLIT`` of the hub."""
    where, split = name, ""
    if not Path(name).exists():
        where, _, split = name.partition(":")
    if split and selection.split not in (None, split):
        raise ImageError(f"{name}: --split says {selection.split!r}; name one split only")
    with _reading(where):
        splits, kinds = _splits(where, most_bytes)
    chosen = replace(selection, split=split or selection.split).choose_split(where, splits)
    load = splits[str(chosen)]
    with _reading(where):
        whole = load(None)
        features = whole.features or dict.fromkeys(next(iter(whole), {}))
        image = _image_column(where, features, selection)
        label, key = _label_column(where, features, image, selection)
        classes = getattr(features.get(label), "names", None)
        # Reading all labels finds a broken file now and not in an hour.
        cells = (row.get(label) for row in load([label or image]))
        labels = [_read_label(where, cell[key] if key else cell, classes) for cell in cells]
    if "imagefolder" in kinds:
        check_folders(where, labels, selection)
    captions = label == "txt" and selection.label_column != label
    if captions and len({*labels}) == len(labels) > 1:
        raise ImageError(
            f"{where}: every image has another .txt, such as {labels[0]!r:.80}; expected classes, "
            "and not captions; --label-column txt reads them as classes nevertheless"
        )
    place = Path(where)
    names = [f"{place.name}/{row:08d}" for row in range(len(labels))]
    sizes = [(path.name, path.stat().st_size) for path in _files(where)]
    root = place if place.exists() else Path(_library().config.HF_CACHE_HOME)
    folder = root.parent if root.is_file() else root

    def read(start: int) -> Iterator[bytes]:
        with _reading(where):
            for row in load([image]).skip(start) if start < len(labels) else ():
                yield _read_cell(row[image], folder, most_bytes)

    kind = "WebDataset" if _TARS in kinds else "data set"
    split_name = None if chosen == _WHOLE else chosen
    column = "" if label in (None, "label") else f", labels in {key or label!r}"
    return ImageSource(
        f"{kind} {place.name}{column}", split_name, names, labels, [*sizes, image, label], read
    )


def _read_cell(cell: Any, folder: Path, most_bytes: int) -> bytes:
    """The image of a cell, which holds its bytes or the name of a file in ``folder``."""
    if not isinstance(cell, dict):
        cell = {"path" if isinstance(cell, str) else "bytes": cell}
    data, path = cell.get("bytes"), cell.get("path")
    if data is None and path:
        return _read_file(path, folder, most_bytes)
    if data is None:
        return Unreadable("has neither bytes nor a file; expected an embedded image")
    if len(data) > most_bytes:
        return Unreadable(f"has {len(data)} bytes; expected at most {most_bytes}")
    return bytes(data)


def _read_file(name: str, folder: Path, most_bytes: int) -> bytes:
    place = path_inside(folder, name)
    if place is None:
        return Unreadable(f"is in {name!r}, outside the data set; expected embedded images")
    try:
        if place.is_file() and place.stat().st_size <= most_bytes:
            return place.read_bytes()
        return Unreadable(f"is not a regular file of at most {most_bytes} bytes")
    except OSError as error:
        return Unreadable(f"cannot be read: {error.strerror}")


def _splits(name: str, most_bytes: int) -> tuple[dict[str, Load], set[str]]:
    """Name of a split -> the function that loads it; and the library's readers of it."""
    library = _library()
    place = Path(name)
    if any((place / file).is_file() for file in _SAVED):
        saved = library.load_from_disk(name)
        parts = saved if isinstance(saved, dict) else {str(saved.split or _WHOLE): saved}
        return {split: partial(_undecoded, part) for split, part in parts.items()}, set()
    if not place.exists():
        kinds = _check_reader(name, library.load_dataset_builder(name), _READERS - {_TARS})
        parts = library.load_dataset(name)
        return {split: partial(_undecoded, part) for split, part in parts.items()}, kinds
    source: dict[str, Any] = {"path": os.path.abspath(name)}  # noqa: PTH100
    if place.is_file():
        # The library takes a pattern, which must match this file alone.
        reader = "parquet" if name.endswith(".parquet") else _TARS
        source = {"path": reader, "data_files": {_WHOLE: [glob.escape(source["path"])]}}
    # Streaming leaves only a lock in the cache, which is deleted with the folder.
    with tempfile.TemporaryDirectory() as cache:
        builder = library.load_dataset_builder(**source, cache_dir=cache)
        kinds = _check_reader(name, builder, _READERS)
        if _TARS in kinds:
            _check_tars(place, most_bytes)
        splits = list(builder.as_streaming_dataset())
    loads: dict[str, Load] = {
        split: partial(_stream, source, split, "parquet" in kinds) for split in splits
    }
    return loads, kinds


def _check_tars(place: Path, most_bytes: int) -> None:
    """The library bounds nothing, and hands a file ending in .pth to torch."""
    for path in [place] if place.is_file() else _files(str(place)):
        archive = Files(path, most_bytes=most_bytes)
        for member in archive.members if archive.kind == "tar" else ():
            if not is_image(member.name) and not member.base.endswith(LABELS):
                raise ImageError(f"{path}: has {member.name}; expected images, {', '.join(LABELS)}")


def _stream(source: dict[str, Any], split: str, is_parquet: bool, columns: list[str] | None) -> Any:
    # Only the reader of Parquet files can skip columns.
    limits = {"columns": columns, "batch_size": _BATCH} if is_parquet else {}
    with tempfile.TemporaryDirectory() as cache:
        dataset = _library().load_dataset(
            **source, **limits, split=split, streaming=True, cache_dir=cache
        )
    return _undecoded(dataset, None if is_parquet else columns)


def _check_reader(name: str, builder: Any, allowed: frozenset[str]) -> set[str]:
    """The library's readers of a data set; at least one must be allowed."""
    # A class made for a named data set has its packaged reader as a base.
    kinds = {base.__module__.rsplit(".", 1)[-1] for base in type(builder).__mro__}
    if allowed.isdisjoint(kinds):
        raise ImageError(
            f"{name}: is read as {type(builder).__name__!r}; expected {', '.join(sorted(allowed))}"
        )
    return kinds


def _undecoded(dataset: Any, columns: list[str] | None) -> Any:
    """The data set with the named columns, its images still encoded."""
    library = _library()
    chosen = dataset if columns is None else dataset.select_columns(columns)
    for name, feature in (chosen.features or {}).items():
        if isinstance(feature, library.Image):
            chosen = chosen.cast_column(name, library.Image(decode=False))
    return chosen


def _files(where: str) -> list[Path]:
    """The local files of a data set; empty for a data set of the hub."""
    place = Path(where)
    return [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())


def _read_label(where: str, label: Label, names: Sequence[str] | None) -> Label:
    if names is None or label is None:
        # A text file ends with the end of its line.
        return label.removesuffix("\n") if isinstance(label, str) else label
    # The hub writes -1 for a label it withholds.
    if not -1 <= int(label) < len(names):
        raise ImageError(
            f"{where}: has the label {label}, but its metadata names {len(names)} classes, 0 to "
            f"{len(names) - 1}; download it again"
        )
    return None if label == -1 else names[int(label)]


def _image_column(where: str, features: Any, selection: Selection) -> str:
    declared = [name for name, feature in features.items() if _kind(feature) == "Image"]
    if len(declared) > 1 and selection.image_column is None:
        raise ImageError(f"{where}: has the images {name_some(declared)}; {NAME_THE_COLUMN}")
    image = selection.image_of(where, features, (*declared, *_IMAGE_COLUMNS))
    feature = features[image]
    kind = _kind(feature["bytes"] if isinstance(feature, dict) and "bytes" in feature else feature)
    if kind not in ("Image", "binary", "large_binary", "string"):
        raise ImageError(
            f"{where}: column {image!r} holds {kind}; expected encoded images, or their paths: "
            f"{NAME_THE_COLUMN}"
        )
    return image


def _label_column(
    where: str, features: Any, image: str, selection: Selection
) -> tuple[str | None, str | None]:
    """The column of labels, and the key in its cells if these are objects."""
    others = [name for name in features if name != image and not name.startswith("__")]
    likely = [name for name in others if hasattr(features[name], "names")]
    if "__key__" in features:
        likely = [suffix[1:] for suffix in LABELS if suffix[1:] in others][:1]
    objects = features.get("json")
    wanted = selection.label_column
    inside = likely == ["json"] or (wanted != LABEL_COLUMN and wanted in (objects or ()))
    if isinstance(objects, dict) and wanted not in others and inside:
        key = selection.label_of(where, [*objects])
        return ("json", key) if key else (None, None)
    label = selection.label_of(where, others, likely)
    kind = "" if label is None else _kind(features[label])
    if label is not None and not kind.startswith(("int", "uint", "string", "large_string")):
        raise ImageError(
            f"{where}: column {label!r} holds {kind}; expected labels, integers or text"
        )
    return label, None


def _kind(feature: Any) -> str:
    """``Image``, or the type of a column's values; classes are integers."""
    name = type(feature).__name__
    return name if name == "Image" else str(getattr(feature, "dtype", name))


def _library() -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import datasets

    # Otherwise the library reports every data set that it opens, also a local one, to the hub.
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
    # The errors of the library, pyarrow and the hub's client have no common base class.
    except Exception as error:
        raise ImageError(
            f"{where}: cannot be read ({reason_of(error)}); expected a complete data set of "
            "images: copy or download it again"
        ) from error
