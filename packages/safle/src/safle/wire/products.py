"""A whole gram on the wire: its free products (`safle.statistics.free_sums`), row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import WireError
from safle.statistics import triangle
from safle.statistics.free_sums import FreeSums
from safle.statistics.gram import Triangle
from safle.statistics.value import Margins, Statistics

Packed = NDArray[np.signedinteger[Any]]


def _free(margins: Margins) -> FreeSums:
    return FreeSums(margins.layout, len(margins.class_names), margins.codes)


def count(margins: Margins) -> int:
    """How many numbers are sent: known before they are unfolded."""
    return int(_free(margins).starts[-1])


def write(statistics: Statistics) -> Packed:
    """The numbers that are sent."""
    return _free(statistics).take_products(statistics)


def read(margins: Margins, values: Packed, class_grams: Sequence[Packed] = ()) -> Triangle:
    """The gram that has these free products."""
    free = _free(margins)
    dtype = triangle.entry_type(free.powers(values, margins.totals, class_grams))
    # In Python's integers: the least of 64 bits has no absolute value in them.
    largest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    if largest > np.iinfo(dtype).max:
        raise WireError("an entry is larger than the squares of its columns allow")
    packed = free.restore_gram(values, margins.totals, class_grams, dtype)
    return Triangle(packed, margins.dim)
