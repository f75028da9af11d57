"""Images -> a features file: resumable on the way, whole or not there at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from safle.basics import atomic, printable
from safle.errors import ImageError
from safle.tables import write_features_file
from safle_images.backbones.extraction import DEFAULT_BATCH, extract
from safle_images.backbones.journal import Journal
from safle_images.backbones.loading import Backbone
from safle_images.readers import ImageSource, Label

DEFAULT_SHARE = 0.01


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
