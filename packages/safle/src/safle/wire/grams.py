"""Whole grams on the wire, by their free products; and those of classes, one after the other.

A class's gram comes by columns or by all free products. Its class sums and count are its products
with the constant column: so these are not sent again, and a class of one sample needs nothing more
than its sums.
"""

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
from safle.wire import columns, container
from safle.wire.sections import Sections

Packed = NDArray[np.signedinteger[Any]]
BASIS_PER_SPARE = 32
"""A class has few samples: eight columns to spare would be many beside its own."""


def product_count(margins: Margins) -> int:
    """How many free products a gram has: known before they are unfolded."""
    return int(FreeSums.of(margins).starts[-1])


def read_products(margins: Margins, values: Packed, class_grams: Sequence[Packed] = ()) -> Triangle:
    """The gram that has these free products."""
    packed = FreeSums.of(margins).restore_gram(values, margins.totals, class_grams)
    kind = triangle.entry_type(triangle.diagonal(packed, margins.dim))
    # In Python's integers: the least of 64 bits has no absolute value in them.
    largest = max(int(packed.max(initial=0)), -int(packed.min(initial=0)))
    if largest > np.iinfo(kind).max:
        raise WireError("an entry is larger than the squares of its columns allow")
    return Triangle(packed.astype(kind, copy=False), margins.dim)


def write_classes(statistics: Statistics, sections: Sections) -> None:
    """Add the sections of all classes."""
    choices = [columns.choose(part, BASIS_PER_SPARE) for part in statistics.by_class]
    few = np.array([choice is not None for choice in choices], np.bool_)
    values = [
        FreeSums.of(part).take_products(part)
        if choice is None
        else columns.to_values(part, *choice)
        for part, choice in zip(statistics.by_class, choices, strict=True)
    ]
    sections.raw["class_forms"] = columns.pack_bits(few)
    sections.raw["class_basis"] = b"".join(columns.pack_bits(c[0].basis) for c in choices if c)
    sections.write("class_sums", np.concatenate(values))


def read_classes(margins: Margins, sections: Sections, limit: int) -> tuple[Statistics, ...]:
    """The statistics of each class, unverified but for their form."""
    parts = [margins.of_class(place) for place in range(len(margins.class_names))]
    few = columns.unpack_bits(sections.read_raw("class_forms", -(-len(parts) // 8)), len(parts))
    if any(chosen and not columns.are_few(part) for part, chosen in zip(parts, few, strict=True)):
        raise WireError("a class of many samples comes by columns; expected its whole gram")
    sizes = [columns.basis_bytes(part) if c else 0 for part, c in zip(parts, few, strict=True)]
    raw, ends = sections.read_raw("class_basis", sum(sizes)), np.cumsum(sizes)
    choices = [
        columns.read_choice(part, raw[end - size : end], BASIS_PER_SPARE) if size else None
        for part, size, end in zip(parts, sizes, ends, strict=True)
    ]
    counts = [
        columns.value_count(part, choice) if choice else product_count(part)
        for part, choice in zip(parts, choices, strict=True)
    ]
    container.check_memory(class_bytes(parts, sum(counts)), parts[0].dim, limit)
    values = np.split(sections.read("class_sums", (sum(counts),)), np.cumsum(counts)[:-1])
    return tuple(map(_read_class, parts, choices, values))


def _read_class(
    part: Margins, choice: columns.Choice | None, values: NDArray[np.int64]
) -> Statistics:
    if choice is not None:
        return part.with_gram(columns.restore(part, choice, values))
    statistics = part.with_gram(read_products(part, values))
    if columns.choose(statistics, BASIS_PER_SPARE) is not None:
        raise WireError("a class's gram is not in the form that the format prescribes")
    return statistics


def class_bytes(parts: list[Margins], values: int) -> int:
    """Most memory that reading the grams of these classes, and multiplying them out, takes."""
    dim, working = parts[0].dim, max(columns.working_bytes(part) for part in parts)
    grams = 8 * triangle.packed_size(dim) * len(parts)
    return grams + 24 * values + 32 * dim * (len(parts) + dim) + working
