"""The container of every safle file that is sent: magic, version, digest, header, sections.

Byte by byte in docs/wire-format.md. Reading checks every size against the file,
the limit and the shapes in the header before it allocates memory.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from math import prod
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from safle.basics.memory import most_memory, over_limit, require_free_memory
from safle.basics.paths import StrPath, as_path, naming, open_regular
from safle.errors import WireError
from safle.wire.planes import MAX_PLANES, count_planes, from_planes

MAGIC = b"\x89SAFLE\r\n"
VERSION = 4
STATISTICS, HISTOGRAM, ROUND, MASKED, MASKED_SUM, REQUEST, ANSWER, NOISY, EVALUATION = range(1, 10)
FILE_TYPES = {
    STATISTICS: "statistics",
    HISTOGRAM: "histogram",
    ROUND: "private round",
    MASKED: "masked contribution",
    MASKED_SUM: "masked sum",
    REQUEST: "request to keyholders",
    ANSWER: "keyholder's answer",
    NOISY: "noisy statistics",
    EVALUATION: "evaluation counts",
}
"""Numbers of other packages' types begin with 1000; `type_name` finds their names."""
MAX_HEADER_BYTES = 1 << 20
MAX_RAW_BYTES = 1 << 62
COMPRESSION = zstandard.ZstdCompressionParameters(
    window_log=17, hash_log=8, min_match=7, strategy=zstandard.STRATEGY_FAST
)
"""Sequences of bytes rarely repeat, but some bytes are far more frequent than others: a compressor
that hardly searches for repeats is faster than level 1, and its output is smaller."""

_PREFIX = struct.Struct("<8sHHI32s")
_SEAL_BYTES = 32


