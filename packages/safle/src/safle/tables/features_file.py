"""Features -> a .safetensors file, row by row: more of them than memory holds.

`safle.tables.open_table` reads it back: features, labels, names of classes and of samples, and
what made the features.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from safle.basics.atomic import replacing
from safle.encoders.features import as_labels
from safle.encoders.source import as_source
from safle.tables.arrays import SAMPLE_NAMES, class_names_text, sample_names_bytes


def write_features_file(
    path: str | os.PathLike[str],
    rows: Iterable[bytes],
    feature_dim: int,
    *,
    names: Sequence[str],
    labels: ArrayLike | None = None,
    source: str = "",
) -> None:
    """Write features with the names of their samples; the file is whole or not there.

    Parameters
    ----------
    rows : the bytes of float32 features, little-endian, any number of rows at a time
    names : of the samples, in order
    labels : integers or strings, one for each sample
    source : what made the features

    Examples
    --------
    >>> import tempfile
    >>> from safle.tables import open_table
    >>> rows = [np.array([46.0, 4.5], "<f4").tobytes()]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = f"{folder}/features.safetensors"
    ...     write_features_file(place, rows, 2, names=["1.png"], labels=["cat"])
    ...     table = open_table(place)
    ...     table.features[:].tolist(), table.labels.tolist(), table.ids.tolist()
    ([[46.0, 4.5]], ['cat'], ['1.png'])
    """
    count, metadata, tail = len(names), {"source": as_source(source)}, sample_names_bytes(names)
    parts = [("features", "F32", [count, feature_dim], 4 * count * feature_dim)]
    numbers = b""
    if labels is not None:
        found = as_labels(labels, count)
        if found.dtype.kind == "U":
            classes, found = np.unique(found, return_inverse=True)
            metadata["classes"] = class_names_text(classes.tolist())
        numbers = found.astype("<i8").tobytes()
        parts.append(("labels", "I64", [count], len(numbers)))
    parts.append((SAMPLE_NAMES, "U8", [len(tail)], len(tail)))
    header: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name, dtype, shape, size in parts:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as scratch, scratch.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(rows)
        file.write(numbers + tail)
