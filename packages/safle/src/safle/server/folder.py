"""The files in a store's folder: lock, database, encoder and contributions.

One process at a time, which holds the lock, changes them. The database says who sent what and when:
a sealed file, ``store.sqlite``, with these tables:

- declarations: format, fingerprint (of the encoder), limits (a JSON object); the last row is valid;
- contributions: entry, a JSON object of client, digest, samples, bytes and classes; received, in
  UTC;
- removals: contribution (the number of a row that is no longer valid), time;
- log: time, event, who, digest (the file's SHA-256), note.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from safle.basics import atomic
from safle.basics.sealed import LOG_TABLE, SealedFile, append_event, now
from safle.basics.settings import as_settings
from safle.encoders import Encoder, load_encoder
from safle.errors import InvalidInput, SafleError, StoreError, WireError
from safle.server.admission import Limits
from safle.statistics import Statistics
from safle.wire.contribution import Contribution, Entry

DATABASE, LOCK = "store.sqlite", "lock"
ENCODER, CONTRIBUTIONS = "encoder.safetensors", "contributions"
_STORE_FILE = re.compile(
    rf"{ENCODER}|{CONTRIBUTIONS}|{LOCK}|{DATABASE}(-\w+)?|\.{ENCODER}\.\w+\.part"
)
_CONTRIBUTION_FILE = re.compile(r"[0-9a-f]{64}\.stats|\.[0-9a-f]{64}\.stats\.\w+\.part")
FORMAT = "safle-store-5"
SECONDS_TO_WAIT = 5.0
BUSY = (
    "another process is changing this store, perhaps a round that is under way; wait until it has "
    "finished"
)
NO_LOCK = f"its file {LOCK!r} cannot be locked; you must be allowed to write to the folder"
_TABLES = {
    "declarations": ("format", "fingerprint", "limits"),
    "contributions": ("entry", "received"),
    "removals": ("contribution", "time"),
    **LOG_TABLE,
}


@dataclass(frozen=True)
class Member(Entry):
    """A client whose contribution is in the store.

    Attributes
    ----------
    received : when the contribution came, in UTC
    number : of its row in the database
    """

    received: str = ""
    number: int = 0


def take_lock(folder: Path, *, seconds: float) -> sqlite3.Connection:
    """Lock a store for the one process that may change it; closing the lock frees it.

    The lock is an open transaction on a SQLite file of its own: SQLite locks on every system, but
    only until the next commit, and a round keeps others out over many commits.
    """
    try:
        lock = sqlite3.connect(
            atomic.check_place(folder / LOCK), timeout=seconds, isolation_level=None
        )
    except (sqlite3.Error, InvalidInput) as error:
        raise StoreError(f"{folder}: {NO_LOCK} ({error})") from None
    try:
        # Nothing is ever written to it: no journal lies beside it.
        lock.execute("PRAGMA journal_mode=OFF")
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        busy = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
        raise StoreError(f"{folder}: {BUSY if busy else NO_LOCK} ({error})") from None
    return lock


class Database:
    """A connection to the database; `declared` and `members` read, all else writes."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self._file = SealedFile(folder / DATABASE, _TABLES, create=create)
        self.close = self._file.close

    def declare(self, fingerprint: str, limits: Limits) -> None:
        """Note the store's encoder, and what clients may send from now on."""
        with self._file.transaction():
            self._file.append("declarations", FORMAT, fingerprint, json.dumps(asdict(limits)))

    def declared(self) -> tuple[str, Limits] | None:
        """The encoder's fingerprint, and the limits; None if making the store was interrupted."""
        rows = [*self._file.rows("declarations")] if self._file.complete else []
        if not rows:
            return None
        _, file_format, fingerprint, limits = rows[-1]
        if file_format != FORMAT:
            raise StoreError(
                f"{self._file.path} has format {file_format!r}; this safle reads {FORMAT!r}"
            )
        try:
            return fingerprint, as_settings(Limits, json.loads(limits))
        except ValueError as error:
            raise StoreError(f"{self._file.path}: the limits are damaged: {error}") from error

    def members(self) -> Iterator[Member]:
        """The clients in the store, in the order in which they came."""
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

    def add(self, entry: Entry, file_digest: str = "") -> Member:
        """Take a client in; it is on the disk, and in the log, when this returns.

        ``file_digest`` is the SHA-256 of the file, which the sender has logged as well.
        """
        text = json.dumps(entry.to_json(), ensure_ascii=False, separators=(",", ":"))
        received = now()
        with self._logged("received", entry.client, file_digest):
            number = self._file.append("contributions", text, received)
        return Member(**vars(entry), received=received, number=number)

    def refuse(self, client: str, file_digest: str, reason: str) -> None:
        """Note in the log that a contribution was refused."""
        with self._logged("refused", client, file_digest, reason):
            pass

    def remove(self, member: Member, file_digest: str = "") -> None:
        """Note that a client is no longer in the store; it is on the disk when this returns."""
        with self._logged("removed", member.client, file_digest):
            self._file.append("removals", member.number, now())

    @contextmanager
    def _logged(self, event: str, who: str, digest: str, note: str = "") -> Iterator[None]:
        """Make a change and its row in the log together, or neither."""
        with self._file.transaction():
            yield
            append_event(self._file, event, who=who, digest=digest, note=note)


