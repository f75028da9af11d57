"""One reader and one writer for every type of file, and the integer arrays in their sections.

An array is sent as byte planes, as few as its values need: all lowest bytes first, then all next
ones. Signed values become unsigned before (0, -1, 1, -2 -> 0, 1, 2, 3). High planes are mostly zero
and compress to nothing, so no value needs an integer type of its own.

The header field ``planes`` counts half bytes per value, so two for each plane. If the number is
odd, the lowest plane holds half bytes: low bits are noise, which no compression shortens. The high
bits, which compress well, are then in one plane instead of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from safle.basics.atomic import write_bytes
from safle.basics.places import StrPath, naming
from safle.basics.settings import as_settings
from safle.errors import EncoderMismatch, LimitExceeded, SafleError, WireError
from safle.wire import container

VALUES_AT_A_TIME = 1 << 15
"""Values converted at a time: their copies stay in the cache, and take little memory."""
MOST_HALVES = 16
Value = TypeVar("Value")


@dataclass
class SectionWriter:
    """Sections of a file under construction; ``planes`` counts half bytes per value of an array."""

    raw: dict[str, bytes] = field(default_factory=dict)
    planes: dict[str, int] = field(default_factory=dict)

    def write(self, name: str, values: NDArray[np.integer[Any]]) -> None:
        """Add an array."""
        self.planes[name] = count_halves(values)
        self.raw[name] = to_planes(values, self.planes[name])


@dataclass
class SectionReader:
    """Sections of an opened file; ``planes`` counts half bytes per value of an array."""

    opened: container.Container
    planes: Mapping[str, Any]
    _arrays: set[str] = field(default_factory=set)

    def read(self, name: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """An array of this shape, int64."""
        halves = self.planes.get(name)
        self._arrays.add(name)
        if type(halves) is not int or not 1 <= halves <= MOST_HALVES:
            raise WireError(f"section {name!r} has {halves!r} half planes; expected 1..16")
        data = self.opened.section(name, value_bytes(halves) * prod(shape))
        values = from_planes(data, halves, shape)
        if count_halves(values) != halves:
            raise WireError(f"section {name!r} has more planes than its values need")
        return values

    def finish(self) -> None:
        """Check that the file holds what was read and no more, and has the digest it claims."""
        self.opened.finish()
        if {*self.planes} != self._arrays:
            arrays = ", ".join(sorted(self._arrays))
            raise WireError(f"the header has planes of other arrays; expected {arrays}")


@dataclass(frozen=True)
class FileType(Generic[Value]):
    """How values of one type become files: equal ones have equal bytes, bad bytes a `WireError`.

    ``describe`` writes a value's arrays into sections and returns the other fields of the header.
    """

    number: int
    describe: Callable[[Value, SectionWriter], Mapping[str, Any]]
    restore: Callable[..., Value]

    @property
    def name(self) -> str:
        return container.FILE_TYPES[self.number]

    def encode(self, value: Value) -> bytes:
        """The bytes of a file.

        >>> import numpy as np
        >>> from safle import Grid, Histogram
        >>> from safle.wire import encode_histogram
        >>> encode_histogram(Histogram.of(np.array([[0.1], [0.7]]), Grid(0, 1, 1, bins=4)))[1:6]
        b'SAFLE'
        """
        sections = SectionWriter()
        fields = self.describe(value, sections)
        header = {"planes": sections.planes, **fields}
        return container.to_bytes(self.number, header, sections.raw)

    def open(
        self, data: bytes | memoryview, *, limit: int | None = None, **options: Any
    ) -> tuple[Value, str]:
        """A value from bytes, verified, and their digest: the identity of what was sent."""
        opened = container.from_bytes(data, file_type=self.number, limit=limit)
        with typed_errors():
            return self.restore(opened, **options), opened.digest

    def decode(self, data: bytes | memoryview, **options: Any) -> Value:
        """A value from bytes, verified.

        >>> from safle.wire import decode_histogram
        >>> decode_histogram(b"a letter")
        Traceback (most recent call last):
            ...
        safle.errors.WireError: not a safle file: it does not begin with the safle signature
        """
        return self.open(data, **options)[0]

    def read(self, path: StrPath, *, limit: int | None = None, **options: Any) -> Value:
        """A value from a file; errors begin with the file's name."""
        data = container.read_limited(path, limit=limit)
        with naming(path):
            return self.decode(data, limit=limit, **options)

    def write(self, path: StrPath, value: Value) -> None:
        """Write a file, atomically."""
        write_bytes(path, self.encode(value))


