"""Atomic writes: a file is either the old one or the whole new one, never a part.

Everything that safle writes goes through this module. It replaces regular files only: a device,
pipe, socket, folder or link stays what it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from safle.errors import InvalidInput

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_place(path: str | os.PathLike[str]) -> Path:
    """``path``, if a file can be written there: it is new, or a regular file, in a folder.

    >>> check_place("/dev/null")
    Traceback (most recent call last):
    safle.errors.InvalidInput: /dev/null: is a device; expected a new name, or a file to replace
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such directory", str(target.parent))
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return target
    if stat.S_ISREG(mode):
        return target
    found = name_kind(mode)
    if stat.S_ISLNK(mode):
        found = f"a link to {target.readlink()}, which safle does not follow"
    raise InvalidInput(f"{target}: is {found}; expected a new name, or a file to replace")


def name_kind(mode: int) -> str:
    """What is at a path, by its ``st_mode``, if it is not a regular file."""
    return _KINDS.get(stat.S_IFMT(mode), "no regular file")


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder ``path``, made with its parents if it is missing."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidInput(
            f"{folder}: it, or a part of its path, is not a folder; choose another name"
        ) from None
    return folder


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """Yield a scratch path beside ``path``; rename it over ``path`` on success.

    The data reach the disk before the rename does, so a crash at any moment leaves either the old
    file or the new one. On any exception the scratch file is removed and ``path`` is as it was. A
    ``private`` file is for its owner alone, from the first moment on.
    """
    target = check_place(path)
    scratch = _make_scratch(target)
    try:
        yield scratch
        # mkstemp makes private files; a result gets the permissions of any new file.
        if not private:
            scratch.chmod(0o666 & ~_umask())
        flush(scratch)
        # The work took time: something else may lie there by now.
        check_place(target)
        scratch.replace(target)
        flush(target.parent)
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
            flush(scratch)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` atomically, as UTF-8."""
    write_bytes(path, as_utf8(text))


def as_utf8(text: str) -> bytes:
    r"""The bytes of a text; what UTF-8 cannot hold, as bytes of file names, becomes escapes.

    >>> as_utf8("\udcff.csv")
    b'\\udcff.csv'
    """
    return text.encode(errors="backslashreplace")


def write_new(path: str | os.PathLike[str], text: str) -> None:
    """Write a file for its owner alone, as UTF-8; never over another one."""
    target = check_place(path)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123
            file.write(as_utf8(text))
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        target.unlink()
        raise


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


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
