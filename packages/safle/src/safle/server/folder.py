"""The database of a store: who sent what and when; one process at a time changes it.

A sealed file, ``store.sqlite``, with these tables:

- declarations: format, fingerprint (of the encoder), limits (a JSON object); the last row counts;
- contributions: entry, a JSON object of client, digest, samples, bytes and classes; received, in
  UTC;
- removals: contribution, the number of one that is no longer in; time;
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

from safle.basics.sealed import LOG_TABLE, SealedFile, append_event, now
from safle.basics.settings import as_settings
from safle.encoders import Encoder, load_encoder
from safle.errors import SafleError, StoreError, WireError
from safle.server.admission import Limits
from safle.statistics import Statistics
from safle.wire.contribution import Contribution, Entry

DATABASE, LOCK = "store.sqlite", "lock"
ENCODER, CONTRIBUTIONS = "encoder.safetensors", "contributions"
_PARTS = re.compile(rf"{ENCODER}|{CONTRIBUTIONS}|{LOCK}|{DATABASE}(-\w+)?|\.{ENCODER}\.\w+\.part")
_OURS = re.compile(r"[0-9a-f]{64}\.stats|\.[0-9a-f]{64}\.stats\.\w+\.part")
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
    """A client that is in.

    Attributes
    ----------
    received : when, in UTC
    """

    received: str = ""
    number: int = 0


def take_lock(folder: Path, *, seconds: float) -> sqlite3.Connection:
    """The lock of the one process that may change a store; closing it, or the process, frees it.

    The lock is an open transaction on a SQLite file of its own: SQLite locks on every system, but
    only until the next commit, and a round must keep others out for all of its own.
    """
    try:
        lock = sqlite3.connect(folder / LOCK, timeout=seconds, isolation_level=None)
    except sqlite3.Error as error:
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
    """A connection; `declared` and `members` read, the rest changes."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self._file = SealedFile(folder / DATABASE, _TABLES, create=create)
        self.close = self._file.close

    def declare(self, fingerprint: str, limits: Limits) -> None:
        """Note the store's encoder, and what clients may claim from now on."""
        with self._file.transaction():
            self._file.append("declarations", FORMAT, fingerprint, json.dumps(asdict(limits)))

    def declared(self) -> tuple[str, Limits] | None:
        """The encoder's fingerprint, and the limits; None if the store was not made to the end."""
        rows = [*self._file.rows("declarations")] if self._file.complete else []
        if not rows:
            return None
        _, form, fingerprint, limits = rows[-1]
        if form != FORMAT:
            raise StoreError(f"{self._file.path} has format {form!r}; this safle reads {FORMAT!r}")
        try:
            return fingerprint, as_settings(Limits, json.loads(limits))
        except ValueError as error:
            raise StoreError(f"{self._file.path}: the limits are damaged: {error}") from error

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


def check_unused(place: Path) -> None:
    """Refuse a folder of other things; what a store half made has left behind may be there."""
    if not place.exists() or (place / DATABASE).exists():
        return
    if any(not _PARTS.fullmatch(path.name) for path in place.iterdir()):
        raise StoreError(f"{place} holds other files; choose a new or an empty folder")
    inside = place / CONTRIBUTIONS
    if inside.is_symlink() or (inside.exists() and any(inside.iterdir())):
        raise StoreError(f"{inside} holds files of somebody's; choose a new or an empty folder")


def make_folder(place: Path, encoder: Encoder) -> None:
    """Put the encoder in, and make room for contributions."""
    path = place / ENCODER
    if path.exists() and load_encoder(path) != encoder:
        raise StoreError(f"{path} is another encoder; choose a new or an empty folder")
    (place / CONTRIBUTIONS).mkdir(exist_ok=True)
    encoder.save(path)


class Folder:
    """What lies beside the database; ``fingerprint`` is that of the store's encoder."""

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
        """Where they lie; `StoreError` if somebody has put something else there."""
        folder = self._place / CONTRIBUTIONS
        if folder.is_symlink() or not folder.is_dir():
            raise StoreError(f"{folder} is not a folder of this store's own; bring it back")
        return folder

    def path(self, entry: Entry) -> Path:
        """Where the contribution lies, or would."""
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
            raise WireError("not the content that the database names")
        return statistics

    @contextmanager
    def naming(self, member: Member) -> Iterator[None]:
        """Whatever is wrong with a contribution is said of its file and client."""
        try:
            yield
        except StoreError:
            raise
        except SafleError as error:
            raise StoreError(
                f"{self.path(member)}: the contribution of {member.client!r} is damaged: {error}"
            ) from error

    def problem(self, member: Member) -> str:
        """What is wrong with a member's contribution; empty if nothing is."""
        try:
            with self.naming(member):
                self.read(member).multiply_out()
        except (SafleError, OSError) as error:
            return str(error)
        return ""

    def unnamed(self, members: Iterable[Member]) -> list[Path]:
        """Our own files that are not in: those of removed clients and of crashes."""
        named = {f"{member.digest}.stats" for member in members}
        found = (path for path in self.contributions.iterdir() if path.name not in named)
        return sorted(path for path in found if _is_ours(path))

    def strangers(self) -> list[Path]:
        """What lies among the contributions and is not the store's: it is never touched."""
        return sorted(path for path in self.contributions.iterdir() if not _is_ours(path))


def _is_ours(path: Path) -> bool:
    """Whether a store wrote this file; never what a link leads to."""
    return bool(_OURS.fullmatch(path.name)) and path.is_file() and not path.is_symlink()
