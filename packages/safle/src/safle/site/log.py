"""The site's own log: one row for everything that left, was opened or was refused here."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from safle.basics.atomic import make_folder
from safle.basics.sealed import LOG_TABLE, SealedFile, append_event
from safle.errors import InvalidInput, SafleError, StoreError

LOG = "log.sqlite"
ACCEPTED = "accepted"
"""An encoder or a model that something was sent for, for the first time; its digest."""
VARIABLE = "SAFLE_LOG"
"""The environment variable that names a site's log."""
_UNUSABLE = f"the log cannot be used: {{error}}; name another with ${VARIABLE}"


@dataclass(frozen=True)
class Event:
    """A row of a log.

    Attributes
    ----------
    event : "sent", "received", "refused", "removed", "opened", "written", "accepted"
    who : the client, or the user at a client
    digest : SHA-256 of the content that it is about; empty where that is unknown
    note : the file's name, or the reason
    seal : SHA-256 of the previous row's seal and of the other fields
    """

    number: int
    time: str
    event: str
    who: str
    digest: str
    note: str
    seal: str


def read_log(path: Path) -> list[Event]:
    """Every row of a log, a store's database included; `StoreError` if the chain is broken."""
    if not path.is_file():
        raise StoreError(f"{path}: no log; expected a file that safle wrote, or a store")
    with SealedFile(path, LOG_TABLE, create=False, message=_UNUSABLE) as file:
        return [Event(*row) for row in file.sealed_rows("log")]


def write_log(
    event: str, *, who: str = "", digest: str = "", note: str = "", place: Path | None = None
) -> None:
    """Add a row to a log; it is on the disk when this returns.

    ``who`` is by default the user who runs this, and ``place`` this site's own log.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_log("sent", who="me", note="a.stats", place=Path(folder, "log.sqlite"))
    ...     [row.note for row in read_log(Path(folder, "log.sqlite"))]
    ['a.stats']
    """
    place = place or site_log()
    try:
        make_folder(place.parent)
    except (OSError, InvalidInput) as error:
        raise StoreError(f"{place}: {_UNUSABLE.format(error=error)}") from error
    with SealedFile(place, LOG_TABLE, message=_UNUSABLE) as file, file.transaction():
        append_event(file, event, who=who or _user(), digest=digest, note=note)


def was_accepted(digest: str) -> bool:
    """Whether this site's log says that it has answered an encoder or a model before."""
    place = site_log()
    if not place.is_file():
        return False
    return any(event.event == ACCEPTED and event.digest == digest for event in read_log(place))


@contextmanager
def log_refusal(
    *, who: str = "", digest: str = "", note: str = "", place: Path | None = None
) -> Iterator[None]:
    """Log a `SafleError` that ends this block, with its reason, then raise it again."""
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


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        return f"user {os.getuid()}"
