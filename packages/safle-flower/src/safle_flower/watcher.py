"""Watcher: the site's side of an airlock, which nothing in the inbox can stop.

    look at the inbox -> questions neither answered nor refused -> copy one -> answer or refuse

A look costs a few calls of `stat` for each question and reads none. A question's state is what
`stat` says of its folder and files: a refusal holds the state that was refused, so a question is
read once, also after a restart, and again when anything of it has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from safle.basics import atomic
from safle.errors import WireError
from safle_flower.airlock import (
    ANSWERS,
    FILES,
    MOST_BYTES,
    QUESTION,
    TOKEN,
    Airlock,
    Refused,
    name_question,
    open_regular,
    read_lines,
    read_text,
    read_token,
    shorten,
)

MOST_AT_ONCE = 10_000
"""Most questions of one look; the others wait for the next one."""
MOST_REMEMBERED = 100_000
MOST_STRANGERS = 1_000
"""Most entries other than questions that the log names; more are ignored."""
CHUNK_BYTES = 1 << 20
_NAME = re.compile(f"({'|'.join(ANSWERS)})-[0-9a-f]{{32}}")


@dataclass(frozen=True, order=True)
class Waiting:
    """An entry of the inbox that waits for an answer; ``since`` it was put there, in ns."""

    since: int
    name: str
    state: str

    @property
    def kind(self) -> str:
        """The kind of question that the name says."""
        return self.name.partition("-")[0]


@dataclass
class Watcher:
    """Finds questions in the inbox, copies them, and writes refusals into the outbox."""

    folders: Airlock
    _left_alone: dict[str, str] = field(default_factory=dict)
    _strangers: set[str] = field(default_factory=set)

    def find_waiting(self) -> list[Waiting]:
        """What waits, the oldest first; `OSError` if one of the folders cannot be used."""
        self._require_outbox()
        with _opened(self.folders.inbox) as inbox, os.scandir(inbox) as entries:
            names = (entry.name for entry in entries if not entry.name.startswith("."))
            waiting = (found for name in names if (found := self._find(name, inbox)))
            return heapq.nsmallest(MOST_AT_ONCE, waiting)

    def copy(self, waiting: Waiting, folder: Path) -> dict[str, str]:
        """The question's files, copied into a folder of ours; `Refused` unless it is whole."""
        if not _NAME.fullmatch(waiting.name):
            raise Refused("its name is not a kind and a digest")
        with contextlib.ExitStack() as stack, _explaining():
            inbox = stack.enter_context(_opened(self.folders.inbox))
            place = stack.enter_context(_opened(waiting.name, inbox))
            # All of them before a byte of one is read: each is of a size that can be.
            opened = {
                name: stack.enter_context(open_regular(name, MOST_BYTES[name], folder=place))
                for name in (QUESTION, TOKEN, *FILES[waiting.kind])
            }
            read_token(opened.pop(TOKEN))
            text = opened.pop(QUESTION).read(MOST_BYTES[QUESTION])
            kind = read_text(text).kind
            digests = {name: _copy(file, folder / name) for name, file in opened.items()}
        if kind != waiting.kind or name_question(kind, text, digests) != waiting.name:
            raise Refused("its name is not the digest of its files")
        return {name: str(folder / name) for name in digests}

    def refuse(self, waiting: Waiting, reason: str) -> None:
        """Say in the outbox that the site does not answer, and leave this state alone.

        An `OSError` says that it could not be written; until this process ends, the question is
        left alone all the same.
        """
        if _NAME.fullmatch(waiting.name):
            self._leave_alone(waiting.name, waiting.state)
            text = f"{self._read_token(waiting)}\n{shorten(reason)}\n{waiting.state}\n"
            atomic.write_text(self.folders.refusal_path(waiting.name), text)

    def count_answers(self, kind: str) -> int:
        """How many answers to questions of one kind are in the outbox."""
        return sum(1 for _ in self.folders.outbox.glob(f"{kind}-*{ANSWERS[kind][0]}"))

    def answer_path(self, waiting: Waiting) -> Path:
        """The path of the answer to a question."""
        return self.folders.outbox / (waiting.name + ANSWERS[waiting.kind][0])

    def _require_outbox(self) -> None:
        """While answers cannot be written, questions are neither read nor refused for good."""
        try:
            with tempfile.TemporaryFile(dir=self.folders.outbox) as file:
                file.write(b"1")
        except OSError as error:
            self._left_alone.clear()
            error.filename = str(self.folders.outbox)
            raise

    def _find(self, name: str, inbox: int) -> Waiting | None:
        if not _NAME.fullmatch(name):
            return self._meet_stranger(name)
        since, state = _read_state(name, inbox)
        if self._left_alone.get(name) == state:
            return None
        waiting = Waiting(since, name, state)
        if os.path.lexists(self.answer_path(waiting)):
            return None
        with contextlib.suppress(OSError, WireError):
            if read_lines(self.folders.refusal_path(name))[2] == state:
                self._leave_alone(name, state)
                return None
        return waiting

    def _meet_stranger(self, name: str) -> Waiting | None:
        """Report an entry without a question's name, once; such entries delay no question."""
        if name in self._strangers or len(self._strangers) == MOST_STRANGERS:
            return None
        self._strangers.add(name)
        return Waiting(0, name, "")

    def _leave_alone(self, name: str, state: str) -> None:
        self._left_alone[name] = state
        if len(self._left_alone) > MOST_REMEMBERED:
            del self._left_alone[next(iter(self._left_alone))]

    def _read_token(self, waiting: Waiting) -> str:
        """The token that the asker compares; empty if there is none."""
        with (
            contextlib.suppress(OSError, WireError),
            _opened(self.folders.inbox) as inbox,
            _opened(waiting.name, inbox) as place,
            open_regular(TOKEN, MOST_BYTES[TOKEN], folder=place) as file,
        ):
            return read_token(file)
        return ""