@dataclass
class Container:
    """A sealed file: its header, and sections that are decompressed when their size is known.

    Attributes
    ----------
    digest : of header and sections, as the file declares it; `finish` checks it
    frames : compressed section and raw size by name, in the order of the file
    limit : most bytes that reading the file may take
    reserved : bytes that reading takes, as far as the reader has reserved them
    """

    file_type: int
    header: dict[str, Any]
    digest: str
    text: bytes
    frames: dict[str, tuple[memoryview, int]]
    limit: int
    reserved: int = 0
    _sections: dict[str, bytes] = field(default_factory=dict)
    _arrays: set[str] = field(default_factory=set)

    @property
    def raw_bytes(self) -> int:
        """The size of all sections, decompressed."""
        return sum(raw for _, raw in self.frames.values())

    def reserve(self, size: int, content: str) -> None:
        """Refuse if ``size`` more bytes for ``content`` exceed the limit or the free memory."""
        self.reserved += size
        if self.reserved > self.limit:
            raise WireError(f"reading {content} takes {over_limit(self.reserved, self.limit)}")
        require_free_memory(
            self.reserved, purpose=f"reading {content}", advice="read it on a larger machine"
        )

    def section(self, name: str, size: int) -> bytes:
        """A section that must have exactly ``size`` raw bytes; no other is decompressed."""
        frame, raw = self.frames.get(name, (None, None))
        if frame is None or raw != size:
            length = "none" if frame is None else f"{raw} bytes"
            raise WireError(f"section {name!r} has {length}; its header implies {size} bytes")
        self._sections[name] = _decompress(frame, size, name)
        return self._sections[name]

    def array(self, name: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """An array of this shape, int64; the header's ``planes`` are bytes for each value."""
        planes = self._planes.get(name)
        if type(planes) is not int or not 1 <= planes <= MAX_PLANES:
            raise WireError(f"section {name!r} has {planes!r} planes; expected 1..{MAX_PLANES}")
        self._arrays.add(name)
        data = self.section(name, planes * prod(shape))
        values = from_planes(data, planes, shape)
        if count_planes(values) != planes:
            raise WireError(f"section {name!r} has more planes than its values need")
        return values

    @property
    def _planes(self) -> dict[str, Any]:
        found = self.header.get("planes", {})
        if not isinstance(found, dict):
            raise WireError("the header's planes are not a map from names to numbers")
        return found

    def finish(self) -> None:
        """Check that the file holds what was read, in that order, and has the digest it claims."""
        if {*self._planes} != self._arrays:
            arrays = ", ".join(sorted(self._arrays))
            raise WireError(f"the header has planes of other arrays; expected {arrays}")
        if list(self.frames) != list(self._sections):
            raise WireError(f"the file has other sections; expected {', '.join(self._sections)}")
        if _digest(self.file_type, self.text, self._sections.values()).hex() != self.digest:
            raise WireError("the digest in the file is not that of its content")


def canonical(header: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """The one text of a header: equal headers have equal bytes."""
    return json.dumps(
        header, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def _digest(file_type: int, header: bytes, sections: Iterable[bytes]) -> bytes:
    """SHA-256 over the uncompressed content: no compressor's version can change it."""
    digest = hashlib.sha256(struct.pack("<HHI", VERSION, file_type, len(header)) + header)
    for content in sections:
        digest.update(content)
    return digest.digest()


def _compress(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(compression_params=COMPRESSION).compress(content)


def to_bytes(file_type: int, header: Mapping[str, Any], sections: Mapping[str, bytes]) -> bytes:
    """A file's bytes; the section table is added to the header."""
    table = [[name, len(content)] for name, content in sections.items()]
    text = canonical({**header, "sections": table})
    if len(text) > MAX_HEADER_BYTES:
        raise WireError(f"the header has {len(text)} bytes; expected at most {MAX_HEADER_BYTES}")
    # Both release the GIL: the digest is computed while the sections are compressed.
    with ThreadPoolExecutor(2) as threads:
        digest = threads.submit(_digest, file_type, text, sections.values())
        packed = list(threads.map(_compress, sections.values()))
    sizes = struct.pack(f"<{len(packed)}Q", *map(len, packed))
    prefix = _PREFIX.pack(MAGIC, VERSION, file_type, len(text), digest.result())
    body = b"".join([prefix, text, sizes, *packed])
    return body + hashlib.sha256(body).digest()


def from_bytes(data: bytes | memoryview, *, file_type: int, limit: int | None = None) -> Container:
    """Check a file's bytes and open them; `WireError` for anything but a whole file."""
    view = memoryview(data)
    limit = most_memory(limit)
    header_size, digest = _check_prefix(view, file_type, limit)
    view = _check_seal(view)
    at = _PREFIX.size + header_size
    text = bytes(view[_PREFIX.size : at])
    header, table = _parse_header(text)
    raw_total = sum(size for _, size in table)
    if raw_total > limit:
        raise WireError(f"the file decompresses to {over_limit(raw_total, limit)}")
    if len(view) < at + 8 * len(table):
        raise WireError("the file ends inside its section table")
    sizes = struct.unpack_from(f"<{len(table)}Q", view, at)
    at += 8 * len(table)
    if at + sum(sizes) != len(view):
        raise WireError(
            f"the sections fill {len(view) - at} bytes; the section table says {sum(sizes)}"
        )
    frames = {}
    for (name, raw), size in zip(table, sizes, strict=True):
        frames[name] = (view[at : at + size], raw)
        at += size
    return Container(file_type, header, digest.hex(), text, frames, limit)


def read_head(path: StrPath, *, file_type: int) -> tuple[dict[str, Any], str]:
    """A file's header and the digest that it declares; nothing is checked but their form."""
    with _naming_missing(path), open_regular(path) as file:
        start = file.read(_PREFIX.size)
        if len(start) < _PREFIX.size:
            raise WireError(f"{path}: the file ends inside its first bytes")
        size = os.fstat(file.fileno()).st_size
        with naming(path):
            header_size, digest = _read_prefix(start, size, file_type)
            header, _ = _parse_header(file.read(header_size))
    return header, digest.hex()


def _check_prefix(view: memoryview, file_type: int, limit: int) -> tuple[int, bytes]:
    if len(view) > limit:
        raise WireError(f"the file has {over_limit(len(view), limit)}")
    return _read_prefix(view[: _PREFIX.size], len(view), file_type)


def _read_prefix(start: bytes | memoryview, size: int, file_type: int) -> tuple[int, bytes]:
    """Size of the header and declared digest, from the first bytes of a file of ``size`` bytes."""
    if len(start) < _PREFIX.size or bytes(start[: len(MAGIC)]) != MAGIC:
        raise WireError("not a safle file: it does not begin with the safle signature")
    _, version, found, header_size, digest = _PREFIX.unpack_from(start)
    if version != VERSION:
        raise WireError(f"wire version {version}; this safle reads version {VERSION}: upgrade it")
    if found != file_type:
        name = type_name(found) or f"type {found}"
        raise WireError(f"this is a {name} file; expected {type_name(file_type)}")
    if header_size > MAX_HEADER_BYTES or _PREFIX.size + header_size + _SEAL_BYTES > size:
        raise WireError(f"the header claims {header_size} bytes, more than the file has")
    return header_size, digest


def _check_seal(view: memoryview) -> memoryview:
    """The file without its last 32 bytes, which are the SHA-256 of all before them."""
    body = view[:-_SEAL_BYTES]
    seal = view[-_SEAL_BYTES:]
    if hashlib.sha256(body).digest() != bytes(seal):
        raise WireError("the file's checksum does not match: it was cut off, damaged or altered")
    return body


def _parse_header(text: bytes) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    try:
        header = json.loads(text)
        is_canonical = canonical(header) == text
        table = [(name, size) for name, size in header.pop("sections")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise WireError("the header is not valid") from error
    if not is_canonical:
        # Two texts of one header would be two identities of one contribution.
        raise WireError("the header is not written as the format says: sorted, without spaces")
    names = [name for name, _ in table]
    for name, size in table:
        if type(name) is not str or type(size) is not int or not 0 <= size <= MAX_RAW_BYTES:
            raise WireError("the section table does not hold pairs of a name and a size")
    if len(set(names)) != len(names):
        raise WireError("the section table names a section twice")
    return header, table


def _decompress(frame: memoryview, raw: int, name: str) -> bytes:
    try:
        declared = zstandard.frame_content_size(frame)
        if declared != raw:
            raise WireError(f"section {name!r} declares {declared} bytes, the header {raw}")
        result = zstandard.ZstdDecompressor().decompress(
            frame, max_output_size=raw, allow_extra_data=False
        )
    except (zstandard.ZstdError, MemoryError, ValueError) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(f"section {name!r} cannot be decompressed: {error}") from error
    return result


def read_limited(path: StrPath, *, limit: int | None = None) -> bytes:
    """A file's bytes; `WireError` if they exceed the limit."""
    file = as_path(path)
    with _naming_missing(path):
        size = file.stat().st_size
    if size > most_memory(limit):
        raise WireError(f"{path} has {over_limit(size, most_memory(limit))}")
    with open_regular(path) as opened:
        return opened.read()


def peek_file_type(path: StrPath) -> str | None:
    """The type of a safle wire file, from its first bytes; None for any other file.

    >>> peek_file_type(__file__) is None
    True
    """
    with _naming_missing(path), open_regular(path) as file:
        start = file.read(_PREFIX.size)
    if len(start) < _PREFIX.size or not start.startswith(MAGIC):
        return None
    return type_name(_PREFIX.unpack(start)[2])


def type_name(number: int) -> str | None:
    """The name of a type of file; of a type that safle does not have, by the installed formats."""
    if number in FILE_TYPES:
        return FILE_TYPES[number]
    formats = entry_points(group="safle.formats")
    return next((entry.name for entry in formats if entry.load().number == number), None)


@contextmanager
def _naming_missing(path: StrPath) -> Iterator[None]:
    """Put the path into the error of a missing file, also for an address such as s3://."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error


def declared_digest(data: bytes) -> str:
    """The digest that a file's bytes declare, unchecked: for bytes that were just made."""
    return str(_PREFIX.unpack_from(data)[4].hex())
