"""An unfinished run on disk: ``<output>.partial``, a SQLite database with a write-ahead log.

An entry is some images that are done, with what came of them. It is there whole or not at all,
so a kill at any moment loses at most what was in flight. The run that writes it holds it alone.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from safle.errors import ImageError
from safle_images.backbones.extraction import Batch
from safle_images.readers import Label

FORMAT = "safle-journal-5"
_TABLES = """
BEGIN;
DELETE FROM run;
DROP TABLE IF EXISTS entries;
CREATE TABLE entries (about TEXT NOT NULL, data BLOB NOT NULL);
"""


class Journal:
    """Opened, it stands where the last run with the same ``header`` stopped, or at 0.

    Parameters
    ----------
    output : the file to be
    header : what must be equal for a run to be the same: images, backbone

    Attributes
    ----------
    images : images that are done, readable or not
    names, labels : of the rows that are kept
    unreadable : name and reason
    discarded : an unfinished run of something else was found and dropped
    """

    def __init__(self, output: Path, header: dict[str, Any]) -> None:
        self.path = output.with_name(output.name + ".partial")
        self.images = 0
        self.names: list[str] = []
        self.labels: list[Label] = []
        self.unreadable: list[tuple[str, str]] = []
        text = json.dumps({"format": FORMAT, **header}, sort_keys=True)
        with self._checked():
            self._base = sqlite3.connect(self.path, timeout=0, isolation_level=None)
            for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=NORMAL"):
                self._base.execute(f"PRAGMA {pragma}")
            self._base.execute("CREATE TABLE IF NOT EXISTS run (header TEXT NOT NULL)")
            (found,) = self._base.execute("SELECT max(header) FROM run").fetchone()
            self.discarded = found not in (None, text)
            if found != text:
                self._base.executescript(_TABLES)
                self._base.execute("INSERT INTO run VALUES (?)", [text])
                self._base.execute("COMMIT")
            for (about,) in self._base.execute("SELECT about FROM entries ORDER BY rowid"):
                self._count(about)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def append(self, part: Batch, data: bytes) -> None:
        """Add an entry behind those there are; ``data`` stand for the batch's features."""
        about = json.dumps([part.images, part.names, part.labels, part.unreadable])
        with self._checked():
            self._base.execute("INSERT INTO entries VALUES (?, ?)", (about, data))
        self._count(about)

    def data(self) -> Iterator[bytes]:
        """The data of all entries, one behind the other."""
        with self._checked():
            for (part,) in self._base.execute("SELECT data FROM entries ORDER BY rowid"):
                yield part

    def remove(self) -> None:
        """Delete it: the run is finished."""
        self._base.close()
        self.path.unlink(missing_ok=True)

    def _count(self, about: str) -> None:
        images, names, labels, unreadable = json.loads(about)
        self.images += images
        self.names += names
        self.labels += labels
        self.unreadable += [(name, reason) for name, reason in unreadable]

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise ImageError(
                    f"{self.path}: another run is writing the same output; wait for it or choose "
                    "another output"
                ) from None
            raise ImageError(
                f"{self.path}: the journal of an unfinished run cannot be used ({error}); make "
                "room if the disk is full, else delete it to begin again"
            ) from error
