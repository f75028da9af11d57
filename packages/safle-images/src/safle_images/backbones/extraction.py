"""Extraction: a stream of images -> batches of features, in order, with bounded memory.

Workers are threads, since Pillow and ONNX Runtime release the interpreter's lock. They decode
ahead, and a call of the network begins when its slots are full: unreadable images are skipped. On
processors the same workers run the calls; a card has callers of its own.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from safle.errors import BackboneError, ImageError
from safle_images.backbones.devices import CPU
from safle_images.backbones.loading import Backbone
from safle_images.backbones.preprocessing import Preprocessing
from safle_images.readers import Label, Record, decode

log = logging.getLogger(__name__)
CALLS_OF_A_BATCH = 8
CALLERS = 2
"""Calls of a card at a time: one runs while the next is prepared."""
BYTES_OF_ONE = 4 * 2**20
"""An encoded image of more bytes counts as several: fewer large photographs are read ahead."""
Item = TypeVar("Item")
Result = TypeVar("Result")


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
    batch: int | None = None,
    workers: int | None = None,
) -> Iterator[Batch]:
    """Features of all images, in their order.

    Parameters
    ----------
    batch : images of every `Batch` except the last, by default those of eight full calls; the
        features do not depend on it
    workers : threads, by default one for each processor that this process may use; the features
        do not depend on them

    Examples
    --------
    A backbone of three features, the mean of each colour:

    >>> from safle_images.backbones import Preprocessing
    >>> class MeanColour:
    ...     device, slots, used = "cpu", 4, 4
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
    network = backbone.network
    threads = workers or _usable_processors()
    decoders = ThreadPoolExecutor(threads, thread_name_prefix="safle-images")
    callers = decoders
    calls_ahead = threads
    if network.device != CPU:
        callers = ThreadPoolExecutor(CALLERS, thread_name_prefix="safle-card")
        calls_ahead = CALLERS
    prepare = partial(_prepare, backbone.preprocessing)
    # While calls run, the next ones' images are decoded.
    images_ahead = 2 * (network.used + threads)
    try:
        images = _in_order(decoders, prepare, records, images_ahead, _weight)
        calls = _calls(images, network.used)
        done = _in_order(callers, partial(_run, backbone), calls, calls_ahead)
        size = batch or CALLS_OF_A_BATCH * network.used
        yield from _batches(chain.from_iterable(done), size, backbone.feature_dim)
    finally:
        for pool in (decoders, callers):
            pool.shutdown(wait=True, cancel_futures=True)


def _in_order(
    pool: ThreadPoolExecutor,
    work: Callable[[Item], Result],
    items: Iterable[Item],
    most: int,
    weight: Callable[[Item], int] = lambda _: 1,
) -> Iterator[Result]:
    """What ``work`` gives for each item, in order; items of ``most`` weight are under way."""
    pending: deque[tuple[Future[Result], int]] = deque()
    under_way = 0
    for item in items:
        pending.append((pool.submit(work, item), weight(item)))
        under_way += pending[-1][1]
        while under_way > most:
            future, weighs = pending.popleft()
            under_way -= weighs
            yield future.result()
    while pending:
        yield pending.popleft()[0].result()


def _weight(record: Record) -> int:
    data = record.data
    size = data.nbytes if isinstance(data, np.ndarray) else len(data)
    return 1 + size // BYTES_OF_ONE


@dataclass(eq=False)
class _Image:
    """An image on its way: ``values`` are the network's input, then the features."""

    name: str
    label: Label
    values: NDArray[np.float32] | None = None
    reason: str = ""


def _prepare(preprocessing: Preprocessing, record: Record) -> _Image:
    """Decode, resize and normalise one image."""
    image = _Image(record.name, record.label)
    values = np.empty((3, preprocessing.crop, preprocessing.crop), np.float32)
    try:
        preprocessing.normalise(preprocessing.fit(decode(record.data)), values)
    except ImageError as error:
        log.info("%s: left out: %s", record.name, error)
        image.reason = str(error)
    else:
        image.values = values
    return image


def _calls(images: Iterable[_Image], used: int) -> Iterator[list[_Image]]:
    """Images that fill a call, ``used`` readable ones; fewer at the end."""
    call: list[_Image] = []
    filled = 0
    for image in images:
        call.append(image)
        filled += image.values is not None
        # A source with only unreadable images is noticed soon.
        if filled == used or len(call) > 4 * used:
            yield call
            call = []
            filled = 0
    if call:
        yield call


def _run(backbone: Backbone, images: list[_Image]) -> list[_Image]:
    """One call of the network, on those images that could be read."""
    readable = [image for image in images if image.values is not None]
    if not readable:
        return images
    side = backbone.preprocessing.crop
    inputs = np.zeros((backbone.network.slots, 3, side, side), np.float32)
    for slot, image in enumerate(readable):
        inputs[slot] = image.values
    features = backbone.network(inputs)[: len(readable)]
    if features.shape[1] != backbone.feature_dim:
        raise BackboneError(
            f"{backbone.name} gave {features.shape[1]} features; expected {backbone.feature_dim}"
        )
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        raise BackboneError(
            f"{backbone.name}: features of {readable[int(np.argmin(finite))].name} are not finite; "
            "expected finite numbers: check its preprocessing and weights, or leave --half out"
        )
    for image, row in zip(readable, features, strict=True):
        image.values = row
    return images


def _batches(images: Iterator[_Image], size: int, feature_dim: int) -> Iterator[Batch]:
    while group := [*islice(images, size)]:
        readable = [image for image in group if image.values is not None]
        features = np.empty((len(readable), feature_dim), np.float32)
        for row, image in enumerate(readable):
            features[row] = image.values
        yield Batch(
            len(group),
            features,
            [image.name for image in readable],
            [image.label for image in readable],
            [(image.name, image.reason) for image in group if image.values is None],
        )
