"""Extraction: a stream of images -> batches of features, in order, with bounded memory.

Workers are threads: Pillow and ONNX Runtime release the interpreter's lock, so one worker decodes
while another runs the network. At most one batch more than there are workers is in memory.
"""

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from safle.errors import BackboneError, ImageError
from safle_images.backbones.loading import Backbone
from safle_images.readers import Label, Record, decode

log = logging.getLogger(__name__)
DEFAULT_BATCH = 32
MOST_BYTES = 32 * 2**20
"""Bytes of encoded images per batch: large photographs make smaller batches."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive images, and the features of those that could be read.

    Attributes
    ----------
    images : number of images, readable or not
    features : float32, (readable, feature_dim)
    names, labels : of the readable ones
    unreadable : name and reason of the others

    Examples
    --------
    >>> one = np.zeros((1, 512), np.float32)
    >>> Batch(2, one, ["a.png"], ["cat"], [("b.png", "cut short")]).images
    2
    """

    images: int
    features: NDArray[np.float32]
    names: list[str]
    labels: list[Label]
    unreadable: list[tuple[str, str]]


def _usable_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def extract(
    records: Iterable[Record],
    backbone: Backbone,
    *,
    batch: int = DEFAULT_BATCH,
    workers: int | None = None,
) -> Iterator[Batch]:
    """Features of all images, in their order.

    Parameters
    ----------
    batch : images per task of a worker; the features do not depend on it
    workers : threads, by default one for each processor that this process may use; the features
        do not depend on them

    Examples
    --------
    A backbone of three features, the mean of each colour:

    >>> from safle_images.backbones import Preprocessing
    >>> class MeanColour:
    ...     slots = used = 4
    ...     def __call__(self, images):
    ...         return images.mean((2, 3))
    >>> plain = Preprocessing(
    ...     resize=8, crop=8, interpolation="bilinear", mean=(0, 0, 0), deviation=(1, 1, 1)
    ... )
    >>> backbone = Backbone("toy", "toy", plain, MeanColour(), 3)
    >>> red = Record("1.png", "red", np.full((9, 9, 3), (255, 0, 0), np.uint8))
    >>> [batch] = extract([red], backbone)
    >>> batch.features.tolist(), batch.names, batch.labels
    ([[255.0, 0.0, 0.0]], ['1.png'], ['red'])
    """
    threads = workers or _usable_processors()
    work = partial(_features, backbone)
    pending: deque[Future[Batch]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="safle-features")
    try:
        for group in _groups(records, batch):
            pending.append(pool.submit(work, group))
            # One more than there are workers, so that no worker waits for the reader.
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _groups(records: Iterable[Record], size: int) -> Iterator[list[Record]]:
    group: list[Record] = []
    size_in_bytes = 0
    for record in records:
        group.append(record)
        data = record.data
        size_in_bytes += data.nbytes if isinstance(data, np.ndarray) else len(data)
        if len(group) == size or size_in_bytes >= MOST_BYTES:
            yield group
            group, size_in_bytes = [], 0
    if group:
        yield group


def _features(backbone: Backbone, records: list[Record]) -> Batch:
    """One worker's task: decode, resize and normalise images, and run the network on them."""
    network, preprocessing = backbone.network, backbone.preprocessing
    shape = (network.slots, 3, preprocessing.crop, preprocessing.crop)
    names: list[str] = []
    labels: list[Label] = []
    unreadable: list[tuple[str, str]] = []
    outputs = [np.empty((0, backbone.feature_dim), np.float32)]
    images, filled = np.zeros(shape, np.float32), 0
    for at, record in enumerate(records):
        try:
            preprocessing.normalise(preprocessing.fit(decode(record.data)), images[filled])
        except ImageError as error:
            log.info("%s: left out: %s", record.name, error)
            unreadable.append((record.name, str(error)))
        else:
            names.append(record.name)
            labels.append(record.label)
            filled += 1
        if filled == network.used or (filled and at == len(records) - 1):
            # Images of an earlier call in the other slots do no harm: slots are independent.
            outputs.append(network(images)[:filled])
            if outputs[-1].shape[1] != backbone.feature_dim:
                raise BackboneError(
                    f"{backbone.name} gave {outputs[-1].shape[1]} features; expected "
                    f"{backbone.feature_dim}"
                )
            filled = 0
    features = np.concatenate(outputs)
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        raise BackboneError(
            f"{backbone.name}: features of {names[int(np.argmin(finite))]} are not finite; "
            "expected finite numbers: check its preprocessing and weights"
        )
    return Batch(len(records), features, names, labels, unreadable)
