"""Named arrays and a JSON text <-> the bytes of a safetensors file; reading executes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from safle.errors import SafleError, WireError

Arrays = dict[str, NDArray[Any]]


def encode_tensors(text: str, arrays: Arrays) -> bytes:
    """The bytes of ``arrays`` and of the text that describes them."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(contiguous, metadata={"safle": text})


def decode_tensors(data: bytes) -> tuple[str, Arrays]:
    """The inverse of `encode_tensors`; `WireError` for anything else."""
    try:
        arrays = load(data)
        # `load` checks that the header is JSON and has the length it says, but it does not return
        # the metadata.
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return str(header["__metadata__"]["safle"]), arrays
    except (SafetensorError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise WireError(
            f"not a safetensors file of safle, such as an encoder or a model: {error!r}"
        ) from error


def read_header(text: str, format_name: str, what: str) -> dict[str, Any]:
    """The fields of a JSON header; `WireError` if its format is another than that of ``what``."""
    header = json.loads(text)
    found = header.get("format") if isinstance(header, dict) else None
    if found != format_name:
        raise WireError(f"not {what}: format {found!r}; this safle reads {format_name!r}")
    return dict(header)


@contextmanager
def refusing_malformed(what: str) -> Iterator[None]:
    """Turn the errors of code that reads a malformed ``what`` into `WireError`."""
    try:
        yield
    except WireError:
        raise
    except (
        *(SafleError, ValueError, TypeError, KeyError),
        *(AttributeError, OverflowError, RecursionError),
    ) as error:
        raise WireError(f"not a valid {what}: {error!r}") from error
