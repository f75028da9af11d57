"""Images -> a features file: resumable on the way, whole or not there at the end.

An unfinished run is ``<output>.partial``, a sealed file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from safle.basics import SealedFile, atomic, printable
from safle.errors import ImageError
from safle.tables import write_features_file
from safle_images.backbones.extraction import DEFAULT_BATCH, Batch, extract
from safle_images.backbones.loading import Backbone
from safle_images.readers import ImageSource, Label

DEFAULT_SHARE = 0.01
_TABLES = {"run": ("header",), "entries": ("about", "data")}
_UNUSABLE = (
    "the journal of an unfinished run cannot be used ({error}); if another run is writing the same "
    "output, wait for it or choose another output; make room if the disk is full; else delete it "
    "to begin again"
)


@dataclass(frozen=True)
class Written:
    """What a features file holds and how it came about.

    Attributes
    ----------
    samples : rows
    classes : how many; 0 if there are no labels
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
    batch: int = DEFAULT_BATCH,
    workers: int | None = None,
    max_unreadable: float = DEFAULT_SHARE,
    advance: Callable[[int], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
) -> Written:
    """Write the features of all images that can be read.

    A run that was interrupted goes on where it stopped, if images and backbone are the same.

    Parameters
    ----------
    batch : images that a worker takes at a time; the file does not depend on it
    workers : threads; the file does not depend on them
    max_unreadable : share of unreadable images above which it is an error
    advance : called with the number of images done
    note : called with remarks for the user
    """
    report = output.with_name(output.name + ".unreadable.txt")
    header = {"source": backbone.source, "listing": images.digest(), "images": len(images)}
    with Journal(output, header) as journal:
        resumed = journal.images
        if journal.discarded:
            note("an unfinished run with other images or another backbone was begun again")
        elif resumed:
            note(f"resuming: {resumed:,} of {len(images):,} images are done")
        _check_share(journal.unreadable, max_unreadable, len(images), report)
        advance(resumed)
        for part in extract(images.records(resumed), backbone, batch=batch, workers=workers):
            journal.append(part, np.ascontiguousarray(part.features, dtype="<f4").tobytes())
            # Not at the end: a wrong folder should not cost an hour.
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
        )
        _write_report(journal.unreadable, report)
        journal.remove()
    classes = len({*labels}) if labels is not None else 0
    found = journal.unreadable
    return Written(len(journal.names), classes, found, report, resumed)


def _check_share(found: list[tuple[str, str]], most: float, total: int, report: Path) -> None:
    if len(found) > most * total:
        _write_report(found, report)
        name, reason = found[0]
        raise ImageError(
            f"{len(found):,} unreadable images so far, more than {most:.3g} of {total:,} "
            f"(--max-unreadable): {name}: {reason}; all are in {report}"
        )


def _write_report(found: list[tuple[str, str]], report: Path) -> None:
    """List what could not be read; none, and no old list, if everything could."""
    lines = [f"{printable(name)}\t{printable(reason)}\n" for name, reason in found]
    if lines:
        atomic.write_text(report, "".join(lines))
    else:
        report.unlink(missing_ok=True)


def _all_or_none(found: list[Label]) -> list[str | int] | None:
    known = [label for label in found if label is not None]
    if known and len(known) < len(found):
        unknown = len(found) - len(known)
        raise ImageError(
            f"{unknown:,} of {len(found):,} images have no label; expected all or none"
        )
    return known or None


class Journal:
    """An unfinished run; opened, it stands where the last one with the same ``header`` stopped.

    An entry is some images that are done, with what came of them. It is there whole or not at all,
    so a kill at any moment loses at most what was in flight.

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
        text = json.dumps(header, sort_keys=True)
        self._open()
        found = [row[1] for row in self._file.rows("run")]
        self.discarded = found not in ([], [text])
        if self.discarded:
            self.remove()
            self._open()
        if found != [text]:
            with self._file.transaction():
                self._file.append("run", text)
        for _, about, _ in self._file.rows("entries"):
            self._count(about)

    def _open(self) -> None:
        # Alone: another run would take this one's journal for an old one, and delete it.
        self._file = SealedFile(self.path, _TABLES, alone=True, message=_UNUSABLE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, part: Batch, data: bytes) -> None:
        """Add an entry behind those there are; ``data`` stand for the batch's features."""
        about = json.dumps([part.images, part.names, part.labels, part.unreadable])
        with self._file.transaction():
            self._file.append("entries", about, data)
        self._count(about)

    def data(self) -> Iterator[bytes]:
        """The data of all entries, one behind the other."""
        for _, _, data in self._file.rows("entries"):
            yield data

    def remove(self) -> None:
        """Delete it: the run is finished."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def _count(self, about: str) -> None:
        images, names, labels, unreadable = json.loads(about)
        self.images += images
        self.names += names
        self.labels += labels
        self.unreadable += [(name, reason) for name, reason in unreadable]
