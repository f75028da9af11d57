"""Sums on a Ray cluster: files are added up in shards, and partial totals in a tree.

A process holds its own total and one contribution; partial totals stay in the cluster's shared
memory. Ray adds a shard again whose process dies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

from safle.basics.places import naming
from safle.errors import FederationError, MissingExtra
from safle.server.summing import Progress, Rules, add_sources
from safle.statistics import Accumulator, Statistics
from safle.wire.contribution import Entry

LARGEST_SHARD = 64
"""Files: what is done again when a process dies, and finished when another file is refused."""
SHARDS_PER_WORKER = 4
"""Before their totals are added: a bound for the cluster's memory."""
FAN_IN = 8
"""Partial totals that one process adds up."""
ATTEMPTS = 3

Work = Callable[..., tuple[list[Entry], Statistics]]


def _add_shard(rules: Rules, *sources: str) -> tuple[list[Entry], Statistics]:
    _limit_threads()
    total, entries = add_sources(rules, sources, lambda _share: None)
    return entries, total.snapshot()


def _add_partials(rules: Rules, *partials: Statistics) -> tuple[list[Entry], Statistics]:
    _limit_threads()
    total = Accumulator(rules.space)
    for partial in partials:
        total.add(partial)
    return [], total.snapshot()


def _limit_threads() -> None:
    """One: the cluster runs a process on every core."""
    from threadpoolctl import threadpool_limits

    from safle._native import limit_threads

    limit_threads(1)
    threadpool_limits(1)


def add_in_shards(
    rules: Rules, sources: Sequence[str], progress: Progress, cluster: RayCluster
) -> Accumulator:
    """As `safle.server.summing.add_sources`, by the processes of a cluster."""
    admission, partials, done = rules.admission(), list[Any](), 0
    at_a_time = SHARDS_PER_WORKER * cluster.workers
    size = min(LARGEST_SHARD, -(-len(sources) // at_a_time))
    for wave in _split(_split(sources, size), at_a_time):
        with closing(cluster.run(_add_shard, rules, wave)) as shards:
            for entries, partial in shards:
                for entry in entries:
                    with naming(entry.client):
                        admission.check(entry, allow_duplicates=rules.allow_duplicates)
                    admission.join(entry)
                partials.append(partial)
                done += len(entries)
                progress(done / len(sources))
        while len(partials) > FAN_IN:
            groups = _split(partials, FAN_IN)
            partials = [partial for _, partial in cluster.run(_add_partials, rules, groups)]
    total = Accumulator(rules.space)
    for partial in partials:
        total.add(cluster.fetch(partial))
    return total


def _split(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


class RayCluster:
    """The cluster at an address; "local" starts one, "auto" finds it."""

    def __init__(self, address: str) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise MissingExtra("ray", "safle[ray]", "summing on a Ray cluster") from error
        self._ray = ray
        self._join(address, ATTEMPTS)
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))

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
    ) -> Generator[tuple[list[Entry], Any], None, None]:
        """In order; Ray itself repeats the task of a process that died."""
        task = self._ray.remote(num_returns=2, max_retries=ATTEMPTS - 1)(work)
        for entries, partial in [task.remote(rules, *batch) for batch in batches]:
            try:
                yield self._ray.get(entries), partial
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self._ray.exceptions.RayError as error:
                raise FederationError(f"the Ray cluster gave up: {error}") from error

    def fetch(self, partial: Any) -> Statistics:
        """Copy a partial total from the cluster."""
        statistics: Statistics = self._ray.get(partial)
        return statistics

    def close(self) -> None:
        """Leave the cluster, which ends what was begun there."""
        self._ray.shutdown()
