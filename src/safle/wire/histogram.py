"""Histograms <-> bytes: federated calibration in the same container."""

from __future__ import annotations

import os
from typing import Any

from safle._internal.memory import require
from safle.encoders.histogram import MAX_CELLS, Grid, Histogram
from safle.errors import InvalidInput, SettingsError, WireError
from safle.wire import container
from safle.wire.planes import MOST_HALVES, from_planes, plane_count, to_planes, value_bytes


def encode_histogram(histogram: Histogram) -> bytes:
    """The bytes of a histogram file."""
    sections = {"counts": to_planes(histogram.counts, plane_count(histogram.counts))}
    return container.to_bytes(container.HISTOGRAM, _header(histogram), sections)


def _header(histogram: Histogram) -> dict[str, Any]:
    grid = histogram.grid
    return {
        "grid": [float(grid.low).hex(), float(grid.high).hex(), grid.bins],
        "features": histogram.feature_dim,
        "planes": plane_count(histogram.counts),
        **({"names": [*histogram.names]} if histogram.names else {}),
    }


def write_histogram(path: str | os.PathLike[str], histogram: Histogram) -> None:
    """Write a histogram file, atomically.

    >>> import tempfile
    >>> import numpy as np
    >>> sent = Histogram.of(np.array([[0.5], [2.5]]), Grid(0, 4, bins=4))
    >>> with tempfile.NamedTemporaryFile(suffix=".hist") as file:
    ...     write_histogram(file.name, sent)
    ...     read_histogram(file.name) == sent
    True
    """
    container.write_file(path, encode_histogram(histogram))


def decode_histogram(data: bytes | memoryview) -> Histogram:
    """A histogram from bytes; `WireError` for bad ones."""
    return from_container(container.from_bytes(data, kind=container.HISTOGRAM))


def read_histogram(path: str | os.PathLike[str]) -> Histogram:
    """Read a histogram file, verified.

    >>> read_histogram("nowhere.hist")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.hist'
    """
    opened = container.read_file(path, kind=container.HISTOGRAM)
    try:
        return from_container(opened)
    except WireError as error:
        raise WireError(f"{path}: {error}") from error


def from_container(opened: container.Container) -> Histogram:
    """A histogram from an opened container; its digest is the contribution's identity."""
    try:
        low, high, bins = opened.header["grid"]
        grid = Grid(float.fromhex(low), float.fromhex(high), bins)
        features, planes = opened.header["features"], opened.header["planes"]
        if type(features) is not int or not 1 <= features <= MAX_CELLS // (grid.bins + 2):
            raise WireError(f"a histogram of {features!r} features")
        if type(planes) is not int or not 1 <= planes <= MOST_HALVES:
            raise WireError(f"a histogram of {planes!r} half planes")
        require(
            48 * features * (grid.bins + 2),
            purpose=f"a histogram of {features} features and {grid.bins} bins",
            advice="read it on a larger machine",
        )
        data = opened.section("counts", value_bytes(planes) * features * (grid.bins + 2))
        counts = from_planes(data, planes, (features, grid.bins + 2))
        histogram = Histogram(grid, counts, tuple(opened.header.get("names", ())))
        if container.canonical(_header(histogram)) != container.canonical(opened.header):
            raise WireError("the header is not the one that this histogram has")
        opened.finish()
        return histogram
    except (
        InvalidInput,
        SettingsError,
        KeyError,
        TypeError,
        ValueError,
        OverflowError,
        MemoryError,
    ) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(f"not a valid histogram: {error}") from error
