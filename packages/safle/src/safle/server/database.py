"""The database of a store: who sent what and when; one process at a time changes it.

A sealed file, ``store.sqlite``, with these tables:

- facts: name, value; the last of a name counts: format, fingerprint, limits (JSON);
- contributions: entry, a JSON object of client, digest, samples, bytes and classes; received, in
  UTC;
- removals: contribution, the number of one that is no longer in; time;
- log: time, event, who, digest (the file's SHA-256), note.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from safle.basics.sealed import LOG_TABLE, SealedFile, append_event, now
from safle.errors import StoreError
from safle.server.admission import Limits
from safle.wire.contribution import Entry

DATABASE, LOCK = "store.sqlite", "lock"
FORMAT = "safle-store-4"
SECONDS_TO_WAIT = 5.0
_TABLES = {
    "facts": ("name", "value"),
    "contributions": ("entry", "received"),
    "removals": ("contribution", "time"),
    **LOG_TABLE,
}


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

    The lock is an open transaction on a SQLite file of its own: SQLite locks on every system, but
    only until the next commit, and a round must keep others out for all of its own.
    """

    def __init__(self, folder: Path, *, seconds: float) -> None:
        self._file = sqlite3.connect(folder / LOCK, timeout=seconds, isolation_level=None)
        try:
            # Nothing is ever written to it: no journal lies beside it.
            self._file.execute("PRAGMA journal_mode=OFF")
            self._file.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            self._file.close()
            raise StoreError(
                f"{folder}: another process is changing this store, perhaps a round that is under "
                f"way; wait until it has finished ({error})"
            ) from None

    def close(self) -> None:
        """Let others change the store."""
        self._file.close()


class Database:
    """A connection; `facts` and `members` read, the rest changes."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self._file = SealedFile(folder / DATABASE, _TABLES, create=create)
        self.close = self._file.close

    def create(self, fingerprint: str) -> None:
        """Note what is true of a new store, in one step."""
        facts = {"format": FORMAT, "fingerprint": fingerprint, "limits": _write_limits(Limits())}
        with self._file.transaction():
            for name, value in facts.items():
                self._file.append("facts", name, value)

    def facts(self) -> dict[str, str]:
        """What is true of the store; empty if it has not been made, or not to the end."""
        if not self._file.complete:
            return {}
        facts = {name: value for _, name, value in self._file.rows("facts")}
        if facts and facts.get("format") != FORMAT:
            raise StoreError(
                f"{self._file.path} has format {facts.get('format')!r}; this safle reads {FORMAT!r}"
            )
        return facts

    def fingerprint(self) -> str:
        """Fingerprint of the encoder that the store was made with."""
        facts = self.facts()
        if not facts:
            raise StoreError(
                f"{self._file.path.parent} is not a store: its making was interrupted; make it "
                "again with 'safle store add --encoder'"
            )
        return facts["fingerprint"]

    def limits(self) -> Limits:
        """What clients may claim."""
        try:
            fields = json.loads(self.facts()["limits"])
            return Limits(**{**fields, "classes": tuple(fields["classes"])})
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(f"{self._file.path}: the limits are damaged: {error}") from error

    def declare(self, limits: Limits) -> None:
        """Note what clients may claim from now on: the last row counts."""
        with self._file.transaction():
            self._file.append("facts", "limits", _write_limits(limits))

    def members(self) -> Iterator[Member]:
        """Those who are in, in the order in which they came."""
        removed = {contribution for _, contribution, _ in self._file.rows("removals")}
        for number, text, received in self._file.rows("contributions"):
            if number in removed:
                continue
            try:
                entry = Entry.from_json(json.loads(text))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise StoreError(
                    f"{self._file.path}: row {number} is damaged ({error}); bring the file back "
                    "from a backup, or make a new store and add the contributions again"
                ) from error
            yield Member(**vars(entry), received=received, number=number)

    def add(self, entry: Entry, sent: str = "") -> Member:
        """Take a client in; it is on the disk, and in the log, when this returns.

        ``sent`` is the SHA-256 of the file that came, which its sender has logged as well.
        """
        text = json.dumps(entry.to_json(), ensure_ascii=False, separators=(",", ":"))
        received = now()
        with self._logged("received", entry.client, sent):
            number = self._file.append("contributions", text, received)
        return Member(**vars(entry), received=received, number=number)

    def refuse(self, client: str, sent: str, reason: str) -> None:
        """Note in the log that something was not taken."""
        with self._logged("refused", client, sent, reason):
            pass

    def remove(self, member: Member, sent: str = "") -> None:
        """Note that a client is no longer in; it is on the disk when this returns."""
        with self._logged("removed", member.client, sent):
            self._file.append("removals", member.number, now())

    @contextmanager
    def _logged(self, event: str, who: str, digest: str, note: str = "") -> Iterator[None]:
        """A change and its row in the log: both or none."""
        with self._file.transaction():
            yield
            append_event(self._file, event, who=who, digest=digest, note=note)


def _write_limits(limits: Limits) -> str:
    return json.dumps(asdict(limits))
