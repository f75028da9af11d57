"""Statistics <-> bytes. What the algebra determines is not sent, and what is sent is verified."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._internal.memory import readable, require
from safle.encoders.codes import Layout
from safle.encoders.features import ClassName, as_class_names
from safle.errors import InvalidInput, InvariantError, SettingsError, WireError
from safle.statistics import Accumulator, Statistics
from safle.statistics.invariants import verify
from safle.statistics.kernels import triangle
from safle.wire import container
from safle.wire.pairs import pack_pairs, plan, unpack_pairs
from safle.wire.planes import from_planes, plane_count, to_planes


def encode_statistics(statistics: Statistics) -> bytes:
    """The bytes of a statistics file: equal statistics give equal bytes."""
    layout, seen = statistics.layout, len(statistics.codes)
    header: dict[str, Any] = {
        "fingerprint": statistics.fingerprint,
        "layout": layout.to_json(),
        "classes": list(statistics.class_names),
        "seen": seen,
        "planes": {},
    }
    bitmap = np.zeros(layout.code_count, np.bool_)
    bitmap[statistics.codes] = True
    sections = {"codes": np.packbits(bitmap, bitorder="little").tobytes()}
    arrays = {"counts": statistics.class_counts, "cross": statistics.cross}
    if layout.dense_dim:
        arrays["mixed"] = _mixed_rows(statistics.gram, statistics.dim, seen)
        arrays["dense"] = statistics.gram[-triangle.packed_size(layout.dense_dim) :]
    if seen:
        streams = plan(statistics.diagonal[:seen], statistics.offsets, statistics.sample_count)
        packed, overflows, excess = pack_pairs(statistics.gram, statistics.dim, streams)
        sections["pairs"] = packed.tobytes()
        arrays |= {"overflows": overflows, "excess": excess}
    for name, array in arrays.items():
        header["planes"][name] = plane_count(array)
        sections[name] = to_planes(array, header["planes"][name])
    return container.to_bytes(container.STATISTICS, header, sections)


def write_statistics(path: str | os.PathLike[str], statistics: Statistics) -> None:
    """Write a statistics file, atomically."""
    container.write_file(path, encode_statistics(statistics))


def decode_statistics(
    data: bytes | memoryview,
    *,
    fingerprint: str | None = None,
    limit: int = container.DEFAULT_LIMIT,
) -> Statistics:
    """Statistics from bytes, verified; `WireError` and nothing else for bad ones.

    Parameters
    ----------
    fingerprint : refuse other encoders before anything large is unfolded
    limit : most bytes the file may unfold to
    """
    opened = container.from_bytes(data, kind=container.STATISTICS, limit=limit)
    return from_container(opened, fingerprint=fingerprint, limit=limit)


@dataclass(frozen=True)
class Added:
    """What a contribution brought.

    Attributes
    ----------
    digest : of the statistics; the contribution's identity
    """

    digest: str
    sample_count: int
    class_names: tuple[ClassName, ...]


def add_contribution(
    total: Accumulator, data: bytes | memoryview, *, limit: int = container.DEFAULT_LIMIT
) -> Added:
    """Verify a contribution's bytes and add them; a refused one changes nothing.

    Raises
    ------
    WireError
        The bytes are not statistics of the same encoder that any data set could have.
    """
    opened = container.from_bytes(data, kind=container.STATISTICS, limit=limit)
    statistics = from_container(opened, fingerprint=total.fingerprint, limit=limit)
    total.add(statistics)
    return Added(opened.digest, statistics.sample_count, statistics.class_names)


def read_statistics(
    path: str | os.PathLike[str],
    *,
    fingerprint: str | None = None,
    limit: int = container.DEFAULT_LIMIT,
) -> Statistics:
    """Read a statistics file; see `decode_statistics`."""
    opened = container.read_file(path, kind=container.STATISTICS, limit=limit)
    try:
        return from_container(opened, fingerprint=fingerprint, limit=limit)
    except WireError as error:
        raise WireError(f"{path}: {error}") from error


def from_container(
    opened: container.Container,
    *,
    fingerprint: str | None,
    limit: int,
) -> Statistics:
    """Statistics from an opened container; their digest is the contribution's identity."""
    try:
        statistics = _restore(opened, fingerprint, limit)
        # Blocks unpacked from their margins cannot but have them.
        verify(statistics, pairs=False)
        opened.finish()
    except (InvariantError, InvalidInput, SettingsError, MemoryError) as error:
        raise WireError(str(error)) from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(f"the header is not valid: {error!r}") from error
    return statistics


def _restore(opened: container.Container, fingerprint: str | None, limit: int) -> Statistics:
    header = opened.header
    found = header["fingerprint"]
    if type(found) is not str or len(found) != 64 or set(found) - set("0123456789abcdef"):
        raise WireError("the fingerprint is not 64 hexadecimal digits")
    if fingerprint is not None and found != fingerprint:
        raise WireError(
            f"counted with encoder {found[:12]}…, this federation uses {fingerprint[:12]}…; "
            "give the client that encoder file and count again"
        )
    layout = Layout.from_json(header["layout"])
    classes = header["classes"]
    if not isinstance(classes, list) or as_class_names(classes) != tuple(classes):
        raise WireError("the class names are not a list in ascending order")
    _check_header(opened, layout)
    _check_memory(layout, header["seen"], len(classes), limit)
    codes = _read_codes(opened, layout)
    dim = len(codes) + layout.dense_dim
    counts = _read_planes(opened, "counts", (len(classes),))
    cross = _read_planes(opened, "cross", (dim, len(classes)))
    gram = np.empty(triangle.packed_size(dim), layout.gram_type)
    statistics = Statistics(found, layout, codes, gram, cross, tuple(classes), counts)
    _fill_gram(opened, statistics)
    return statistics


