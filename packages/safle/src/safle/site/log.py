"""The site's own log: one row for everything that left, was opened or was refused here."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safle.basics.atomic import make_folder
from safle.basics.journal import Row, append_event, locked, read_rows
from safle.errors import InvalidInput, SafleError, StoreError

LOG = "log.jsonl"
ACCEPTED = "accepted"
"""The event that an encoder or a model was used here for the first time; the row has its digest."""
VARIABLE = "SAFLE_LOG"
"""The environment variable that names a site's log."""


def read_log(path: Path) -> list[Row]:
    """Every row of a log; `StoreError` if one is damaged.

    A row has its time, event ("sent", "received", "refused", "removed", "opened", "written",
    "accepted"), who (the client, or the user at a client), sha256 (of the content that it is
    about; empty where that is unknown) and note (the file's name, or the reason).
    """
    if not path.is_file():
        raise StoreError(f"{path}: no log; expected a file that safle wrote, or a store")
    return read_rows(path)


def write_log(
    event: str, *, who: str = "", digest: str = "", note: str = "", place: Path | None = None
) -> None:
    """Add a row to a log; it is on the disk when this returns.

    ``who`` is by default the user who runs this, and ``place`` this site's own log.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_log("sent", who="me", note="a.stats", place=Path(folder, "log.jsonl"))
    ...     [row["note"] for row in read_log(Path(folder, "log.jsonl"))]
    ['a.stats']
    """
    place = place or site_log()
    try:
        make_folder(place.parent)
        with locked(place):
            append_event(place, event, who=who or _user(), sha256=digest, note=note)
    except (OSError, InvalidInput, StoreError) as error:
        raise StoreError(
            f"{place}: the log cannot be used ({error}); name another with ${VARIABLE}"
        ) from error


def was_accepted(digest: str) -> bool:
    """Whether this site's log has an earlier answer for an encoder or a model."""
    place = site_log()
    if not place.is_file():
        return False
    return any(row["event"] == ACCEPTED and row["sha256"] == digest for row in read_log(place))


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
