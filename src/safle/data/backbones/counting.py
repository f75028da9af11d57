"""Images -> statistics in one pass; an interrupted run goes on from its last checkpoint.

Statistics add up, so what has been counted so far is itself a checkpoint: ``<output>.partial``
holds it, behind a line of JSON that says of which images. No features are in it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safle._internal import atomic
from safle.data.backbones.extraction import DEFAULT_BATCH, Batch, extract
from safle.data.backbones.loading import Backbone
from safle.data.backbones.unreadable import DEFAULT_SHARE, Unreadables
from safle.data.images import ImageSource
from safle.encoders import Encoder
from safle.errors import ImageError, WireError
from safle.statistics import Accumulator, Statistics
from safle.wire import decode_statistics, encode_statistics

SECONDS_BETWEEN = 60.0
SHARE_OF_TIME = 0.05
"""Checkpoints of very wide encoders are large; they may take this share of the time."""


@dataclass
class Checkpoint:
    """How far a run has come.

    Attributes
    ----------
    path : the file it is kept in
    header : what must be equal for a run to be the same: images, backbone, encoder
    images : images that are counted, readable or not
    """

    path: Path
    header: dict[str, Any]
    images: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def restore(self, encoder: Encoder) -> Statistics | None:
        """The statistics that an earlier run got to; None if there is none to go on from."""
        try:
            first, _, data = self.path.read_bytes().partition(b"\n")
            content = json.loads(first)
            if content["header"] != self.header:
                return None
            statistics = decode_statistics(data, fingerprint=encoder.fingerprint)
        except (FileNotFoundError, WireError, ValueError, KeyError, TypeError):
            return None
        self.images = content["images"]
        self.unreadable = [(name, reason) for name, reason in content["unreadable"]]
        return statistics

    def write(self, statistics: Statistics) -> None:
        """Replace the last checkpoint by one of ``statistics``."""
        content = {"header": self.header, "images": self.images, "unreadable": self.unreadable}
        data = json.dumps(content).encode() + b"\n" + encode_statistics(statistics)
        atomic.write_bytes(self.path, data)


def count_images(
    images: ImageSource,
    backbone: Backbone,
    encoder: Encoder,
    output: Path,
    *,
    batch: int = DEFAULT_BATCH,
    workers: int | None = None,
    max_unreadable: float = DEFAULT_SHARE,
    advance: Callable[[int], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
    seconds_between: float = SECONDS_BETWEEN,
) -> tuple[Statistics, Unreadables]:
    """Statistics of all images that can be read, and those that cannot.

    Parameters
    ----------
    output : the statistics file to be; checkpoint and report are kept beside it
    advance : called with the number of images done
    note : called with remarks for the user
    seconds_between : checkpoints
    """
    header = {
        "source": backbone.source,
        "listing": images.digest(),
        "encoder": encoder.fingerprint,
    }
    progress = Checkpoint(output.with_name(output.name + ".partial"), header)
    total = progress.restore(encoder)
    if progress.images:
        note(f"resuming: {progress.images:,} of {len(images):,} images are counted")
    unreadable = Unreadables.beside(output, total=len(images), most=max_unreadable)
    unreadable.add(progress.unreadable[:])
    advance(progress.images)
    running = _Running(encoder, progress, total, seconds_between)
    for part in extract(images.records(progress.images), backbone, batch=batch, workers=workers):
        _add(running.total, part)
        progress.images += part.images
        progress.unreadable += part.unreadable
        unreadable.add(part.unreadable)
        running.keep()
        advance(progress.images)
    unreadable.write()
    result = running.total.snapshot()
    progress.path.unlink(missing_ok=True)
    return result, unreadable


class _Running:
    """What is counted, and when it was last written down."""

    def __init__(
        self, encoder: Encoder, progress: Checkpoint, total: Statistics | None, seconds: float
    ) -> None:
        self.total = Accumulator(encoder)
        if total is not None:
            self.total.add(total)
        self._progress = progress
        self._wait = self._least_wait = seconds
        self._written = time.monotonic()

    def keep(self) -> None:
        """Write a checkpoint if it is time for one."""
        begun = time.monotonic()
        if begun - self._written <= self._wait:
            return
        self._progress.write(self.total.snapshot())
        self._written = time.monotonic()
        self._wait = max(self._least_wait, (self._written - begun) / SHARE_OF_TIME)


def _add(total: Accumulator, part: Batch) -> None:
    if None in part.labels:
        raise ImageError(
            "some images have no label; expected a class for each: name them with --labels FILE"
        )
    if part.labels:
        total.add_samples(part.features, [label for label in part.labels if label is not None])
