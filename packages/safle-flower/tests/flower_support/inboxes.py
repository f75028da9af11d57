"""What somebody who means harm puts into an inbox, and the real watcher that faces it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flower_support import processes
from safle_flower.airlock import Airlock, Question

SAFLE = Path(sys.executable).with_name("safle")
THREE_GB = 3 << 30
MOST_PEAK = 300 << 20
"""Bytes that a watcher may take at most."""


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path) -> None:
    """Its own content, but elsewhere: only that it is a link is wrong."""
    kept = path.rename(path.parents[2] / f"{path.parent.name}.{path.name}")
    path.symlink_to(kept)


def _device(path: Path) -> None:
    path.unlink()
    os.mknod(path, 0o20666, os.makedev(1, 5))


def _sparse(path: Path) -> None:
    os.truncate(path, THREE_GB)


def _socket(path: Path) -> None:
    path.unlink()
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


FAULTS: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": _empty,
    "folder": _folder,
    "pipe": _pipe,
    "link": _link,
    "socket": _socket,
    "one-byte": lambda path: path.write_bytes(b"{"),
    "not-utf8": lambda path: path.write_bytes(b"\xff\xfe" * 16),
    "sparse": _sparse,
}
if os.getuid() == 0:
    FAULTS["device"] = _device
else:
    FAULTS["unreadable"] = lambda path: path.chmod(0)


class Watching:
    """``safle airlock --watch`` as a site starts it, and what it says."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, folders: Airlock) -> None:
        self.process, self.folders, self._log = process, folders, log

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def lives(self) -> bool:
        return self.process.poll() is None

    def peak(self) -> int:
        """Most bytes that it has taken so far."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            pytest.skip("needs /proc, for the memory of another process")
        (line,) = [row for row in status.read_text().splitlines() if row.startswith("VmHWM")]
        return int(line.split()[1]) << 10

    def has_answered(self, question: Question) -> bool:
        assert self.lives(), self.said()
        return self.folders.answer_path(question).exists()

    def has_refused(self, name: str) -> bool:
        assert self.lives(), self.said()
        return (self.folders.outbox / f"{name}.refused").is_file()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextlib.contextmanager
def watching(folders: Airlock, *words: object) -> Iterator[Watching]:
    """The watcher of an inbox; its log is beside it."""
    log = folders.inbox.parent / "watcher.log"
    log.unlink(missing_ok=True)
    command = [SAFLE, "airlock", folders.inbox, folders.outbox, "--watch", *words]
    with processes.running([*map(str, command)], env={**os.environ}, log=log) as process:
        yield Watching(process, log, folders)