def _check_header(opened: container.Container, layout: Layout) -> None:
    """Exactly the fields and sections that statistics of this layout have."""
    header, seen = opened.header, opened.header["seen"]
    if set(header) != {"fingerprint", "layout", "classes", "seen", "planes"}:
        raise WireError("the header does not hold exactly the fields of statistics")
    if type(seen) is not int or not 0 <= seen <= layout.code_count:
        raise WireError(f"{seen!r} seen codes of {layout.code_count}")
    if layout.to_json() != header["layout"]:
        raise WireError("the layout is not written in its shortest form")
    expected = {
        "codes": True,
        "pairs": seen > 0,
        "counts": True,
        "cross": True,
        "mixed": layout.dense_dim > 0,
        "dense": layout.dense_dim > 0,
        "overflows": seen > 0,
        "excess": seen > 0,
    }
    names = [name for name, needed in expected.items() if needed]
    if list(opened.frames) != names or set(header["planes"]) != set(names) - {"codes", "pairs"}:
        raise WireError(f"expected just the sections {', '.join(names)}")


def _check_memory(layout: Layout, seen: int, class_count: int, limit: int) -> None:
    dim = seen + layout.dense_dim
    gram = triangle.packed_size(dim) * np.dtype(layout.gram_type).itemsize
    numbers = dim * class_count + seen * layout.dense_dim
    size = gram + 8 * numbers
    if size > limit:
        raise WireError(f"its sums take {readable(size)}; the limit is {readable(limit)}")
    # Unfolding planes takes a few copies.
    require(
        gram + 48 * numbers,
        purpose=f"a gram of {dim} rows and {class_count} classes",
        advice="read it on a larger machine",
    )


def _fill_gram(opened: container.Container, statistics: Statistics) -> None:
    layout, dim, seen = statistics.layout, statistics.dim, len(statistics.codes)
    # The value is frozen once it is made; until then its gram is filled in place.
    gram = statistics.gram
    gram.setflags(write=True)
    if seen:
        _fill_pairs(opened, statistics, gram)
    if layout.dense_dim:
        gram[-triangle.packed_size(layout.dense_dim) :] = _read_planes(
            opened, "dense", (triangle.packed_size(layout.dense_dim),)
        )
        mixed = _read_planes(opened, "mixed", (seen, layout.dense_dim))
        for row in range(seen):
            at = triangle.start(row, dim) + seen
            gram[at : at + layout.dense_dim] = mixed[row]
    gram.setflags(write=False)


def _fill_pairs(
    opened: container.Container, statistics: Statistics, gram: NDArray[np.signedinteger[Any]]
) -> None:
    seen, n = len(statistics.codes), statistics.sample_count
    offsets, cross = statistics.offsets, statistics.cross[:seen]
    diagonal = cross.sum(axis=1)
    if not 0 < n <= statistics.layout.most_samples or cross.min() < 0 or diagonal.min() < 1:
        raise WireError("the code counts are not those of any data set")
    if (np.diff(offsets) < 1).any() or (np.add.reduceat(diagonal, offsets[:-1]) != n).any():
        raise WireError("the code counts of an expert do not add up to the sample count")
    streams = plan(diagonal, offsets, n)
    pairs = np.frombuffer(opened.section("pairs", streams.size), np.uint8)
    overflows = _read_planes(opened, "overflows", (len(streams.kept),))
    # A row overflows at most once a column: the bound keeps the sum from wrapping.
    if ((overflows < 0) | (overflows > seen)).any():
        raise WireError("a row holds an impossible number of excess entries")
    excess = _read_planes(opened, "excess", (int(overflows.sum()),))
    if ((excess < 0) | (excess > n)).any():
        raise WireError("an entry exceeds the sample count")
    rows = np.arange(seen)
    gram[triangle.start(rows, statistics.dim) + rows] = diagonal
    if not unpack_pairs(gram, statistics.dim, streams, offsets, diagonal, pairs, overflows, excess):
        raise WireError("the pair counts do not fit their margins")


def _read_codes(opened: container.Container, layout: Layout) -> NDArray[np.int64]:
    bitmap = np.frombuffer(opened.section("codes", -(-layout.code_count // 8)), np.uint8)
    # Counted first: the header's number is within the limit, the bitmap's might not be.
    if int(np.bitwise_count(bitmap).sum(dtype=np.int64)) != opened.header["seen"]:
        raise WireError("the bitmap of seen codes does not match its count")
    codes = np.flatnonzero(np.unpackbits(bitmap, bitorder="little"))
    if len(codes) and codes[-1] >= layout.code_count:
        raise WireError("the bitmap of seen codes does not match its count")
    return codes.astype(np.int64)


def _read_planes(
    opened: container.Container, name: str, shape: tuple[int, ...]
) -> NDArray[np.int64]:
    planes = opened.header["planes"][name]
    if type(planes) is not int or not 1 <= planes <= 8:
        raise WireError(f"section {name!r} has {planes!r} planes; expected 1..8")
    count = int(np.prod(shape, dtype=object))
    values = from_planes(opened.section(name, planes * count), planes, shape)
    if plane_count(values) != planes:
        raise WireError(f"section {name!r} has more planes than its values need")
    return values


def _mixed_rows(gram: NDArray[Any], dim: int, seen: int) -> NDArray[Any]:
    rows = np.empty((seen, dim - seen), gram.dtype)
    for row in range(seen):
        at = triangle.start(row, dim) + seen
        rows[row] = gram[at : at + dim - seen]
    return rows