def check_unused(place: Path) -> None:
    """Refuse a folder with files of others; remains of an interrupted `Store.create` may stay."""
    if not place.exists() or (place / DATABASE).exists():
        return
    if any(not _STORE_FILE.fullmatch(path.name) for path in place.iterdir()):
        raise StoreError(f"{place} holds other files; choose a new or an empty folder")
    inside = place / CONTRIBUTIONS
    if inside.is_symlink() or (inside.exists() and any(inside.iterdir())):
        raise StoreError(f"{inside} is a link or not empty; choose a new or an empty folder")


def make_folder(place: Path, encoder: Encoder) -> None:
    """Write the encoder, and make the folder of contributions."""
    path = place / ENCODER
    if path.exists() and load_encoder(path) != encoder:
        raise StoreError(f"{path} is another encoder; choose a new or an empty folder")
    atomic.make_folder(place / CONTRIBUTIONS)
    encoder.save(path)


class Folder:
    """The files beside the database; ``fingerprint`` is that of the store's encoder."""

    def __init__(self, place: Path, fingerprint: str) -> None:
        self._place = place
        self.encoder = load_encoder(place / ENCODER)
        if self.encoder.fingerprint != fingerprint:
            raise StoreError(
                f"{place / ENCODER} is not the encoder that this store was made with "
                f"({fingerprint[:12]}…); bring it back"
            )

    @property
    def contributions(self) -> Path:
        """Folder of the contributions; `StoreError` if it is missing or a link."""
        folder = self._place / CONTRIBUTIONS
        if folder.is_symlink() or not folder.is_dir():
            raise StoreError(f"{folder} is missing or a link; bring the store's folder back")
        return folder

    def path(self, entry: Entry) -> Path:
        """Path of a contribution, whether it exists or not."""
        return self.contributions / f"{entry.digest}.stats"

    def read(self, expected: Member) -> Statistics:
        """A member's statistics, verified again."""
        path, client = self.path(expected), expected.client
        if not path.is_file():
            raise StoreError(
                f"{path}: the contribution of {client!r} is missing; get it from the client again "
                "('safle store remove', then 'safle store add')"
            )
        statistics, entry = Contribution.read(path, client).open(self.encoder.space)
        if (entry.digest, entry.samples) != (expected.digest, expected.samples):
            raise WireError("the file does not hold the content that the database names")
        return statistics

    @contextmanager
    def naming(self, member: Member) -> Iterator[None]:
        """Turn errors in a contribution into a `StoreError` that names its file and client."""
        try:
            yield
        except StoreError:
            raise
        except SafleError as error:
            raise StoreError(
                f"{self.path(member)}: the contribution of {member.client!r} is damaged: {error}"
            ) from error

    def find_problem(self, member: Member) -> str:
        """What is wrong with a member's contribution; empty if nothing is."""
        try:
            with self.naming(member):
                self.read(member).multiply_out()
        except (SafleError, OSError) as error:
            return str(error)
        return ""

    def find_unnamed(self, members: Iterable[Member]) -> list[Path]:
        """Files of the store that no member names: removed clients and crashes leave them."""
        named = {f"{member.digest}.stats" for member in members}
        unnamed = (path for path in self.contributions.iterdir() if path.name not in named)
        return sorted(path for path in unnamed if _is_ours(path))

    def find_foreign(self) -> list[Path]:
        """Other files among the contributions; the store never touches them."""
        return sorted(path for path in self.contributions.iterdir() if not _is_ours(path))


def _is_ours(path: Path) -> bool:
    """Whether a store wrote this file; a store writes no links."""
    return (
        bool(_CONTRIBUTION_FILE.fullmatch(path.name)) and path.is_file() and not path.is_symlink()
    )
