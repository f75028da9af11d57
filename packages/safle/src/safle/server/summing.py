"""Sums past one process: files are added up in shards, and partial totals in a tree.

Sums are associative, so any number of processes, in any order, give the same bytes. A process
holds its own total and one contribution; what it made goes to a file of plain arrays (worker
processes) or to the cluster's shared memory (Ray). A shard whose process dies is added again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from safle.basics.places import naming
from safle.encoders.codes import Layout
from safle.encoders.made import Made
from safle.errors import FederationError, MissingExtra
from safle.server.contribution import Contribution
from safle.server.limits import Limits
from safle.server.manifest import Listed, Received
from safle.statistics import Accumulator, Statistics
from safle.statistics.value import Margins
from safle.wire.statistics import Admit

LARGEST_SHARD = 64
"""Files: what is done again when a process dies, and finished when another file is refused."""
SHARDS_PER_WORKER = 4
"""Before their totals are added: a bound for the disk, or the cluster's memory."""
FAN_IN = 8
"""Partial totals that one process adds up."""
ATTEMPTS = 3

Progress = Callable[[float], None]
"""Called with the finished share, 0 to 1."""


@dataclass(frozen=True)
class Rules:
    """What the files of a sum must obey: one encoder, these limits, and none twice.

    >>> Rules("0" * 64, Layout((4,))).limits.most_classes
    1000
    """

    fingerprint: str
    layout: Layout
    limits: Limits = field(default_factory=Limits)
    allow_duplicates: bool = False
    threads: int = 1

    def receive(self) -> Received:
        """A list of files that is still empty."""
        return Received(self.limits, allow_duplicates=self.allow_duplicates)


def open_source(
    source: str, made: Made | None = None, admit: Admit = lambda _classes: None
) -> tuple[Statistics, Listed]:
    """The statistics in a file, verified as `Contribution.open` says; errors name it."""
    with naming(source):
        statistics, itself = Contribution.read(source).open(made, admit)
        return statistics, Listed.of(source, "statistics", itself)


def add_sources(
    rules: Rules, sources: Sequence[str], progress: Progress
) -> tuple[Accumulator, Received]:
    """Add up files in this process, one in memory at a time."""
    total, received = Accumulator(rules), rules.receive()
    for done, source in enumerate(sources, start=1):
        statistics, listed = open_source(source, rules, received.admit)
        received.add(listed)
        with naming(source):
            total.add(statistics)
        progress(done / len(sources))
    return total, received


def _add_shard(rules: Rules, *sources: str) -> tuple[list[Listed], Statistics]:
    _limit_threads(rules)
    total, received = add_sources(rules, sources, lambda _share: None)
    return received.files, total.snapshot()


def _add_partials(rules: Rules, *partials: Statistics | Path) -> tuple[list[Listed], Statistics]:
    _limit_threads(rules)
    total = Accumulator(rules)
    for partial in partials:
        total.add(_load(partial, rules) if isinstance(partial, Path) else partial)
    return [], total.snapshot()


def _limit_threads(rules: Rules) -> None:
    """The share of the cores that this process has, once it is known."""
    import numba
    from threadpoolctl import threadpool_limits

    numba.set_num_threads(min(rules.threads, numba.config.NUMBA_NUM_THREADS))
    threadpool_limits(rules.threads)


Work = Callable[..., tuple[list[Listed], Statistics]]


