"""Images -> statistics in one pass; an interrupted run goes on from its last checkpoint.

Statistics add up, so what has been counted so far is itself a checkpoint; no features are in it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Unpack

from safle.data.backbones.extraction import Batch
from safle.data.backbones.loading import Backbone
from safle.data.backbones.runs import Options, Run, Unreadables
from safle.data.images import ImageSource
from safle.encoders import Encoder
from safle.errors import ImageError
from safle.statistics import Accumulator, Statistics
from safle.wire import decode_statistics, encode_statistics

SECONDS_BETWEEN = 60.0
SHARE_OF_TIME = 0.05
"""Checkpoints of very wide encoders are large; they may take this share of the time."""


def count_images(
    images: ImageSource,
    backbone: Backbone,
    encoder: Encoder,
    output: Path,
    *,
    seconds_between: float = SECONDS_BETWEEN,
    **options: Unpack[Options],
) -> tuple[Statistics, Unreadables]:
    """Statistics of all images that can be read, and those that cannot.

    Parameters
    ----------
    output : the statistics file to be; checkpoint and report are kept beside it
    seconds_between : checkpoints
    options : see `Options`
    """
    with Run(images, backbone, output, {"encoder": encoder.fingerprint}, **options) as run:
        total = Accumulator(encoder)
        if run.resumed:
            data = b"".join(run.journal.data())
            total.add(decode_statistics(data, made=encoder))
        written, wait = time.monotonic(), seconds_between
        found = run.journal.unreadable[:]
        for part in run.batches():
            _add(total, part)
            found += part.unreadable
            begun = time.monotonic()
            if begun - written > wait:
                run.journal.replace(run.done, found, encode_statistics(total.snapshot()))
                written = time.monotonic()
                wait = max(seconds_between, (written - begun) / SHARE_OF_TIME)
        result = total.snapshot()
        run.finish()
        return result, run.unreadable


def _add(total: Accumulator, part: Batch) -> None:
    if None in part.labels:
        raise ImageError(
            "some images have no label; expected a class for each: name them with --labels FILE"
        )
    if part.labels:
        total.add_samples(part.features, [label for label in part.labels if label is not None])
