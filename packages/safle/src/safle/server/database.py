"""The database of a store: who sent what and when, in SQLite; one process at a time changes it.

A change is on the disk when its call returns (write-ahead log, flushed at every commit), and a
kill at any moment leaves all of it or nothing. SQLite does not notice a changed byte in a row, so
each row carries a seal of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from safle.basics.sqlite import SqliteFile
from safle.errors import StoreError
from safle.server.contribution import Entry
from safle.site import log

DATABASE, LOCK = "store.sqlite", "lock"
FORMAT = "safle-store-3"
SECONDS_TO_WAIT = 5.0
_LOOKS_PER_SECOND = 20
_TABLES = f"""
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE contributions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    entry TEXT NOT NULL,
    received TEXT NOT NULL,
    removed TEXT,
    seal TEXT NOT NULL
);
{log.TABLE}
"""


@dataclass(frozen=True)
class Member(Entry):
    """A client that is in.

    Attributes
    ----------
    received : when, in UTC
    """

    received: str = ""
    number: int = 0


class Lock:
    """Held by the one process that may change a store; let go by its end, however it ends.

    SQLite's own lock ends with every commit, and a round must keep others out for all of its.
    """

    def __init__(self, folder: Path, *, seconds: float) -> None:
        self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() >= end:
                    os.close(self._file)
                    raise StoreError(
                        f"{folder}: another process is changing this store, perhaps a round that "
                        "is under way; wait until it has finished"
                    ) from None
            time.sleep(1 / _LOOKS_PER_SECOND)

    def close(self) -> None:
        """Let others change the store."""
        os.close(self._file)


class Database:
    """A connection; `facts` and `members` read, the rest changes."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self._path = folder / DATABASE
        uri = f"{self._path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        beside = folder / f"{DATABASE}-wal"
        if not create and not beside.exists() and not os.access(folder, os.W_OK):
            # A copy to read only: no log can be opened beside it, and none is needed.
            uri = uri.replace("mode=rw", "immutable=1")
        self._base = SqliteFile(self._path, address=uri, log=create)
        self._run, self.close = self._base.run, self._base.close

    def create(self, **facts: str) -> None:
        """Make the tables of a new store, with what is true of it, in one step."""
        with self._base.transaction(_TABLES):
            for name, value in {"format": FORMAT, **facts}.items():
                self._run("INSERT INTO facts VALUES (?, ?)", name, value)

    def facts(self) -> dict[str, str]:
        """What is true of the store; empty if it has not been made, or not to the end."""
        if not self._run("SELECT 1 FROM sqlite_master WHERE name = 'facts'"):
            return {}
        facts = dict(self._run("SELECT name, value FROM facts"))
        if facts.get("format") != FORMAT:
            raise StoreError(
                f"{self._path} has format {facts.get('format')!r}; this safle reads {FORMAT!r}"
            )
        return facts

    def set_fact(self, name: str, value: str) -> None:
        """Replace something that is true of the store."""
        self._run("UPDATE facts SET value = ? WHERE name = ?", value, name)

    def members(self) -> Iterator[Member]:
        """Those who are in, in the order in which they came."""
        rows = self._run("SELECT * FROM contributions ORDER BY number")
        for number, text, received, removed, seal in rows:
            try:
                if seal != _seal(text, received, removed):
                    raise ValueError("its seal does not match")
                entry = Entry.from_json(json.loads(text))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise StoreError(
                    f"{self._path}: row {number} is damaged ({error}); bring the file back from a "
                    "backup, or make a new store and add the contributions again"
                ) from error
            if removed is None:
                yield Member(**vars(entry), received=received, number=number)

    def add(self, entry: Entry, sent: str = "", note: str = "") -> Member:
        """Take a client in; it is on the disk, and in the log, when this returns.

        ``sent`` is the SHA-256 of the file that came, which its sender has logged as well.
        """
        text = json.dumps(entry.to_json(), ensure_ascii=False, separators=(",", ":"))
        received = log.now()
        with self._logged("received", entry.client, sent, note):
            self._run(
                "INSERT INTO contributions (entry, received, seal) VALUES (?, ?, ?)",
                *(text, received, _seal(text, received, None)),
            )
            ((number,),) = self._run("SELECT last_insert_rowid()")
        return Member(**vars(entry), received=received, number=number)

    def refuse(self, client: str, sent: str, reason: str) -> None:
        """Note in the log that something was not taken."""
        with self._logged("refused", client, sent, reason):
            pass

    def remove(self, member: Member, sent: str = "") -> None:
        """Note that a client is no longer in; it is on the disk when this returns."""
        where = "FROM contributions WHERE number = ?"
        ((text, received),) = self._run(f"SELECT entry, received {where}", member.number)
        removed = log.now()
        with self._logged("removed", member.client, sent):
            self._run(
                "UPDATE contributions SET removed = ?, seal = ? WHERE number = ?",
                *(removed, _seal(text, received, removed), member.number),
            )

    @contextmanager
    def _logged(self, event: str, who: str, digest: str, note: str = "") -> Iterator[None]:
        """A change and its row in the log: both or none."""
        with self._base.transaction():
            yield
            log.append(self._base, event, who=who, digest=digest, note=note)


def count_members(folder: Path) -> int:
    """How many are in, for whoever watches a store that may not have been made yet."""
    if not (folder / DATABASE).exists():
        return 0
    with closing(Database(folder)) as database:
        return len([*database.members()]) if database.facts() else 0


def _seal(*fields: str | None) -> str:
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()
