"""One reader and one writer for every kind of file; a kind declares its fields, no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from safle.basics.places import StrPath, naming
from safle.basics.settings import as_settings
from safle.errors import EncoderMismatch, LimitExceeded, SafleError, WireError
from safle.wire import container
from safle.wire.sections import Sections

Value = TypeVar("Value")


@dataclass(frozen=True)
class FileKind(Generic[Value]):
    """How values of one type are files: equal ones have equal bytes, bad bytes a `WireError`.

    Attributes
    ----------
    number : of the kind, in the file's prefix
    describe : writes a value's arrays into sections and returns the other fields of the header
    restore : a value from an opened file, and what else the reader was told
    """

    number: int
    describe: Callable[[Value, Sections], Mapping[str, Any]]
    restore: Callable[..., Value]

    @property
    def name(self) -> str:
        return container.KINDS[self.number]

    def encode(self, value: Value) -> bytes:
        """The bytes of a file.

        >>> import numpy as np
        >>> from safle import Grid, Histogram
        >>> from safle.wire import encode_histogram
        >>> encode_histogram(Histogram.of(np.array([[0.1], [0.7]]), Grid(0, 1, 4)))[1:6]
        b'SAFLE'
        """
        sections = Sections()
        fields = self.describe(value, sections)
        header = {"planes": sections.planes, **fields}
        return container.to_bytes(self.number, header, sections.raw)

    def open(
        self, data: bytes | memoryview, *, limit: int | None = None, **told: Any
    ) -> tuple[Value, str]:
        """A value from bytes, verified, and their digest: the identity of what was sent."""
        opened = container.from_bytes(data, kind=self.number, limit=limit)
        with typed_errors():
            return self.restore(opened, **told), opened.digest

    def decode(self, data: bytes | memoryview, **told: Any) -> Value:
        """A value from bytes, verified.

        >>> from safle.wire import decode_histogram
        >>> decode_histogram(b"a letter")
        Traceback (most recent call last):
            ...
        safle.errors.WireError: not a safle file: it does not begin with the safle signature
        """
        return self.open(data, **told)[0]

    def read(self, path: StrPath, *, limit: int | None = None, **told: Any) -> Value:
        """A value from a file, whose name errors begin with."""
        data = container.read_limited(path, limit=limit)
        with naming(path):
            return self.decode(data, limit=limit, **told)

    def write(self, path: StrPath, value: Value) -> None:
        """Write a file, atomically."""
        container.write_file(path, self.encode(value))


def read_header(kind: type[Value], opened: container.Container) -> Value:
    """The header of a file as ``kind``, a `msgspec.Struct` that forbids other fields."""
    return as_settings(kind, opened.header, where="the header: ", error=WireError)


@contextmanager
def typed_errors() -> Iterator[None]:
    """Whatever bad bytes raise is a `WireError`, but for another encoder's and unwanted ones."""
    try:
        yield
    except (WireError, EncoderMismatch, LimitExceeded):
        raise
    except (SafleError, MemoryError) as error:
        raise WireError(str(error)) from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise WireError(f"the header is not valid: {error!r}") from error
