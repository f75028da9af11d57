"""The files of a store's folder: what is where, what the log says, and what a kill leaves.

    store/
        encoder.safetensors           the encoder of all contributions; a folder with it is a store
        limits.toml                   what clients may send; without it, the defaults
        contributions/CLIENT.stats    a file of this form is a client: the very bytes that were sent
        log.jsonl                     what came, was refused and removed
        .lock                         held by the one process that may change the store

The log says each step before it is done. Where a kill has come between, log and folder disagree;
the folder is the truth, and the next writer adds a line to the log that says so (`settle`).
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote_to_bytes

from filelock import FileLock, Timeout

from safle.basics import atomic
from safle.basics.journal import Row, append_event, read_rows, take_lock
from safle.encoders.base import Encoder
from safle.errors import InvalidInput, StoreError

ENCODER = "encoder.safetensors"
LIMITS = "limits.toml"
CONTRIBUTIONS = "contributions"
LOG = "log.jsonl"
LOCK = ".lock"
SUFFIX = ".stats"
MAX_NAME_BYTES = 240
"""Bytes of a file's name; with what a write in progress adds, it fits the usual limit of 255."""
SECONDS_TO_WAIT = 5.0
RECEIVING = "receiving"
RECEIVED = "received"
REMOVED = "removed"
INTERRUPTED = "interrupted"
STILL_THERE = "still there"
_ENDS = {
    (RECEIVING, True): RECEIVED,
    (RECEIVING, False): INTERRUPTED,
    (REMOVED, True): STILL_THERE,
}
"""What the log says last of a client, and whether its file is there -> what it should say."""
_STEPS = {RECEIVING, RECEIVED, REMOVED, INTERRUPTED, STILL_THERE}
_PART = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.part")
"""A write in progress, as `safle.basics.atomic` names it."""


def is_store(folder: Path) -> bool:
    """Whether a folder is a store."""
    return (folder / ENCODER).is_file()


@contextmanager
def locking(folder: Path, seconds: float) -> Iterator[FileLock]:
    """The lock of the one process that may change the store; freed at once if the block fails."""
    try:
        lock = take_lock(folder / LOCK, seconds=seconds)
    except Timeout:
        raise StoreError(
            f"{folder}: another process is changing this store, perhaps a round that is under way; "
            "wait until it has finished"
        ) from None
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


def make(folder: Path, encoder: Encoder) -> None:
    """Make a store of what `check_unused` accepts; the encoder comes last, and makes it one."""
    check_unused(folder)
    atomic.make_folder(folder / CONTRIBUTIONS)
    encoder.save(folder / ENCODER)


def check_unused(folder: Path) -> None:
    """Refuse a folder with files of others; what an interrupted `make` has left may stay."""
    if not folder.exists() or is_store(folder):
        return
    for path in folder.iterdir():
        if path.name not in (CONTRIBUTIONS, LOCK) and not _is_part(path, ENCODER):
            raise StoreError(
                f"{folder} is not a store and holds other files ({path.name}); choose a new or an "
                "empty folder"
            )
    inside = folder / CONTRIBUTIONS
    if inside.is_symlink() or (inside.exists() and any(inside.iterdir())):
        raise StoreError(f"{inside} is a link or not empty; choose a new or an empty folder")


def contributions(folder: Path) -> Path:
    """The folder of the contributions; `StoreError` if it is missing or a link."""
    inside = folder / CONTRIBUTIONS
    if inside.is_symlink() or not inside.is_dir():
        raise StoreError(f"{inside} is missing or a link; bring the store's folder back")
    return inside


def path_of(folder: Path, client: str) -> Path:
    """Where a client's contribution is, or would be."""
    return contributions(folder) / file_name_of(client)


def read(folder: Path) -> tuple[dict[str, Row], dict[str, Path]]:
    """What the log says last of each client; and the clients' files, in the order of their coming.

    Those that the log does not know are last, by their age.
    """
    while True:
        size = _log_size(folder)
        log = read_log(folder)
        files = {client: path for path, client in _scan(folder) if client is not None}
        # A writer may take out a client after we have read that it is in.
        if not find_missing(log, folder, files) or _log_size(folder) == size:
            break
    known = [client for client in log if client in files]
    unknown = sorted(files.keys() - log.keys(), key=lambda client: _age_of(files[client]))
    return log, {client: files[client] for client in [*known, *unknown]}


def read_log(folder: Path) -> dict[str, Row]:
    """What the log says last of each client, in the order in which they came.

    The time of a row is when the contribution came.
    """
    last: dict[str, Row] = {}
    rows = read_rows(folder / LOG) if (folder / LOG).exists() else []
    for row in rows:
        if row["event"] not in _STEPS:
            continue
        client = row["who"]
        if row["event"] == RECEIVING:
            last.pop(client, None)
        came = last.get(client, row)["time"]
        last[client] = {**row, "time": came}
    return last


