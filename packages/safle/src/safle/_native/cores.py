"""Who has the cores: our kernels or a BLAS, never both at once.

Threads of a BLAS keep spinning for some 20 ms after each product, in case there is more to
multiply. Kernels beside them wait for a core; and where another program loads the cores, each
product waits until all its threads have had one. So a BLAS gets one thread from us, except for
work that takes long, and then the kernels get one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any

LARGE = 3e10
"""Multiplications and additions from which on the BLAS gets all: some half a second of one core."""
_limit: ContextVar[int] = ContextVar("limit", default=0)
_blas_has_cores: ContextVar[bool] = ContextVar("blas_has_cores", default=False)
_asked: dict[object, int] = {}
"""The threads that a BLAS may use, by who asks: its number belongs to the whole process."""
_before: dict[str, int] = {}
"""What the number of each BLAS was when nobody asked, by its file."""
_found: dict[bool, list[Any]] = {}
"""The libraries, by whether SciPy is loaded, which brings one of its own."""


def threads() -> int:
    """How many threads may work at once: `SAFLE_THREADS`, else one per core."""
    return _limit.get() or _available()


def kernel_threads() -> int:
    """How many of them a kernel may use."""
    return 1 if _blas_has_cores.get() else threads()


@contextmanager
def use_threads(number: int) -> Iterator[None]:
    """Let kernels and products inside use at most ``number`` threads."""
    before = _limit.set(number)
    try:
        with _limit_blas(number):
            yield
    finally:
        _limit.reset(before)


@contextmanager
def blas_for(operations: float = 0) -> Iterator[None]:
    """Give the cores to the BLAS if it has `LARGE` operations to do inside, else to the kernels."""
    shared = operations >= LARGE and threads() > 1
    before = _blas_has_cores.set(shared)
    try:
        with _limit_blas(threads() if shared else 1):
            yield
    finally:
        _blas_has_cores.reset(before)


@contextmanager
def _limit_blas(number: int) -> Iterator[None]:
    asking = object()
    with _lock():
        _asked[asking] = number
        _apply()
    try:
        yield
    finally:
        with _lock():
            del _asked[asking]
            _apply()


def _apply() -> None:
    """Give each BLAS what was asked for last; no more than it had, unless `SAFLE_THREADS` does."""
    for library in _libraries():
        now = library.get_num_threads()
        number = _before.setdefault(library.filepath, now)
        if _asked:
            last = next(reversed(_asked.values()))
            number = last if _told() else min(last, number)
        if number != now:
            library.set_num_threads(number)
            if hasattr(library, "clear_controlling_thread"):
                # Until then, threadpoolctl ignores what other threads than this one set.
                library.clear_controlling_thread()
    if not _asked:
        _before.clear()


@cache
def _lock() -> Any:
    return Lock()


if hasattr(os, "register_at_fork"):
    # A thread that had it is gone in the new process.
    os.register_at_fork(after_in_child=_lock.cache_clear)


@cache
def _available() -> int:
    if _told():
        return _told()
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _told() -> int:
    """What `SAFLE_THREADS` says, or 0."""
    given = os.environ.get("SAFLE_THREADS", "")
    return int(given) if given.isdigit() else 0


def _libraries() -> list[Any]:
    loaded = "scipy.linalg" in sys.modules
    if loaded not in _found:
        from threadpoolctl import ThreadpoolController

        _found[loaded] = ThreadpoolController().select(user_api="blas").lib_controllers
    return _found[loaded]
