"""Tables as files of every kind that can be read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars
from safetensors.numpy import save_file


def write_table(path: str | Path, features: np.ndarray, labels: np.ndarray | None = None) -> None:
    """Write features, and labels if there are any."""
    kind, matrix = Path(path).suffix.lower(), np.asarray(features)
    arrays = {"features": matrix} | ({} if labels is None else {"labels": np.asarray(labels)})
    if kind == ".npz":
        np.savez(path, **arrays)
    elif kind == ".safetensors" and labels is not None and arrays["labels"].dtype.kind == "U":
        classes, numbers = np.unique(arrays["labels"], return_inverse=True)
        arrays = {"features": matrix.astype(np.float32), "labels": numbers}
        save_file(arrays, path, {"classes": json.dumps(classes.tolist())})
    elif kind == ".safetensors":
        save_file({n: a.astype(a.dtype.newbyteorder("=")) for n, a in arrays.items()}, path)
    else:
        assert kind == ".csv"
        exact = matrix.astype({"f": np.float64, "b": np.uint8}.get(matrix.dtype.kind, matrix.dtype))
        frame = polars.DataFrame(exact.astype(exact.dtype.newbyteorder("=")))
        frame.columns = [f"f{at}" for at in range(frame.width)]
        if labels is not None:
            frame = frame.with_columns(label=polars.Series(np.asarray(labels).tolist()))
        frame.write_csv(path)