def read_header(header_type: type[Value], opened: container.Container) -> Value:
    """The header of a file as ``header_type``, a `msgspec.Struct` that forbids other fields."""
    return as_settings(header_type, opened.header, where="the header: ", error=WireError)


@contextmanager
def typed_errors() -> Iterator[None]:
    """Turn errors into `WireError`, but for those of another encoder and of a limit."""
    try:
        yield
    except (WireError, EncoderMismatch, LimitExceeded):
        raise
    except (SafleError, MemoryError) as error:
        raise WireError(str(error)) from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise WireError(f"the header is not valid: {error!r}") from error


def count_halves(values: NDArray[np.integer[Any]]) -> int:
    """Half bytes that each value takes once it is unsigned, 1 to 16."""
    if not values.size:
        return 1
    low, high = int(values.min()), int(values.max())
    return max(1, ((2 * max(high, -low - 1) + 1).bit_length() + 3) // 4)


def value_bytes(halves: int) -> int:
    """Bytes that a value takes in a file: one in every plane."""
    return (halves + 1) // 2


def _integer_type(planes: int) -> type[np.signedinteger[Any]]:
    """The narrowest, and so fastest, integer type of at least ``planes`` bytes."""
    return np.int16 if planes <= 2 else np.int32 if planes <= 4 else np.int64


def to_planes(values: NDArray[np.integer[Any]], halves: int) -> bytes:
    """``halves`` half bytes of every value, made unsigned, plane after plane."""
    flat, planes = values.reshape(-1), value_bytes(halves)
    dtype = np.dtype(_integer_type(planes))
    result = np.empty((planes, len(flat)), np.uint8)
    for first in range(0, len(flat), VALUES_AT_A_TIME):
        wide = flat[first : first + VALUES_AT_A_TIME].astype(dtype)
        unsigned = ((wide << 1) ^ (wide >> 8 * dtype.itemsize - 1)) << 4 * (halves % 2)
        split = unsigned.astype(dtype.newbyteorder("<")).view(np.uint8).reshape(-1, dtype.itemsize)
        result[:, first : first + VALUES_AT_A_TIME] = split[:, :planes].T
    return result.tobytes()


def from_planes(data: bytes, halves: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The inverse of `to_planes`, int64, of ``shape``; `WireError` if half bytes are whole ones."""
    planes = value_bytes(halves)
    result = np.empty(int(np.prod(shape, dtype=np.int64)), np.int64)
    split = np.frombuffer(data, np.uint8).reshape(planes, len(result))
    for first in range(0, len(result), VALUES_AT_A_TIME):
        part = split[:, first : first + VALUES_AT_A_TIME]
        unsigned = part[0].astype(np.uint64)
        for plane in range(1, planes):
            unsigned |= part[plane].astype(np.uint64) << np.uint64(8 * plane)
        if halves % 2:
            if (part[0] & 15).any():
                raise WireError("a plane of half bytes holds whole bytes")
            unsigned >>= np.uint64(4)
        signs = -(unsigned & np.uint64(1)).view(np.int64)
        result[first : first + VALUES_AT_A_TIME] = (unsigned >> np.uint64(1)).view(np.int64) ^ signs
    return result.reshape(shape)
