"""Journals: files of rows that are added and never changed, one JSON object per line.

    {"time":"...","event":"sent",...,"check":"<first 16 hexadecimal digits of a SHA-256>"}

``check`` is the digest of the line without it: it shows a line that was damaged or edited, but not
lines that were removed whole. A kill may leave half a line at the end: readers pass over it, and
the next row takes its place. Logs, ledgers and histories are such files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from safle.basics.atomic import check_place, flush
from safle.basics.paths import StrPath, open_regular
from safle.basics.texts import printable
from safle.errors import InvalidInput, StoreError

MAX_TEXT = 500
SECONDS_TO_WAIT = 60.0
"""For another process that is adding a row, which takes moments."""
Row = dict[str, Any]


def now() -> str:
    """The time in UTC, as rows hold it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def append_row(path: StrPath, row: Mapping[str, Any]) -> None:
    """Add a row, on the disk when this returns; the caller holds a lock (see `locked`).

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     append_row(f"{folder}/log.jsonl", {"event": "sent", "who": "me"})
    ...     append_row(f"{folder}/log.jsonl", {"event": "sent", "who": "you"})
    ...     [row["who"] for row in read_rows(f"{folder}/log.jsonl")]
    ['me', 'you']
    """
    try:
        place = check_place(path)
        is_new = not place.exists()
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _write_line(descriptor, _line_of(row))
        finally:
            os.close(descriptor)
        if is_new:
            flush(place.parent)
    except (OSError, InvalidInput) as error:
        raise StoreError(f"{path}: no row can be added: {error}") from error


def append_event(path: StrPath, event: str, *, who: str, sha256: str = "", note: str = "") -> Row:
    """Add a row of a log: what happened now, to whom, with which file; return it."""
    texts = {"who": who, "sha256": sha256, "note": note}
    short = {name: printable(text[:MAX_TEXT], " ").strip() for name, text in texts.items()}
    row = {"time": now(), "event": event, **short}
    append_row(path, row)
    return row


def read_rows(path: StrPath) -> list[Row]:
    """All rows, oldest first; `StoreError` for one that is not what was written."""
    with open_regular(path, StoreError) as file:
        lines = file.read().split(b"\n")
    if not _is_part(lines[-1]):
        raise _damaged(path, len(lines))
    return [_row_of(path, number, line) for number, line in enumerate(lines[:-1], start=1)]


def _write_line(descriptor: int, line: bytes) -> None:
    """Write a line after the last whole one; on failure nothing of it stays."""
    end = _end_of_lines(descriptor)
    os.ftruncate(descriptor, end)
    os.lseek(descriptor, end, os.SEEK_SET)
    try:
        while line:
            line = line[os.write(descriptor, line) :]
        os.fsync(descriptor)
    except BaseException:
        os.ftruncate(descriptor, end)
        raise


def _end_of_lines(descriptor: int) -> int:
    """Where the last whole line ends."""
    size = os.fstat(descriptor).st_size
    if not size or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    whole, end, rest = os.pread(descriptor, size, 0).rpartition(b"\n")
    if not _is_part(rest):
        raise InvalidInput("it does not end with a row; expected a file of rows that safle wrote")
    return len(whole + end)


def _is_part(rest: bytes) -> bool:
    """Whether this, after the last end of a line, was a row until a kill or a power loss."""
    return b'{"'.startswith(rest.strip(b"\0")[:2])


def _line_of(row: Mapping[str, Any]) -> bytes:
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    data = text.encode(errors="backslashreplace")
    check = hashlib.sha256(data).hexdigest()[:16]
    return data[:-1] + f',"check":"{check}"}}\n'.encode()


def _row_of(path: StrPath, number: int, line: bytes) -> Row:
    try:
        row: Row = json.loads(line)
        del row["check"]
        if _line_of(row) == line + b"\n":
            return row
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise _damaged(path, number)


def _damaged(path: StrPath, number: int) -> StoreError:
    return StoreError(
        f"{path}: line {number} is not what was written: somebody has changed it, or the disk has; "
        "bring the file back from a backup"
    )


def take_lock(place: StrPath, *, seconds: float) -> FileLock:
    """Lock a file until ``release()``, or until this process ends; `Timeout` if another holds it.

    `StoreError` if nobody could lock it.
    """
    try:
        # One thread may open what another closes.
        lock = FileLock(check_place(place), timeout=seconds, thread_local=False)
        lock.acquire()
    except Timeout:
        raise
    except (OSError, InvalidInput, NotImplementedError) as error:
        raise StoreError(f"{place}: cannot be locked: {error}") from error
    return lock


@contextmanager
def locked(path: StrPath) -> Iterator[None]:
    """Be the only one who adds rows to a journal; the lock is a file ``.NAME.lock`` beside it."""
    journal = Path(path)
    try:
        lock = take_lock(journal.with_name(f".{journal.name}.lock"), seconds=SECONDS_TO_WAIT)
    except Timeout as error:
        raise StoreError(f"{path}: another process holds it; wait until it has ended") from error
    try:
        yield
    finally:
        lock.release()
