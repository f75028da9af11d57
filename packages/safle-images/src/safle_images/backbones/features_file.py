"""A features file: a .safetensors file that is written without its features in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence

import numpy as np

from safle import as_class_names
from safle.basics import atomic
from safle.errors import InvalidInput, TableError
from safle_images.readers import Label


def write_features_file(
    path: str | os.PathLike[str],
    rows: Iterable[bytes],
    feature_dim: int,
    *,
    names: Sequence[str],
    labels: Sequence[Label] | None = None,
    source: str = "",
    device: str = "",
) -> None:
    """Write a .safetensors file of features that memory need not hold at once.

    Parameters
    ----------
    rows : the bytes of float32 features, little-endian, any number of rows at a time
    names, labels : of the samples, in order; labels are integers or strings
    source, device : what made the features, and where it ran

    Examples
    --------
    >>> import tempfile
    >>> from safle import open_table
    >>> rows = [np.array([46.0, 4.5], "<f4").tobytes()]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = f"{folder}/features.safetensors"
    ...     write_features_file(place, rows, 2, names=["1.png"], labels=["cat"])
    ...     table = open_table(place)
    ...     table.features.tolist(), table.labels.tolist(), table.ids.tolist()
    ([[46.0, 4.5]], ['cat'], ['1.png'])
    """
    count = len(names)
    metadata = {"source": source, "device": device}
    parts = [("features", "F32", [count, feature_dim], 4 * count * feature_dim)]
    label_bytes = b""
    if labels is not None:
        label_bytes = _write_labels(labels, count, metadata)
        parts.append(("labels", "I64", [count], len(label_bytes)))
    name_bytes = json.dumps(list(names), ensure_ascii=False, separators=(",", ":")).encode()
    parts.append(("sample_names", "U8", [len(name_bytes)], len(name_bytes)))
    header: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name, dtype, shape, size in parts:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with atomic.replacing(path) as scratch, scratch.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(rows)
        file.write(label_bytes + name_bytes)


def _write_labels(labels: Sequence[Label], count: int, metadata: dict[str, str]) -> bytes:
    """Labels as int64; where they are texts, the metadata name the classes."""
    if len(labels) != count:
        raise InvalidInput(f"{len(labels)} labels; expected one for each of {count} samples")
    classes = as_class_names([*{*labels}])
    numbers = np.array(labels)
    if classes and isinstance(classes[0], str):
        if "" in classes:
            raise TableError("a class without a name; expected a name for every class")
        metadata["classes"] = json.dumps(classes)
        numbers = np.searchsorted(np.array(classes), numbers)
    return numbers.astype("<i8").tobytes()
