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

from safle.basics import reason_of
from safle.errors import ImageError
from safle_images.readers.files import path_inside
from safle_images.readers.sources import NAME_THE_COLUMN, ImageSource, Label, Selection, Unreadable

PREFIX = "hf:"
_IMAGE_COLUMNS = ("image", "img", "bytes")
_READERS = frozenset({"arrow", "cache", "imagefolder", "parquet"})
_BATCH = 32
"""Rows of a Parquet file that are in memory at a time."""
Load = Callable[[list[str] | None], Any]
"""Columns, or None for all -> the data set with these columns, its images still encoded."""


def open_dataset(name: str, selection: Selection) -> ImageSource:
    """A data set: a .parquet file, a folder, or ``NAME`` or ``NAME:SPLIT`` of the hub."""
    where, split = name, ""
    if not Path(name).exists():
        where, _, split = name.partition(":")
    if split and selection.split not in (None, split):
        raise ImageError(f"{name}: --split says {selection.split!r}; name one split only")
    with _reading(where):
        splits = _splits(where)
    chosen = replace(selection, split=split or selection.split).choose_split(where, splits)
    load = splits[str(chosen)]
    with _reading(where):
        whole = load(None)
        features = whole.features or dict.fromkeys(next(iter(whole), {}))
        image = _image_column(where, features, selection)
        label = _label_column(where, features, image, selection)
        classes = getattr(features.get(label), "names", None)
        # Reading all labels finds a broken file now and not in an hour.
        labels = [_read_label(where, row.get(label), classes) for row in load([label or image])]
    place = Path(where)
    names = [f"{place.name}/{row:08d}" for row in range(len(labels))]
    sizes = [(path.name, path.stat().st_size) for path in _files(where)]
    root = place if place.exists() else Path(_library().config.HF_CACHE_HOME)
    folder = root.parent if root.is_file() else root

    def read(start: int) -> Iterator[bytes]:
        with _reading(where):
            for row in load([image]).skip(start) if start < len(labels) else ():
                yield _read_cell(row[image], folder, selection.most_bytes)

    return ImageSource(f"data set {where}", chosen, names, labels, [*sizes, image, label], read)


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


def _splits(name: str) -> dict[str, Load]:
    """Name of a split -> the function that loads it."""
    library = _library()
    if any(Path(name, file).is_file() for file in ("dataset_dict.json", "state.json")):
        saved = library.load_from_disk(name)
        parts = saved if isinstance(saved, dict) else {str(saved.split or "all"): saved}
        return {split: partial(_undecoded, part) for split, part in parts.items()}
    if not Path(name).exists():
        _check_reader(name, library.load_dataset_builder(name))
        return {k: partial(_undecoded, v) for k, v in library.load_dataset(name).items()}
    if Path(name).is_file():
        # The library takes a pattern, which must match this file alone.
        pattern = glob.escape(os.path.abspath(name))  # noqa: PTH100
        source: dict[str, Any] = {"path": "parquet", "data_files": {"all": [pattern]}}
    else:
        source = {"path": os.path.abspath(name)}  # noqa: PTH100
    # Streaming leaves only a lock in the cache, which is deleted with the folder.
    with tempfile.TemporaryDirectory() as cache:
        builder = library.load_dataset_builder(**source, cache_dir=cache)
        kinds = _check_reader(name, builder)
        splits = list(builder.as_streaming_dataset())
    return {split: partial(_stream, source, split, "parquet" in kinds) for split in splits}


def _stream(source: dict[str, Any], split: str, is_parquet: bool, columns: list[str] | None) -> Any:
    # Only the reader of Parquet files can skip columns.
    limits = {"columns": columns, "batch_size": _BATCH} if is_parquet else {}
    with tempfile.TemporaryDirectory() as cache:
        dataset = _library().load_dataset(
            **source, **limits, split=split, streaming=True, cache_dir=cache
        )
    return _undecoded(dataset, None if is_parquet else columns)


def _check_reader(name: str, builder: Any) -> set[str]:
    """The library's readers of a data set; at least one must be in `_READERS`."""
    # A class made for a named data set has its packaged reader as a base.
    kinds = {base.__module__.rsplit(".", 1)[-1] for base in type(builder).__mro__}
    if _READERS.isdisjoint(kinds):
        raise ImageError(
            f"{name}: is read as {type(builder).__name__!r}; expected {', '.join(sorted(_READERS))}"
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
        return label
    # The hub writes -1 for a label it withholds.
    if not -1 <= int(label) < len(names):
        raise ImageError(
            f"{where}: has the label {label}, but its metadata names {len(names)} classes, 0 to "
            f"{len(names) - 1}; download it again"
        )
    return None if label == -1 else names[int(label)]


def _image_column(where: str, features: Any, selection: Selection) -> str:
    declared = [name for name, feature in features.items() if _kind(feature) == "Image"]
    image = selection.image_of(where, features, (*declared, *_IMAGE_COLUMNS))
    feature = features[image]
    kind = _kind(feature["bytes"] if isinstance(feature, dict) and "bytes" in feature else feature)
    if kind not in ("Image", "binary", "large_binary", "string"):
        raise ImageError(
            f"{where}: column {image!r} holds {kind}; expected encoded images, or their paths: "
            f"{NAME_THE_COLUMN}"
        )
    return image


def _label_column(where: str, features: Any, image: str, selection: Selection) -> str | None:
    others = [name for name in features if name != image and not name.startswith("__")]
    likely = [name for name in others if hasattr(features[name], "names")]
    label = selection.label_of(where, others, likely)
    kind = "" if label is None else _kind(features[label])
    if label is not None and not kind.startswith(("int", "uint", "string", "large_string")):
        raise ImageError(
            f"{where}: column {label!r} holds {kind}; expected labels, integers or text"
        )
    return label


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
    # The library, pyarrow and the hub's client share no base of their errors.
    except Exception as error:
        raise ImageError(
            f"{where}: cannot be read ({reason_of(error)}); expected a complete data set of "
            "images: copy or download it again"
        ) from error