def find_missing(log: Mapping[str, Row], folder: Path, files: Collection[str]) -> dict[str, str]:
    """Clients that came and were not removed, and have no file; and what to do."""
    there = (RECEIVED, STILL_THERE)
    missing = (who for who, row in log.items() if row["event"] in there and who not in files)
    return {
        client: f"{path_of(folder, client)}: the contribution of {client!r} is missing; get it "
        "from the client and add it again, or remove the client"
        for client in missing
    }


def find_foreign(folder: Path) -> list[Path]:
    """What is among the contributions but is not one; the store never touches it."""
    return sorted(path for path, client in _scan(folder) if client is None and not _is_ours(path))


def find_parts(folder: Path) -> list[Path]:
    """Writes that were interrupted."""
    inside = [path for path, _ in _scan(folder) if _is_ours(path)]
    beside = [path for path in folder.iterdir() if _is_part(path, ENCODER, LIMITS)]
    return sorted([*inside, *beside])


def settle(folder: Path) -> None:
    """Finish what kills have interrupted; only for the holder of the lock."""
    for path in find_parts(folder):
        path.unlink(missing_ok=True)
    log, files = read(folder)
    for client, row in log.items():
        end = _ENDS.get((row["event"], client in files))
        if end is not None:
            append_event(folder / LOG, end, who=client, sha256=row["sha256"])


def _scan(folder: Path) -> Iterator[tuple[Path, str | None]]:
    """Everything among the contributions, and its client; links and folders have none."""
    with os.scandir(contributions(folder)) as entries:
        for entry in entries:
            is_file = entry.is_file(follow_symlinks=False)
            yield Path(entry.path), client_of(entry.name) if is_file else None


def _is_ours(path: Path) -> bool:
    return _is_part(path) and client_of(_PART.sub(r"\1", path.name)) is not None


def _is_part(path: Path, *names: str) -> bool:
    found = _PART.fullmatch(path.name)
    right = found is not None and (not names or found[1] in names)
    return right and path.is_file() and not path.is_symlink()


def _log_size(folder: Path) -> int:
    path = folder / LOG
    return path.stat().st_size if path.exists() else 0


def _age_of(path: Path) -> tuple[float, str]:
    return path.stat().st_mtime, path.name


def check_client(name: object) -> str:
    """A client's name, or `InvalidInput`.

    >>> check_client("hospital-a")
    'hospital-a'
    """
    if (
        not isinstance(name, str)
        or not name
        or not name.isprintable()
        or name != name.strip()
        or len(file_name_of(name).encode()) > MAX_NAME_BYTES
    ):
        raise InvalidInput(
            f"the client's name is {str(name)[:80]!r}; expected one line without spaces around it, "
            f"of at least one character, whose file name takes at most {MAX_NAME_BYTES} bytes"
        )
    return name


def file_name_of(client: str) -> str:
    """The name of a client's file, which no system confuses with a folder, a command or another.

    Letters and digits of any script, ``-``, ``_``, space and inner ``.`` stay; all else is ``%XX``.

    >>> file_name_of("Klinik Süd"), file_name_of("../etc"), file_name_of("a.b")
    ('Klinik Süd.stats', '%2E.%2Fetc.stats', 'a.b.stats')
    """
    kept = "".join(char if _stays(char) else _escape(char) for char in client)
    # Letters may be one character only together, as the parts of a Korean syllable.
    if unicodedata.normalize("NFC", kept) != kept:
        kept = "".join(char if char.isascii() else _escape(char) for char in kept)
    for end in ("^[.]", "[.]$"):
        kept = re.sub(end, "%2E", kept)
    return kept + SUFFIX


def client_of(file_name: str) -> str | None:
    """The client whose file has this name; None without one.

    >>> client_of("%2E.%2Fetc.stats"), client_of("thesis.txt"), client_of("%61.stats")
    ('../etc', None, None)
    """
    stem = file_name.removesuffix(SUFFIX)
    try:
        client = check_client(unquote_to_bytes(stem).decode())
    except (ValueError, InvalidInput):
        return None
    return client if file_name_of(client) == file_name else None


def fold(client: str) -> str:
    """Equal for names that some file systems take for one."""
    return unicodedata.normalize("NFC", client.casefold())


def _stays(char: str) -> bool:
    return char in "-_. " or unicodedata.category(char)[0] == "L" or char.isdecimal()


def _escape(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode(errors="surrogatepass"))
