"""Log: what went out, came in, was refused, removed or opened; rows of a sealed file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from safle.basics.places import StrPath, as_path
from safle.basics.sealed import SealedFile
from safle.basics.texts import printable
from safle.errors import StoreError

LOG = "log"
TABLE = {LOG: ("time", "event", "who", "digest", "note")}
"""The table of a sealed file that is its log."""
LONGEST_TEXT = 500


@dataclass(frozen=True)
class Event:
    """A row of a log.

    Attributes
    ----------
    event : "sent", "received", "refused", "removed", "opened", "written"
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


def append_event(
    file: SealedFile, event: str, *, who: str, digest: str = "", note: str = ""
) -> None:
    """Add a row to the log of ``file``, within the transaction that is open."""
    file.append(LOG, now(), event, _on_one_line(who), digest, _on_one_line(note))


def read_log(path: StrPath, message: str = "{error}") -> list[Event]:
    """Every row of a log, a store's included; `StoreError` if the chain is broken.

    ``message`` is what an error says after the file's name.
    """
    place = as_path(path)
    if not place.is_file():
        raise StoreError(f"{place}: no log; expected a file that safle wrote, or a store")
    with SealedFile(place, TABLE, create=False, message=message) as file:
        return [Event(*row) for row in file.sealed_rows(LOG)]


def now() -> str:
    """The time in UTC, as logs and stores write it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _on_one_line(text: object) -> str:
    """Anybody's text on one line, short, and such that SQLite can hold it."""
    return printable(str(text)[:LONGEST_TEXT], " ").strip()