def add_in_shards(
    rules: Rules, sources: Sequence[str], progress: Progress, engine: Processes | RayCluster
) -> tuple[Accumulator, Received]:
    """As `add_sources`, by the processes of an engine."""
    received, partials = rules.receive(), list[Any]()
    at_a_time = SHARDS_PER_WORKER * engine.workers
    size = min(LARGEST_SHARD, -(-len(sources) // at_a_time))
    for wave in _split(_split(sources, size), at_a_time):
        with closing(engine.run(_add_shard, rules, wave)) as shards:
            for files, partial in shards:
                for file in files:
                    received.add(file)
                partials.append(partial)
                progress(len(received.files) / len(sources))
        while len(partials) > FAN_IN:
            groups = _split(partials, FAN_IN)
            partials = [partial for _, partial in engine.run(_add_partials, rules, groups)]
    total = Accumulator(rules)
    for partial in partials:
        total.add(engine.fetch(partial, rules))
    return total, received


def _split(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


class Processes:
    """Worker processes of this machine; partial totals are files in ``folder``."""

    def __init__(self, workers: int, folder: Path) -> None:
        self.workers, self._folder, self._files = workers, folder, count()

    def run(
        self, work: Work, rules: Rules, batches: Sequence[Sequence[Any]]
    ) -> Generator[tuple[list[Listed], Path], None, None]:
        """In order; when a process dies, what was under way is done again."""
        tasks: dict[int, Future[tuple[list[Listed], Path]]] = {}
        at = deaths = 0
        while at < len(batches):
            spawn = multiprocessing.get_context("spawn")
            pool = ProcessPoolExecutor(min(self.workers, len(batches)), spawn)
            try:
                for place in range(at, len(batches)):
                    if place not in tasks or tasks[place].exception() is not None:
                        path = self._folder / f"{next(self._files)}.partial"
                        tasks[place] = pool.submit(_to_file, path, work, rules, batches[place])
                while at < len(batches):
                    yield tasks[at].result()
                    _forget(batches[at])
                    at, deaths = at + 1, 0
            except BrokenProcessPool as error:
                deaths += 1
                if deaths == ATTEMPTS:
                    raise FederationError(
                        f"a worker died {ATTEMPTS} times at {batches[at][0]} or the "
                        f"{len(batches[at]) - 1} after it, perhaps for lack of memory: use fewer "
                        "workers"
                    ) from error
            finally:
                pool.shutdown(cancel_futures=True)

    def fetch(self, partial: Path, rules: Rules) -> Statistics:
        """Read a partial total."""
        return _load(partial, rules)


def _to_file(
    path: Path, work: Work, rules: Rules, batch: Sequence[Any]
) -> tuple[list[Listed], Path]:
    """Work, with its statistics as plain arrays in a file: our own, so not verified again."""
    listed, total = work(rules, *batch)
    names = np.frombuffer(json.dumps(total.class_names).encode(), np.uint8)
    with path.open("wb") as file:
        arrays = names, total.codes, total.cross, total.class_counts, total.gram
        for array in (*arrays, *(part.gram for part in total.by_class)):
            np.save(file, array)
    return listed, path


def _load(path: Path, rules: Rules) -> Statistics:
    with path.open("rb") as file:
        names, codes, cross, counts, gram = (np.load(file) for _ in range(5))
        classes = tuple(json.loads(names.tobytes()))
        margins = Margins(rules.fingerprint, rules.layout, codes, cross, classes, counts)
        places = range(len(classes)) if rules.layout.class_layout else ()
        by_class = [margins.of_class(place).with_gram(np.load(file)) for place in places]
    return margins.with_gram(gram, tuple(by_class))


def _forget(batch: Sequence[Any]) -> None:
    for partial in batch:
        if isinstance(partial, Path):
            partial.unlink()


class RayCluster:
    """Tasks of a Ray cluster; partial totals stay in its shared memory."""

    def __init__(self, address: str, workers: int | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise MissingExtra("ray", "safle[ray]", "summing on a Ray cluster") from error
        self._ray = ray
        self._join(address, ATTEMPTS)
        self.workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def _join(self, address: str, attempts: int) -> None:
        try:
            self._ray.init(address, log_to_driver=False, logging_level="ERROR")
        except Exception as error:
            # Ray gives a cluster 30 s to start, which a busy machine may not have, and raises
            # nothing better than this then.
            if "timed out" not in str(error) or attempts == 1:
                raise FederationError(f"no Ray cluster at {address!r}: {error}") from error
            self._ray.shutdown()
            self._join(address, attempts - 1)

    def run(
        self, work: Work, rules: Rules, batches: Sequence[Sequence[Any]]
    ) -> Generator[tuple[list[Listed], Any], None, None]:
        """In order; Ray itself repeats the task of a process that died."""
        task = self._ray.remote(num_returns=2, max_retries=ATTEMPTS - 1)(work)
        for listed, partial in [task.remote(rules, *batch) for batch in batches]:
            try:
                yield self._ray.get(listed), partial
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self._ray.exceptions.RayError as error:
                raise FederationError(f"the Ray cluster gave up: {error}") from error

    def fetch(self, partial: Any, rules: Rules) -> Statistics:
        """Copy a partial total from the cluster."""
        del rules
        statistics: Statistics = self._ray.get(partial)
        return statistics

    def close(self) -> None:
        """Leave the cluster, which ends what was begun there."""
        self._ray.shutdown()
