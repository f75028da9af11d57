"""The index of a store: one checked line a change, appended and flushed, never rewritten.

A line is the CRC-32 of its text, a space, and the text: a JSON object. A kill at any moment
leaves whole lines and perhaps the beginning of one more, which does not count and is cut off
by the next writer. A whole line that does not match its checksum is damage, never a crash.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from safle._internal import atomic
from safle.errors import StoreError

MAX_FILE_BYTES = 1 << 28

Line = dict[str, Any]


def create_index(path: Path, header: Line) -> None:
    """A new index that holds its header, whole or not at all."""
    atomic.write_bytes(path, _to_bytes(header))


def read_index(path: Path) -> list[Line]:
    """All whole lines, the header first."""
    with path.open("rb") as file:
        return _parse(_content(file, path), path)[0]


class IndexWriter:
    """The one process that may change a store: it holds the index's lock while it lives.

    Attributes
    ----------
    lines : what the index held when it was opened, the header first
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("r+b")
        try:
            self._lock()
            self.lines, size = _parse(_content(self._file, path), path)
            self._file.truncate(size)
            self._file.seek(size)
        except BaseException:
            self._file.close()
            raise

    def append(self, line: Line) -> None:
        """Add a line; it is on the disk when this returns."""
        end = self._file.tell()
        try:
            self._file.write(_to_bytes(line))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            # A full disk must not leave half a line for the next one to follow.
            self._file.seek(end)
            self._file.truncate(end)
            error.filename = str(self._path)
            raise

    def close(self) -> None:
        """Give the lock back."""
        self._file.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(
                f"{self._path.parent}: another process is changing this store, perhaps a round "
                "that is under way; wait until it has finished"
            ) from None


def _to_bytes(line: Line) -> bytes:
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _content(file: BinaryIO, path: Path) -> bytes:
    size = os.fstat(file.fileno()).st_size
    if size > MAX_FILE_BYTES:
        raise StoreError(f"{path} has {size} bytes; an index has at most {MAX_FILE_BYTES}")
    return file.read(size)


def _parse(content: bytes, path: Path) -> tuple[list[Line], int]:
    """The whole lines, and how many bytes they fill."""
    *whole, _torn = content.split(b"\n")
    lines = [_line(text, number, path) for number, text in enumerate(whole, start=1)]
    return lines, sum(len(text) + 1 for text in whole)


def _line(content: bytes, number: int, path: Path) -> Line:
    checksum, _, text = content.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            raise ValueError("the checksum does not match")
        line = json.loads(text)
        if not isinstance(line, dict):
            raise ValueError("not a JSON object")
    except (ValueError, RecursionError) as error:
        raise StoreError(
            f"{path}: line {number} is damaged ({error}); bring the file back from a backup, or "
            "make a new store and add the contributions again"
        ) from error
    return line