@contextlib.contextmanager
def _opened(path: Path | str, folder: int | None = None) -> Iterator[int]:
    """A folder's descriptor: what is opened in it stays the same when the folder is renamed."""
    # The inbox may be a link that its owner made; a question may not.
    link = 0 if folder is None else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | link, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_state(name: str, inbox: int) -> tuple[int, str]:
    """When an entry of the inbox changed last, and a digest of what `stat` says of its files."""
    facts = [_describe(name, inbox)]
    if facts[0] is not None and stat.S_ISDIR(facts[0].st_mode):
        facts += [_describe(f"{name}/{file}", inbox) for file in MOST_BYTES]
    changes = [
        fact and (fact.st_mode, fact.st_ino, fact.st_size, fact.st_ctime_ns) for fact in facts
    ]
    since = facts[0].st_ctime_ns if facts[0] is not None else 0
    return since, hashlib.sha256(repr(changes).encode()).hexdigest()[:32]


def _describe(path: str, inbox: int) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=inbox, follow_symlinks=False)
    except OSError:
        return None


@contextlib.contextmanager
def _explaining() -> Iterator[None]:
    """What is wrong with a question's files, as its asker may know it."""
    try:
        yield
    except FileNotFoundError as error:
        raise Refused(f"{Path(error.filename).name} is missing") from error
    except WireError as error:
        raise Refused(str(error)) from error
    except OSError as error:
        raise Refused(f"its files cannot be read: {error.strerror}") from error


def _copy(file: BinaryIO, path: Path) -> tuple[int, bytes]:
    """Copy as many bytes as the file had when it was opened; their number and SHA-256."""
    digest = hashlib.sha256()
    left = os.fstat(file.fileno()).st_size
    copied = 0
    with atomic.replacing(path) as scratch, scratch.open("wb") as target:
        while chunk := file.read(min(left - copied, CHUNK_BYTES)):
            digest.update(chunk)
            target.write(chunk)
            copied += len(chunk)
    return copied, digest.digest()
