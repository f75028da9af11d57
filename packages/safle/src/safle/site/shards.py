"""Counting many tables of one site: each is read, encoded and counted by itself.

Sums of parts are the sum of the whole, so the bytes are those of one table that holds them all,
whether one process counts them or a Ray cluster.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from safle.basics.cluster import connect, count_processes, run_each
from safle.basics.memory import require_free_memory
from safle.basics.paths import naming
from safle.basics.progress import Progress, no_progress
from safle.encoders.base import Encoder
from safle.errors import SafleWarning
from safle.site.counting import Copies, Hashes, count_and_hash, count_copies, count_some
from safle.site.disguises import Disguises, find_disguises
from safle.statistics.accumulator import Accumulator
from safle.statistics.cells import count_cells
from safle.statistics.statistics import Statistics
from safle.tables.checks import ClassName
from safle.tables.table import Table

SHARDS_PER_PROCESS = 2
"""Under way at a time: one is counted while the next is placed."""
Run = Callable[..., Iterator[Any]]
"""``run(work, items)`` gives what ``work`` gives for each item, in order."""


def count_shards(
    encoder: Encoder,
    shards: Sequence[Any],
    open_shard: Callable[[Any], Table],
    *,
    classes_of: Callable[[Any], Sequence[ClassName] | None] = lambda _: None,
    allow_outside: bool = False,
    least_cell: int = 0,
    ray: str | None = None,
    cards: int = 0,
    progress: Progress = no_progress,
) -> tuple[Statistics, Statistics, Disguises | None]:
    """The statistics of all tables of a site; see `safle.site.counting.count_table`.

    Parameters
    ----------
    shards : what ``open_shard`` opens, such as files, where they are counted
    classes_of : labels of a table -> the allowed ones, or None
    least_cell : of a policy: all tables are then also held in this process's memory
    ray : address of a Ray cluster; "local" starts one, "auto" finds it, None works here
    cards : graphics cards that each shard gets for itself, if the cluster has any

    Examples
    --------
    >>> import numpy as np
    >>> from safle import LinearEncoder, Table, declared_range
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> tables = {"a": Table(np.array([[0.1], [0.9]]), np.array(["ill", "well"]))}
    >>> tables["b"] = Table(np.array([[0.1]]), np.array(["ill"]))
    >>> total, rows, _ = count_shards(encoder, ["a", "b"], tables.get)
    >>> total.sample_count, rows.sample_count
    (3, 2)
    """
    total = Accumulator(encoder.space)
    hashes: list[Hashes] = []
    with _running(ray, cards) as run:
        count = partial(_count, encoder, open_shard, classes_of, allow_outside)
        for shard, (part, found, doubts) in zip(shards, run(count, shards), strict=True):
            with naming(shard):
                total.add(part)
            hashes.append(found)
            for text in doubts:
                named = text if text.startswith(str(shard)) else f"{shard}: {text}"
                warnings.warn(named, SafleWarning, stacklevel=2)
            progress(len(hashes) / len(shards))
        copies = _split(count_copies(np.concatenate(hashes)), hashes)
        repeated = [pair for pair in zip(shards, copies, strict=True) if not pair[1].all()]
        repeats = Accumulator(encoder.space)
        for part in run(partial(_count_repeats, encoder, open_shard), repeated):
            repeats.add(part)
    everything = total.snapshot()
    rows = everything - repeats.snapshot() if repeated else everything
    disguises = None
    if least_cell and rows.sample_count and count_cells(rows.cells).smallest >= least_cell:
        table = _join([_reopen(open_shard, shard) for shard in shards])
        counted = np.concatenate(copies)
        disguises = find_disguises(encoder, table, rows, everything, counted, least_cell)
    return everything, rows, disguises


@contextmanager
def _running(address: str | None, cards: int) -> Iterator[Run]:
    """A function that runs work on many items: here, or on a Ray cluster."""
    if address is None:
        yield map
        return
    ray = connect(address)
    try:
        cards = cards if count_processes(ray, "GPU") else 0
        at_a_time = SHARDS_PER_PROCESS * max(1, count_processes(ray))
        yield partial(run_each, ray, at_a_time=at_a_time, cards=cards)
    finally:
        # This ends the tasks that still run on the cluster.
        ray.shutdown()


def _count(
    encoder: Encoder,
    open_shard: Callable[[Any], Table],
    classes_of: Callable[[Any], Sequence[ClassName] | None],
    allow_outside: bool,
    shard: Any,
) -> tuple[Statistics, Hashes, list[str]]:
    """The statistics of a shard, the hashes of its rows, and what it was warned of."""
    with naming(shard), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SafleWarning)
        table = open_shard(shard)
        classes = classes_of(table.labels)
        counted, hashes = count_and_hash(
            encoder, table, shard, classes=classes, allow_outside=allow_outside
        )
    return counted, hashes, [str(warning.message) for warning in caught]


def _count_repeats(
    encoder: Encoder, open_shard: Callable[[Any], Table], item: tuple[Any, Copies]
) -> Statistics:
    """The statistics of those samples of a shard that repeat the row of another."""
    shard, copies = item
    with naming(shard):
        return count_some(encoder, _reopen(open_shard, shard), copies == 0)


def _reopen(open_shard: Callable[[Any], Table], shard: Any) -> Table:
    """A shard that was counted before, with its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SafleWarning)
        return open_shard(shard)


def _split(copies: Copies, like: Sequence[Hashes]) -> list[Copies]:
    """``copies`` in pieces as long as those of ``like``."""
    return np.split(copies, np.cumsum([len(part) for part in like])[:-1])


def _join(tables: Sequence[Table]) -> Table:
    """One table of the samples of all."""
    size = sum(table.features.nbytes for table in tables)
    require_free_memory(
        size,
        purpose="all shards, which the policy's least_cell judges together",
        advice="count them under masks, or without least_cell",
    )
    features = np.concatenate([table.features for table in tables])
    return Table(features, np.concatenate([np.asarray(table.labels) for table in tables]))
