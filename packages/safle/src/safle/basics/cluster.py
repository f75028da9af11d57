"""Ray: pieces of work on the processes of a cluster; one whose process dies is repeated."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from safle.errors import FederationError, MissingExtra

ATTEMPTS = 3
Item = TypeVar("Item")
Result = TypeVar("Result")


def connect(address: str, attempts: int = ATTEMPTS) -> Any:
    """Ray's module, connected to the cluster at an address; "local" starts one, "auto" finds it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        # Only here: it takes seconds to import.
        import ray
    except ImportError as error:
        raise MissingExtra("ray", "safle[ray]", "work on a Ray cluster") from error
    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        # Ray gives a cluster 30 s to start, which is too short on a busy machine, and then
        # raises no error of a type of its own.
        if "timed out" not in str(error) or attempts == 1:
            raise FederationError(f"no Ray cluster at {address!r}: {error}") from error
        ray.shutdown()
        return connect(address, attempts - 1)
    return ray


def count_processes(ray: Any, kind: str = "CPU") -> int:
    """How many processors the cluster has, or cards ("GPU")."""
    return int(ray.cluster_resources().get(kind, 0))


def run_each(
    ray: Any,
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    at_a_time: int,
    cards: int = 0,
) -> Iterator[Result]:
    """What ``work`` gives for each item, in order, with ``at_a_time`` under way.

    Each runs with one thread, since the cluster has a process on every core; with ``cards``, it
    gets as many graphics cards for itself.
    """
    task = ray.remote(max_retries=ATTEMPTS - 1, num_gpus=cards)(_run_alone)
    pending: deque[Any] = deque()
    for item in items:
        pending.append(task.remote(work, item))
        if len(pending) == at_a_time:
            yield _fetch(ray, pending.popleft())
    while pending:
        yield _fetch(ray, pending.popleft())


def _run_alone(work: Callable[[Item], Result], item: Item) -> Result:
    from safle._native.cores import use_threads

    with use_threads(1):
        return work(item)


def _fetch(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise FederationError(f"the Ray cluster failed: {error}") from error
