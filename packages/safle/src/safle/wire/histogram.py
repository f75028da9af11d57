"""Histograms <-> bytes: federated calibration in the same container."""

from __future__ import annotations

from typing import Any

from safle.errors import WireError
from safle.statistics.histogram import Grid, Histogram
from safle.wire import container
from safle.wire.formats import FileFormat, Sections


def _describe(histogram: Histogram) -> tuple[dict[str, Any], Sections]:
    return histogram.declaration(), {"counts": histogram.counts}


def _restore(opened: container.Container) -> Histogram:
    header = opened.header
    features, names = header["features"], header.get("names", ())
    if type(features) is not int or features < 1:
        raise WireError(f"a histogram of {str(features)[:40]} features; expected at least 1")
    grid = Grid.from_json(header["grid"], features, names)
    opened.reserve(
        48 * features * (grid.bins + 2), f"a histogram of {features} features and {grid.bins} bins"
    )
    counts = opened.array("counts", (features, grid.bins + 2))
    opened.finish()
    histogram = Histogram(grid, counts)
    expected = {**histogram.declaration(), "planes": header["planes"]}
    if container.canonical(expected) != container.canonical(header):
        raise WireError("the header of the histogram is not written as safle writes it")
    return histogram


FORMAT = FileFormat(container.HISTOGRAM, _describe, _restore, Histogram)
