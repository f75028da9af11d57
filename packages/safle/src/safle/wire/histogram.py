"""Histograms <-> bytes: federated calibration in the same container."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from safle.errors import WireError
from safle.statistics.histogram import Histogram
from safle.wire import container
from safle.wire.formats import Admit, FileFormat, Sections


def _describe(histogram: Histogram) -> tuple[dict[str, Any], Sections]:
    return histogram.declaration(), {"counts": histogram.counts}


def _restore(
    opened: container.Container,
    like: Histogram | None = None,
    admit: Admit = lambda _classes: None,
) -> Histogram:
    admit(())
    fields = {name: value for name, value in opened.header.items() if name != "planes"}
    zero = Histogram.declared(fields)
    if like is not None:
        like.check_same(zero)
    opened.reserve(
        48 * zero.counts.size, f"a histogram of {zero.feature_dim} features and {zero.bins} bins"
    )
    counts = opened.array("counts", zero.counts.shape)
    opened.finish()
    if container.canonical(zero.declaration()) != container.canonical(fields):
        raise WireError("the header of the histogram is not written as safle writes it")
    return replace(zero, counts=counts)


FORMAT = FileFormat(container.HISTOGRAM, _describe, _restore, Histogram)
