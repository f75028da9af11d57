"""Atomic writes: a file is either the old one or the whole new one, never a part."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """Yield a scratch path beside ``path``; rename it over ``path`` on success.

    The data reach the disk before the rename does, so a crash at any moment leaves either the old
    file or the new one. On any exception the scratch file is removed and ``path`` is as it was. A
    ``private`` file is for its owner alone, from the first moment on.
    """
    target = Path(path)
    scratch = _make_scratch(target)
    try:
        yield scratch
        # mkstemp makes private files; a result gets the permissions of any new file.
        if not private:
            scratch.chmod(0o666 & ~_umask())
        _flush(scratch)
        scratch.replace(target)
        _flush(target.parent)
    except BaseException as error:
        scratch.unlink(missing_ok=True)
        # The error of a full disk names no file, and no user knows the scratch file.
        if isinstance(error, OSError) and error.filename in (None, str(scratch)):
            error.filename = str(target)
        raise


def write_bytes(path: str | os.PathLike[str], data: bytes | memoryview) -> None:
    """Write ``data`` to ``path`` atomically."""
    with replacing(path) as scratch:
        scratch.write_bytes(data)


def write_together(files: Mapping[Path, bytes], *, private: Collection[Path] = ()) -> None:
    """Write files atomically, the last one renamed first; ``private`` ones for their owner alone.

    All data are on the disk before any file is replaced, so a full disk replaces none.
    """
    with contextlib.ExitStack() as stack:
        for path, data in files.items():
            scratch = stack.enter_context(replacing(path, private=path in private))
            scratch.write_bytes(data)
            _flush(scratch)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` atomically, as UTF-8."""
    write_bytes(path, text.encode())


def _make_scratch(target: Path) -> Path:
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".part", dir=target.parent
        )
    except OSError as error:
        error.filename = str(target)
        raise
    os.close(handle)
    return Path(name)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
