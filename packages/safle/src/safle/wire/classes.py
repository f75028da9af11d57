"""The grams of classes on the wire, one after the other: by columns, or as a triangle.

A class's class sums and count are its products with the constant column: so these are not sent
again, and a class of one sample needs nothing more than its sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safle.errors import WireError
from safle.statistics.kernels import triangle
from safle.statistics.value import Margins, Statistics
from safle.wire import columns, container
from safle.wire.sections import Sections

BASIS_PER_SPARE = 32
"""A class has few samples: eight columns to spare would be many beside its own."""


def write_classes(statistics: Statistics, sections: Sections) -> None:
    """Add the sections of all classes."""
    choices = [columns.choose(part, BASIS_PER_SPARE) for part in statistics.by_class]
    few = np.array([choice is not None for choice in choices], np.bool_)
    values = [
        _free_triangle(part) if choice is None else columns.to_values(part, *choice)
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
        columns.value_count(part, choice) if choice else triangle.packed_size(len(_free(part)))
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
    statistics = part.with_gram(_fill_triangle(part, values))
    if columns.choose(statistics, BASIS_PER_SPARE) is not None:
        raise WireError("a class's gram is not in the form that the format prescribes")
    return statistics


def class_bytes(parts: list[Margins], values: int) -> int:
    """Most memory that reading the grams of these classes, and multiplying them out, takes."""
    dim, working = parts[0].dim, max(columns.working_bytes(part) for part in parts)
    grams = 8 * triangle.packed_size(dim) * len(parts)
    return grams + 24 * values + 32 * dim * (len(parts) + dim) + working


def _free(part: Margins) -> NDArray[np.int64]:
    """Columns that are not constant: int64, ascending."""
    return np.setdiff1d(np.arange(part.dim), part.layout.constants)


def _free_triangle(part: Statistics) -> NDArray[np.int64]:
    """The upper triangle of a class's gram, without constants, row by row."""
    free = part.gram_square()[np.ix_(_free(part), _free(part))]
    return free[np.triu_indices(len(free))]


def _fill_triangle(part: Margins, values: NDArray[np.int64]) -> NDArray[np.signedinteger]:
    """The packed gram: `_free_triangle`, and the constants' products, which are totals."""
    free, square = _free(part), np.zeros((part.dim, part.dim), np.int64)
    rows, others = np.triu_indices(len(free))
    square[free[rows], free[others]] = values
    for column in part.layout.constants:
        products = part.layout.dense_scales[column] * part.totals
        square[: column + 1, column] = products[: column + 1]
        square[column, column:] = products[column:]
    packed = square[np.triu_indices(part.dim)]
    dtype = triangle.entry_type(square.diagonal())
    if packed.max() > np.iinfo(dtype).max or packed.min() < -np.iinfo(dtype).max:
        raise WireError("an entry is larger than the squares of its columns allow")
    return packed.astype(dtype)
