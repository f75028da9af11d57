"""File formats: one per type of value, and four functions that work for all of them.

`encode`, `decode`, `read` and `write` find the format of a value by its ``format``, a name. Other
rooms and houses add formats by entry points in the group ``safle.formats``: the name of a type of
file, which is the ``format`` of its values, and a `FileFormat`. A value that adds up, in a module
of its own, is in tests/support/toy_summable.py: copy it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from safle.basics.atomic import write_bytes
from safle.basics.paths import StrPath, naming
from safle.basics.settings import as_settings
from safle.errors import (
    EncoderMismatch,
    InvalidInput,
    LimitExceeded,
    MissingExtra,
    SafleError,
    WireError,
)
from safle.tables.checks import ClassName
from safle.wire import container as container
from safle.wire.planes import count_planes, to_planes

if TYPE_CHECKING:
    from safle.statistics.statistics import Statistics

FORMATS = {"statistics": "safle.wire.statistics", "histogram": "safle.wire.histogram"}
"""The formats of this room, and their modules; each module has a ``FORMAT``."""
HOUSE = "safle-private"
"""The package with the formats that the core lacks."""
Value = TypeVar("Value")
Sections = Mapping[str, bytes | NDArray[np.integer[Any]]]
Admit = Callable[[tuple[ClassName, ...]], None]
"""Gets the class names of a file before its arrays are unpacked; refuses by a `SafleError`."""


@dataclass(frozen=True)
class FileFormat(Generic[Value]):
    """Reader and writer of one type of file.

    Equal values give equal bytes; invalid bytes raise `WireError`.

    Attributes
    ----------
    number : of the type in the container
    describe : a value as the fields of a header and as sections; arrays are sent as planes
    restore : a value from an opened file, verified. For values that add up it takes ``admit`` (see
        `Admit`), and ``like``, a value of no samples: what does not go with it is refused before
        arrays are unpacked
    value_type : of values that add up, a `safle.statistics.Summable`; None for all others
    """

    number: int
    describe: Callable[[Value], tuple[Mapping[str, Any], Sections]]
    restore: Callable[..., Value]
    value_type: type[Value] | None = None

    @property
    def name(self) -> str:
        return str(container.type_name(self.number))

    def encode(self, value: Value) -> bytes:
        """The bytes of a file."""
        fields, sections = self.describe(value)
        raw: dict[str, bytes] = {}
        planes: dict[str, int] = {}
        for name, content in sections.items():
            if isinstance(content, bytes):
                raw[name] = content
            else:
                planes[name] = count_planes(content)
                raw[name] = to_planes(content, planes[name])
        return container.to_bytes(self.number, {"planes": planes, **fields}, raw)

    def open(
        self, data: bytes | memoryview, *, limit: int | None = None, **options: Any
    ) -> tuple[Value, str]:
        """A value from bytes, verified, and their digest: the identity of what was sent."""
        opened = container.from_bytes(data, file_type=self.number, limit=limit)
        with typed_errors():
            return self.restore(opened, **options), opened.digest


def format_named(name: str) -> FileFormat[Any]:
    """Reader and writer of a type of file; a `SafleError` if its package is not installed.

    >>> format_named("evaluation counts").name
    'evaluation counts'
    """
    if name in FORMATS:
        return import_module(FORMATS[name]).FORMAT
    for entry in entry_points(group="safle.formats", name=name):
        return entry.load()
    if name not in container.FILE_TYPES.values():
        raise InvalidInput(f"no format {name[:40]!r}; expected one of an installed package")
    raise MissingExtra(HOUSE, HOUSE, f"a file of type {name!r}")


def encode(value: Any) -> bytes:
    """The bytes of a file of any value with a format: equal values have equal bytes.

    >>> import numpy as np
    >>> from safle import Histogram
    >>> zero = Histogram.empty(0, 1, feature_dim=1, bins=4)
    >>> encode(zero.count(np.array([[0.1], [0.7]])))[1:6]
    b'SAFLE'
    """
    name = getattr(value, "format", None)
    if not isinstance(name, str):
        raise InvalidInput(
            f"a {type(value).__name__} cannot be written to a file; expected statistics, "
            "a histogram or evaluation counts"
        )
    return format_named(name).encode(value)


@overload
def decode(data: bytes | memoryview, *, limit: int | None = None, **options: Any) -> Statistics: ...
@overload
def decode(
    data: bytes | memoryview, value_type: type[Value], *, limit: int | None = None, **options: Any
) -> Value: ...
@overload
def decode(
    data: bytes | memoryview, value_type: str, *, limit: int | None = None, **options: Any
) -> Any: ...
def decode(
    data: bytes | memoryview,
    value_type: Any = "statistics",
    *,
    limit: int | None = None,
    **options: Any,
) -> Any:
    """A value from bytes, verified; invalid bytes raise `WireError`, and no other error.

    Parameters
    ----------
    value_type : a type such as `Histogram` or `Evaluation`, or the name of its format
    limit : most bytes that reading may take; 2 GiB, or what ``SAFLE_MOST_MEMORY`` says
    options : ``space``, the expected code space of statistics; any other is refused before arrays
        are unpacked

    Examples
    --------
    >>> from safle import LinearEncoder, count, declared_range
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=2))
    >>> data = encode(count(encoder, [[0.1, 0.9]], ["ill"]))
    >>> decode(data, space=encoder.space).class_names
    ('ill',)
    >>> decode(b"a letter")
    Traceback (most recent call last):
        ...
    safle.errors.WireError: not a safle file: it does not begin with the safle signature
    """
    name = value_type if isinstance(value_type, str) else value_type.format
    return format_named(name).open(data, limit=limit, **options)[0]


@overload
def read(path: StrPath, *, limit: int | None = None, **options: Any) -> Statistics: ...
@overload
def read(
    path: StrPath, value_type: type[Value], *, limit: int | None = None, **options: Any
) -> Value: ...
@overload
def read(path: StrPath, value_type: str, *, limit: int | None = None, **options: Any) -> Any: ...
def read(
    path: StrPath, value_type: Any = "statistics", *, limit: int | None = None, **options: Any
) -> Any:
    """Read a file, verified; parameters as of `decode`. Errors begin with the file's name.

    Examples
    --------
    >>> import tempfile
    >>> from safle import LinearEncoder, count, declared_range
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> sent = count(encoder, [[0.2], [0.7]], ["ill", "well"])
    >>> with tempfile.NamedTemporaryFile(suffix=".stats") as file:
    ...     write(file.name, sent)
    ...     read(file.name, space=encoder.space) == sent
    True
    >>> read("nowhere.stats")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.stats'
    """
    data = container.read_limited(path, limit=limit)
    with naming(path):
        return decode(data, value_type, limit=limit, **options)


def write(path: StrPath, value: Any) -> None:
    """Write the file of a value, atomically: the inverse of `read`.

    >>> from safle import Evaluation
    >>> write("nowhere/a.eval", Evaluation.empty("0" * 64, ["ill", "well"]))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] no such directory: 'nowhere'
    """
    write_bytes(path, encode(value))


def read_header(header_type: type[Value], opened: container.Container) -> Value:
    """The header of a file as ``header_type``, a `msgspec.Struct` that forbids other fields."""
    return as_settings(header_type, opened.header, where="the header: ", error=WireError)


@contextmanager
def typed_errors() -> Iterator[None]:
    """Turn errors into `WireError`, except those of another encoder and of a limit."""
    try:
        yield
    except (WireError, EncoderMismatch, LimitExceeded):
        raise
    except (SafleError, MemoryError) as error:
        raise WireError(str(error)) from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise WireError(f"the header is not valid: {error!r}") from error
