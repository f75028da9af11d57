"""Histograms <-> bytes: federated calibration in the same container."""

from __future__ import annotations

from typing import Any

from safle.basics.places import StrPath
from safle.encoders.histogram import Grid, Histogram
from safle.errors import WireError
from safle.wire import container
from safle.wire.files import FileType, SectionReader, SectionWriter


def _describe(histogram: Histogram, sections: SectionWriter) -> dict[str, Any]:
    sections.write("counts", histogram.counts)
    return _header(histogram, sections.planes["counts"])


def _header(histogram: Histogram, planes: int) -> dict[str, Any]:
    return {
        "grid": histogram.grid.to_json(),
        "features": histogram.feature_dim,
        "planes": planes,
        **({"names": [*histogram.names]} if histogram.names else {}),
    }


def _restore(opened: container.Container) -> Histogram:
    header = opened.header
    features, names = header["features"], header.get("names", ())
    if type(features) is not int or features < 1:
        raise WireError(f"a histogram of {str(features)[:40]} features; expected at least 1")
    grid = Grid.from_json(header["grid"], features, names)
    opened.reserve(
        48 * features * (grid.bins + 2), f"a histogram of {features} features and {grid.bins} bins"
    )
    sections = SectionReader(opened, {"counts": header["planes"]})
    counts = sections.read("counts", (features, grid.bins + 2))
    sections.finish()
    histogram = Histogram(grid, counts)
    if container.canonical(_header(histogram, header["planes"])) != container.canonical(header):
        raise WireError("the header of the histogram is not written as safle writes it")
    return histogram


HISTOGRAMS = FileType(container.HISTOGRAM, _describe, _restore)
encode_histogram, decode_histogram = HISTOGRAMS.encode, HISTOGRAMS.decode


def write_histogram(path: StrPath, histogram: Histogram) -> None:
    """Write a histogram file, atomically.

    >>> import tempfile
    >>> import numpy as np
    >>> sent = Histogram.of(np.array([[0.5], [2.5]]), Grid(0, 4, feature_dim=1, bins=4))
    >>> with tempfile.NamedTemporaryFile(suffix=".hist") as file:
    ...     write_histogram(file.name, sent)
    ...     read_histogram(file.name) == sent
    True
    """
    HISTOGRAMS.write(path, histogram)


def read_histogram(path: StrPath) -> Histogram:
    """Read a histogram file, verified.

    >>> read_histogram("nowhere.hist")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.hist'
    """
    return HISTOGRAMS.read(path)
