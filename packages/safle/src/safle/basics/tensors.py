"""Named arrays with a JSON text as safetensors bytes; nothing in them is executed."""

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


def write_tensors(text: str, arrays: Arrays) -> bytes:
    """The bytes of ``arrays`` and the text that describes them."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(contiguous, metadata={"safle": text})


def read_tensors(data: bytes) -> tuple[str, Arrays]:
    """The inverse of `write_tensors`; `WireError` for anything else."""
    try:
        arrays = load(data)
        # The library checks the header's length and that it is JSON, but returns
        # the metadata of files only.
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return str(header["__metadata__"]["safle"]), arrays
    except (SafetensorError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise WireError(
            f"not a safetensors file of safle, such as an encoder or a model: {error!r}"
        ) from error


def read_header(text: str, format_name: str, what: str) -> dict[str, Any]:
    """The fields of a header; `WireError` if it is not ``what``, in this format."""
    header = json.loads(text)
    found = header.get("format") if isinstance(header, dict) else None
    if found != format_name:
        raise WireError(f"not {what}: format {found!r}; this safle reads {format_name!r}")
    return dict(header)


@contextmanager
def refusing_malformed(what: str) -> Iterator[None]:
    """Raise `WireError` for the errors of code that reads a malformed header."""
    try:
        yield
    except WireError:
        raise
    except (
        *(SafleError, ValueError, TypeError, KeyError),
        *(AttributeError, OverflowError, RecursionError),
    ) as error:
        raise WireError(f"not a valid {what}: {error!r}") from error
