"""Images -> a features file, by a run that can be resumed; the file appears when it is complete.

The journal of an unfinished run is ``<output>.partial``, a file of SQLite.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from safle.basics import atomic, printable
from safle.errors import ImageError, InvalidInput, StoreError
from safle_images.backbones.extraction import Batch, extract
from safle_images.backbones.features_file import write_features_file
from safle_images.backbones.loading import Backbone
from safle_images.readers import ImageSource, Label

DEFAULT_SHARE = 0.01
_BESIDE = ("", "-journal", "-shm", "-wal")
# Exclusive: a second run would take this journal for an old one, and delete it.
_BEGIN = """
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA synchronous = FULL;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS run (header TEXT);
CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, about TEXT, data BLOB);
COMMIT;
"""


@dataclass(frozen=True)
class Written:
    """Facts about a features file and the run that wrote it.

    Attributes
    ----------
    samples : rows
    classes : number of classes; 0 without labels
    unreadable : name and reason of images that could not be read, in the source's order
    report : the text file that lists them, one per line: name, tab, reason
    resumed : images that an earlier, interrupted run had done
    """

    samples: int
    classes: int
    unreadable: list[tuple[str, str]]
    report: Path
    resumed: int


def write_features(
    images: ImageSource,
    backbone: Backbone,
    output: Path,
    *,
    batch: int | None = None,
    workers: int | None = None,
    max_unreadable: float = DEFAULT_SHARE,
    advance: Callable[[int], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
) -> Written:
    """Write the features of all images that can be read.

    An interrupted run goes on where it stopped, if images, backbone and device are the same.

    Parameters
    ----------
    batch : images that are kept at once, as `extract` takes it; the file does not depend on it
    workers : threads; the file does not depend on them
    max_unreadable : the largest share of unreadable images; with more, the run fails
    advance : called with the number of images done
    note : called with remarks for the user
    """
    report = atomic.check_place(report_of(output))
    device = backbone.network.device
    header = {"source": backbone.source, "listing": images.digest(), "images": len(images)}
    header["device"] = device
    with Journal(output, header) as journal:
        resumed = journal.images
        if journal.discarded:
            note("starting again: the unfinished run had other images, backbone or device")
        elif resumed:
            note(f"resuming: {resumed:,} of {len(images):,} images are done")
        _check_share(journal.unreadable, max_unreadable, len(images), report)
        advance(resumed)
        for part in extract(images.records(resumed), backbone, batch=batch, workers=workers):
            journal.append(part, np.ascontiguousarray(part.features, dtype="<f4").tobytes())
            # After every batch: a wrong folder should not cost an hour.
            _check_share(journal.unreadable, max_unreadable, len(images), report)
            advance(journal.images)
        labels = _all_or_none(journal.labels)
        write_features_file(
            output,
            journal.data(),
            backbone.feature_dim,
            names=journal.names,
            labels=labels,
            source=backbone.source,
            device=device,
        )
        _write_report(journal.unreadable, report)
        journal.remove()
    classes = len({*labels}) if labels is not None else 0
    return Written(len(journal.names), classes, journal.unreadable, report, resumed)


def report_of(output: Path) -> Path:
    """The text file beside a features file that lists the images that could not be read."""
    return output.with_name(output.name + ".unreadable.txt")


def count_unreadable(output: Path) -> int:
    """How many images a finished features file leaves out."""
    report = report_of(output)
    return report.read_text(encoding="utf-8").count("\n") if report.is_file() else 0


def _check_share(unreadable: list[tuple[str, str]], most: float, total: int, report: Path) -> None:
    if len(unreadable) > most * total:
        _write_report(unreadable, report)
        name, reason = unreadable[0]
        raise ImageError(
            f"{len(unreadable):,} unreadable images; expected at most a share of {most:.3g} of "
            f"{total:,} (--max-unreadable): {name}: {reason}; {report} lists all"
        )


def _write_report(unreadable: list[tuple[str, str]], report: Path) -> None:
    """Write the list of unreadable images, or delete an old list if there are none."""
    lines = [f"{printable(name)}\t{printable(reason)}\n" for name, reason in unreadable]
    if lines:
        atomic.write_text(report, "".join(lines))
    else:
        report.unlink(missing_ok=True)


def _all_or_none(labels: list[Label]) -> list[str | int] | None:
    known = [label for label in labels if label is not None]
    if known and len(known) < len(labels):
        unknown = len(labels) - len(known)
        raise ImageError(
            f"{unknown:,} of {len(labels):,} images have no label; expected labels for all or none"
        )
    return known or None


class Journal:
    """The batches that an unfinished run has finished.

    A run with the same ``header`` goes on after the last entry. An entry holds one batch and is
    written in one transaction: a run that is killed loses only the batches in progress.

    Parameters
    ----------
    output : the features file that the run writes
    header : identifies the run: its images and its backbone

    Attributes
    ----------
    images : number of finished images, readable or not
    names, labels : of the readable images
    unreadable : name and reason of the others
    discarded : whether the journal of another run was found and deleted
    """

    def __init__(self, output: Path, header: dict[str, Any]) -> None:
        self.path = output.with_name(output.name + ".partial")
        self.images = 0
        self.names: list[str] = []
        self.labels: list[Label] = []
        self.unreadable: list[tuple[str, str]] = []
        text = json.dumps(header, sort_keys=True)
        self._open()
        headers = [header for (header,) in self._ask("SELECT header FROM run")]
        self.discarded = headers not in ([], [text])
        if self.discarded:
            self.remove()
            self._open()
        if headers != [text]:
            list(self._ask("INSERT INTO run VALUES (?)", text))
        for (about,) in self._ask("SELECT about FROM entries ORDER BY number"):
            self._count(about)

    def _open(self) -> None:
        with self._explaining():
            for suffix in _BESIDE:
                atomic.check_place(f"{self.path}{suffix}")
            self._base = sqlite3.connect(self.path, timeout=0, isolation_level=None)
            try:
                self._base.executescript(_BEGIN)
            except BaseException:
                self._base.close()
                raise

    def _ask(self, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
        with self._explaining():
            yield from self._base.execute(statement, values)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, InvalidInput) as error:
            raise StoreError(
                f"{self.path}: the journal of an unfinished run cannot be used ({error}); if "
                "another run is writing the same output, wait for it or choose another output; "
                "make room if the disk is full; otherwise delete it to begin again"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def append(self, batch: Batch, data: bytes) -> None:
        """Add an entry for a batch; ``data`` are its features."""
        about = json.dumps([batch.images, batch.names, batch.labels, batch.unreadable])
        list(self._ask("INSERT INTO entries (about, data) VALUES (?, ?)", about, data))
        self._count(about)

    def data(self) -> Iterator[bytes]:
        """The data of all entries, in order."""
        for (data,) in self._ask("SELECT data FROM entries ORDER BY number"):
            yield data

    def remove(self) -> None:
        """Delete the journal."""
        self._base.close()
        self.path.unlink(missing_ok=True)

    def _count(self, about: str) -> None:
        images, names, labels, unreadable = json.loads(about)
        self.images += images
        self.names += names
        self.labels += labels
        self.unreadable += [(name, reason) for name, reason in unreadable]
