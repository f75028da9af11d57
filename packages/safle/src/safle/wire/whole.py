"""The whole gram on the wire: its expert blocks, its mixed rows and its dense triangle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import WireError
from safle.statistics.kernels import triangle
from safle.statistics.value import Margins, Statistics
from safle.wire.pairs import pack_pairs, plan, unpack_pairs
from safle.wire.sections import Sections


def write_gram(statistics: Statistics, sections: Sections) -> None:
    """Add the sections of a gram."""
    layout, dim, seen = statistics.layout, statistics.dim, len(statistics.codes)
    if layout.dense_dim:
        mixed = np.empty((seen, layout.dense_dim), statistics.gram.dtype)
        for row in range(seen):
            at = triangle.start(row, dim) + seen
            mixed[row] = statistics.gram[at : at + layout.dense_dim]
        sections.write("mixed", mixed)
        sections.write("dense", statistics.gram[-triangle.packed_size(layout.dense_dim) :])
    if seen:
        streams = plan(statistics.totals[:seen], statistics.offsets, statistics.sample_count)
        packed, overflows, excess = pack_pairs(statistics.gram, dim, streams)
        sections.raw["pairs"] = packed.tobytes()
        sections.write("overflows", overflows)
        sections.write("excess", excess)


def read_gram(margins: Margins, sections: Sections) -> NDArray[np.signedinteger[Any]]:
    """The packed gram; expert blocks unpacked from their margins cannot but have them."""
    layout, dim, seen = margins.layout, margins.dim, len(margins.codes)
    mixed = sections.read("mixed", (seen, layout.dense_dim)) if layout.dense_dim else None
    size = triangle.packed_size(layout.dense_dim)
    dense = sections.read("dense", (size,)) if layout.dense_dim else np.zeros(0, np.int64)
    diagonal = np.append(triangle.diagonal(dense, layout.dense_dim), margins.sample_count)
    dtype = triangle.entry_type(diagonal)
    gram: NDArray[np.signedinteger[Any]] = np.empty(triangle.packed_size(dim), dtype)
    if mixed is not None:
        # In Python's integers: the least of 64 bits has no absolute value in them.
        ends = [int(end) for x in (dense, mixed) for end in (x.min(initial=0), x.max(initial=0))]
        if max(map(abs, ends)) > np.iinfo(dtype).max:
            raise WireError("an entry is larger than the squares of its columns allow")
        for row in range(seen):
            at = triangle.start(row, dim) + seen
            gram[at : at + layout.dense_dim] = mixed[row]
        gram[-size:] = dense
    if seen:
        _read_pairs(margins, sections, gram)
    return gram


def _read_pairs(margins: Margins, sections: Sections, gram: NDArray[np.signedinteger[Any]]) -> None:
    seen, n, totals = len(margins.codes), margins.sample_count, margins.totals[: len(margins.codes)]
    streams = plan(totals, margins.offsets, n)
    pairs = np.frombuffer(sections.read_raw("pairs", streams.size), np.uint8)
    overflows = sections.read("overflows", (len(streams.rows.kept),))
    # A row overflows at most once a column: the bound keeps the sum from wrapping.
    if ((overflows < 0) | (overflows > seen)).any():
        raise WireError("a row holds an impossible number of excess entries")
    excess = sections.read("excess", (int(overflows.sum()),))
    if ((excess < 0) | (excess > n)).any():
        raise WireError("an entry exceeds the sample count")
    rows = np.arange(seen)
    gram[triangle.start(rows, margins.dim) + rows] = totals
    if not unpack_pairs(
        gram, margins.dim, streams, margins.offsets, totals, pairs, overflows, excess
    ):
        raise WireError("the pair counts do not fit their margins")
