"""Named arrays with a JSON text as safetensors bytes; nothing in them is executed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from safle.errors import WireError

Arrays = dict[str, NDArray[Any]]


def write_tensors(text: str, arrays: Arrays) -> bytes:
    """The bytes of ``arrays`` and the text that describes them."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(whole, metadata={"safle": text})


def read_tensors(data: bytes) -> tuple[str, Arrays]:
    """The inverse of `write_tensors`; `WireError` for anything else."""
    try:
        arrays = load(data)
        # The library checks the header's length and that it is JSON, but gives the
        # metadata away for files only.
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return str(header["__metadata__"]["safle"]), arrays
    except (SafetensorError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise WireError(
            f"not a safetensors file of safle, such as an encoder or a model: {error!r}"
        ) from error
