"""Log: what went out, came in, was refused, removed or opened; rows are added, never changed.

SQLite, flushed at every row, so that a kill loses nothing that was said to be done; triggers
refuse changes. Every row's seal covers the one before it: a row that was changed, taken out or
put in by other means breaks the chain. Rows cut off at the end do not: note the last seal.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from safle.basics.sqlite import SqliteFile
from safle.basics.texts import printable
from safle.errors import SafleError, StoreError

LOG = "log.sqlite"
VARIABLE = "SAFLE_LOG"
"""The environment variable that names a site's log."""
_UNUSABLE = f"the log cannot be used: {{error}}; name another with ${VARIABLE}"
LONGEST = 500
TABLE = """
CREATE TABLE IF NOT EXISTS log (
    number INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    event TEXT NOT NULL,
    who TEXT NOT NULL,
    digest TEXT NOT NULL,
    note TEXT NOT NULL,
    seal TEXT NOT NULL
);
CREATE TRIGGER IF NOT EXISTS log_unchanged BEFORE UPDATE ON log
BEGIN SELECT RAISE(ABORT, 'the log is never changed'); END;
CREATE TRIGGER IF NOT EXISTS log_kept BEFORE DELETE ON log
BEGIN SELECT RAISE(ABORT, 'the log is never changed'); END;
"""


@dataclass(frozen=True)
class Event:
    """A row of a log.

    Attributes
    ----------
    event : "sent", "received", "refused", "removed", "opened"
    who : the client, or the user at a client
    digest : SHA-256 of what it is about; empty where that cannot be told
    note : the file's name, or the reason
    seal : SHA-256 of the seal before it and of the other fields
    """

    number: int
    time: str
    event: str
    who: str
    digest: str
    note: str
    seal: str


def append(base: SqliteFile, event: str, *, who: str, digest: str = "", note: str = "") -> None:
    """Add a row, within the transaction that is open."""
    last = base.run("SELECT number, seal FROM log ORDER BY number DESC LIMIT 1")
    number, before = last[0] if last else (0, "")
    fields = (number + 1, now(), event, _line(who), digest, _line(note))
    base.run("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)", *fields, _seal(before, *fields))


def read_log(path: str | os.PathLike[str]) -> list[Event]:
    """Every row of a log, a store's database included; `StoreError` if the chain is broken."""
    place = Path(path)
    if not place.is_file():
        raise StoreError(f"{place}: no log; expected a file that safle wrote, or a store")
    address = f"{place.absolute().as_uri()}?mode=ro"
    with closing(SqliteFile(place, address=address, message=_UNUSABLE)) as base:
        rows = base.run("SELECT * FROM log ORDER BY number")
    events, before = [Event(*row) for row in rows], ""
    for number, event in enumerate(events, start=1):
        *fields, seal = vars(event).values()
        if event.number != number or seal != _seal(before, *fields):
            raise StoreError(
                f"{place}: row {number} is not what was written, or rows before it are missing: "
                "somebody has changed the log"
            )
        before = seal
    return events


def write_log(
    event: str, *, who: str = "", digest: str = "", note: str = "", place: Path | None = None
) -> None:
    """Add a row to a log; it is on the disk when this returns.

    ``who`` is by default the user who runs this, and ``place`` this site's own log.
    """
    place = place or site_log()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{place}: {_UNUSABLE.format(error=error)}") from error
    with (
        closing(SqliteFile(place, TABLE, log=True, message=_UNUSABLE)) as base,
        base.transaction(),
    ):
        append(base, event, who=who or _user(), digest=digest, note=note)


@contextmanager
def log_refusal(
    *, who: str = "", digest: str = "", note: str = "", place: Path | None = None
) -> Iterator[None]:
    """Whatever error of safle's ends this, it is in the log with its reason before it goes on."""
    try:
        yield
    except SafleError as error:
        reason = f"{note}: {error}" if note else str(error)
        write_log("refused", who=who, digest=digest, note=reason, place=place)
        raise


def site_log() -> Path:
    """Where this site's log is: $SAFLE_LOG, or in the user's own folder."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "safle" / LOG


def now() -> str:
    """The time in UTC, as logs and stores write it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _seal(before: str, *fields: object) -> str:
    return hashlib.sha256(json.dumps([before, *fields]).encode()).hexdigest()


def _line(text: object) -> str:
    """Anybody's text on one line, short, and such that SQLite can hold it."""
    return printable(str(text)[:LONGEST], " ").strip()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        return f"user {os.getuid()}"
