r"""An unfinished run on disk: features appended to one file, what they are to another.

``<output>.partial`` holds rows of float32 and nothing else. ``<output>.journal`` holds a line
of JSON a batch: images and rows so far, labels, unreadable images, and the CRC-32 of its rows.
A batch counts once its line is whole and its rows match, so a kill at any moment loses at most
the batches in flight. Nothing is ever rewritten but a torn end.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np

from safle.data.backbones.extraction import Batch
from safle.data.images import Label
from safle.errors import ImageError

FORMAT = "safle-features-journal-1"
SECONDS_BETWEEN_SYNCS = 2.0


class Journal:
    """Opened, it stands where the last run with the same ``header`` stopped, or at 0.

    Parameters
    ----------
    output : the features file to be
    header : what must be equal for a run to be the same: images, backbone, sizes

    Attributes
    ----------
    images : images that are done, readable or not
    labels : of the rows that are written
    unreadable : name and reason
    resumed : images that an earlier run had done
    discarded : an unfinished run of something else was found and dropped
    """

    def __init__(self, output: Path, *, feature_dim: int, header: dict[str, Any]) -> None:
        self.partial = output.with_name(output.name + ".partial")
        self.journal = output.with_name(output.name + ".journal")
        self.images = 0
        self.labels: list[Label] = []
        self.unreadable: list[tuple[str, str]] = []
        self.discarded = False
        self._row_bytes = 4 * feature_dim
        self._header = {"format": FORMAT, "feature_dim": feature_dim, **header}
        self._lines = _open(self.journal)
        self._lock()
        self._rows = _open(self.partial)
        self._restore()
        self.resumed = self.images
        self._synced = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sync()
        self._rows.close()
        self._lines.close()

    def append(self, batch: Batch) -> None:
        """Add a batch: its rows, then the line that makes them count."""
        data = np.ascontiguousarray(batch.features, dtype="<f4").tobytes()
        self._rows.write(data)
        self._rows.flush()
        self._write_line(
            {
                "images": batch.images,
                "labels": batch.labels,
                "unreadable": batch.unreadable,
                "crc": zlib.crc32(data),
            }
        )
        self._count(batch.images, batch.labels, batch.unreadable)
        if time.monotonic() - self._synced > SECONDS_BETWEEN_SYNCS:
            self.sync()

    def sync(self) -> None:
        """Bring everything so far to the disk."""
        for file in (self._rows, self._lines):
            file.flush()
            os.fsync(file.fileno())
        self._synced = time.monotonic()

    def remove(self) -> None:
        """Delete both files: the run is finished."""
        self.partial.unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ImageError(
                f"{self.journal}: another run is writing the same features; wait for it or choose "
                "another output"
            ) from None

    def _restore(self) -> None:
        self._lines.seek(0)
        first = _parse(self._lines.readline())
        if first != self._header:
            self.discarded = first is not None
            self._truncate(self._lines, 0)
            self._truncate(self._rows, 0)
            self._write_line(self._header)
            return
        rows_end, lines_end = 0, self._lines.tell()
        for line in self._lines:
            entry = _parse(line)
            if entry is None:
                break
            size = len(entry["labels"]) * self._row_bytes
            self._rows.seek(rows_end)
            data = self._rows.read(size)
            if len(data) != size or zlib.crc32(data) != entry["crc"]:
                break
            self._count(entry["images"], entry["labels"], [(n, r) for n, r in entry["unreadable"]])
            rows_end, lines_end = rows_end + size, lines_end + len(line)
        self._truncate(self._rows, rows_end)
        self._truncate(self._lines, lines_end)

    def _count(self, images: int, labels: list[Label], unreadable: list[tuple[str, str]]) -> None:
        self.images += images
        self.labels += labels
        self.unreadable += unreadable

    def _write_line(self, content: dict[str, Any]) -> None:
        self._lines.write(json.dumps(content).encode() + b"\n")
        self._lines.flush()

    @staticmethod
    def _truncate(file: BinaryIO, size: int) -> None:
        file.truncate(size)
        file.seek(size)


def _open(path: Path) -> BinaryIO:
    path.touch()
    return path.open("r+b")


def _parse(line: bytes) -> dict[str, Any] | None:
    """A whole line's content; None for a torn one."""
    if not line.endswith(b"\n"):
        return None
    try:
        content = json.loads(line)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
