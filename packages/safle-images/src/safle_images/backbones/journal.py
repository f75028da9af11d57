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

FORMAT = "safle-journal-4"
_TABLES = """
BEGIN;
DROP TABLE IF EXISTS run; DROP TABLE IF EXISTS entries;
CREATE TABLE run (header TEXT NOT NULL);
CREATE TABLE entries (
    images INTEGER NOT NULL, samples TEXT NOT NULL, unreadable TEXT NOT NULL, data BLOB NOT NULL
);
"""
_DONE = "SELECT images, samples, unreadable FROM entries"


class Journal:
    """Opened, it stands where the last run with the same ``header`` stopped, or at 0.

    Parameters
    ----------
    output : the file to be
    header : what must be equal for a run to be the same: images, backbone, encoder

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
            for pragma in (
                "locking_mode = EXCLUSIVE",
                "journal_mode = WAL",
                "synchronous = NORMAL",
            ):
                self._base.execute(f"PRAGMA {pragma}")
            found = self._header()
            self.discarded = found not in (None, text)
            if found != text:
                self._base.executescript(_TABLES)
                self._base.execute("INSERT INTO run VALUES (?)", [text])
                self._base.execute("COMMIT")
            for images, samples, unreadable in self._base.execute(_DONE):
                names, labels = json.loads(samples)
                self._count(images, names, labels, json.loads(unreadable))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def append(self, part: Batch, data: bytes) -> None:
        """Add an entry behind those there are; ``data`` stand for the batch's features."""
        texts = json.dumps([part.names, part.labels]), json.dumps(part.unreadable)
        with self._checked():
            self._base.execute(
                "INSERT INTO entries VALUES (?, ?, ?, ?)", (part.images, *texts, data)
            )
        self._count(part.images, part.names, part.labels, part.unreadable)

    def data(self) -> Iterator[bytes]:
        """The data of all entries, one behind the other."""
        with self._checked():
            for (part,) in self._base.execute("SELECT data FROM entries ORDER BY rowid"):
                yield part

    def remove(self) -> None:
        """Delete it: the run is finished."""
        self._base.close()
        self.path.unlink(missing_ok=True)

    def _header(self) -> str | None:
        # The first statement that reads is the first that needs the lock.
        if not self._base.execute("SELECT 1 FROM sqlite_master WHERE name = 'run'").fetchone():
            return None
        row = self._base.execute("SELECT header FROM run").fetchone()
        return None if row is None else str(row[0])

    def _count(
        self,
        images: int,
        names: list[str],
        labels: list[Label],
        unreadable: list[tuple[str, str]],
    ) -> None:
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
