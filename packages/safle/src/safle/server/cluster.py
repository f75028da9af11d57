"""Sums on a Ray cluster: its processes add up files in shards, and this one adds their totals.

A process holds its own total and one contribution; totals of shards wait in the cluster's shared
memory. Ray adds a shard again whose process dies.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from safle.basics.places import naming
from safle.errors import FederationError, MissingExtra
from safle.server.summing import Progress, Rules, add_sources
from safle.statistics import Accumulator, Statistics
from safle.wire.contribution import Entry

LARGEST_SHARD = 64
"""Files: what is done again when a process dies, and finished when another file is refused."""
SHARDS_PER_WORKER = 4
"""Under way at a time: a bound for the cluster's memory."""
ATTEMPTS = 3


def add_on_ray(
    rules: Rules, sources: Sequence[str], progress: Progress, address: str
) -> Accumulator:
    """As `safle.server.summing.add_sources`, by the cluster at an address."""
    ray = join(address)
    try:
        workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        at_a_time = SHARDS_PER_WORKER * workers
        shards = _split(sources, min(LARGEST_SHARD, -(-len(sources) // at_a_time)))
        task = ray.remote(max_retries=ATTEMPTS - 1)(_add_shard)
        total, admission, done = Accumulator(rules.space), rules.admission(), 0
        for wave in _split(shards, at_a_time):
            for begun in [task.remote(rules, shard) for shard in wave]:
                entries, partial = _fetch(ray, begun)
                for entry in entries:
                    with naming(entry.client):
                        admission.check(entry, allow_duplicates=rules.allow_duplicates)
                    admission.join(entry)
                total.add(partial)
                done += len(entries)
                progress(done / len(sources))
        return total
    finally:
        # This ends what was begun there.
        ray.shutdown()


def join(address: str, attempts: int = ATTEMPTS) -> Any:
    """Ray itself, connected to the cluster at an address; "local" starts one, "auto" finds it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("ray", "safle[ray]", "summing on a Ray cluster") from error
    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        # Ray gives a cluster 30 s to start, which a busy machine may not have, and raises
        # nothing better than this then.
        if "timed out" not in str(error) or attempts == 1:
            raise FederationError(f"no Ray cluster at {address!r}: {error}") from error
        ray.shutdown()
        return join(address, attempts - 1)
    return ray


def _add_shard(rules: Rules, sources: Sequence[str]) -> tuple[list[Entry], Statistics]:
    """In a process of the cluster, which has one on every core: with one thread."""
    from threadpoolctl import threadpool_limits

    from safle._native import limit_threads

    limit_threads(1)
    threadpool_limits(1)
    total, entries = add_sources(rules, sources, lambda _share: None)
    return entries, total.snapshot()


def _fetch(ray: Any, begun: Any) -> tuple[list[Entry], Statistics]:
    try:
        entries, partial = ray.get(begun)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise FederationError(f"the Ray cluster gave up: {error}") from error
    return entries, partial


def _split(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[first : first + size] for first in range(0, len(items), size)]
