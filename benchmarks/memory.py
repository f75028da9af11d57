"""Peak memory, as the operating system sees it, of a piece of work in a process of its own.

Resident memory, not tracemalloc: BLAS, torch and compiled code allocate too. The
process first prepares (imports, compiles, loads its input), then gives freed memory
back and resets the kernel's high-water mark; what the mark rises by is the work's.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.timing import timed
from safle import count, solve
from safle.solver.reduction import Reduction

Work = Callable[[], Any]
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Peak:
    """Bytes above what was resident before the work, and the seconds it took."""

    size: int
    seconds: float


def peak_of(prepare: Callable[..., Work], *arguments: Any, quick: bool = False) -> Peak:
    """Peak of the work that ``prepare(*arguments)`` returns, in a fresh process.

    ``prepare`` is a function at the top of a module, so that the process can import it. A quick
    run, whose figures prove nothing, measures in this process and spares itself the imports.
    """
    if quick:
        return _measure(prepare, arguments)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(_measure, prepare, arguments).result()


def _measure(prepare: Callable[..., Work], arguments: tuple[Any, ...]) -> Peak:
    work = prepare(*arguments)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS")
    # "5" sets the high-water mark to what is resident now.
    _CLEAR.write_text("5")
    seconds, _ = timed(work)
    return Peak(_status("VmHWM") - before, seconds)


def _status(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{_STATUS} has no {field}; peak memory is measured on Linux only")


def load_solver() -> None:
    """Solve something small the way large systems are, so that the libraries are loaded."""
    features, labels = data.generated(1_600, 1, 64).head(1_600)
    small = count(data.embedding(features, buckets=8), features, labels)
    if Reduction(small).is_small:
        raise ValueError(f"{small.dim} columns are decomposed; the warm-up needs more of them")
    solve(small)
    solve(small, ridge=1000.0)
