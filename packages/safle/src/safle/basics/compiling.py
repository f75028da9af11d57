"""Compiled code: which kernels this machine can run, and when one is being compiled.

Kernels (Numba) are plain arrays in, plain arrays out. Compiled code is cached on disk next
to this package, or in Numba's user cache directory where the package cannot be written to.
Some innermost loops are vector instructions written as LLVM by hand; each of those has a
twin in plain Numba or NumPy with the same results, for machines that cannot build it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

PLAIN_VARIABLE = "SAFLE_PLAIN_KERNELS"
"""Set to 1 to use the twins everywhere."""
WORTH_A_THREAD = 300_000
"""Nanoseconds of one thread's work from which on others help."""


@cache
def vector_kernels() -> bool:
    """Whether kernels of hand-written vector instructions can be built, and are wanted.

    They take AVX2, and a Numba that accepts the LLVM we write, which one tiny kernel shows.

    >>> vector_kernels() in (True, False)
    True
    """
    from numba.core.registry import cpu_target

    if os.environ.get(PLAIN_VARIABLE, "0") not in ("", "0"):
        return False
    # What Numba compiles for, which is not always what the processor has. Elsewhere LLVM
    # would not refuse an unknown instruction but end the process.
    triple, _name, features = cpu_target.target_context.codegen().magic_tuple()
    return triple.startswith("x86_64") and "+avx2" in features.split(",") and _build_trial()


def _build_trial() -> bool:
    from numba.core.errors import NumbaError

    try:
        from safle.basics.trial import trial_sum

        return bool(trial_sum() == 8)
    except (NumbaError, ImportError, AttributeError, TypeError, ValueError, RuntimeError):
        # Another llvmlite has other names, or refuses the text: LLVM's parser raises
        # RuntimeError.
        return False


@contextmanager
def one_thread() -> Iterator[None]:
    """Kernels in here run on one thread: for short ones between products of a BLAS.

    A BLAS keeps its threads spinning for some 20 ms, in case there is more to multiply; a
    kernel on as many threads waits for those.
    """
    from numba import get_num_threads, set_num_threads

    threads = get_num_threads()
    set_num_threads(1)
    try:
        yield
    finally:
        set_num_threads(threads)


def array_pointers(
    context: Any, builder: Any, signature: Any, arguments: Any
) -> Callable[..., Any]:
    """For code that is emitted: a function that gives the data of the array at a position."""

    def data(position: int) -> Any:
        array = context.make_array(signature.args[position])
        return array(context, builder, arguments[position]).data

    return data


def run_kernel(kernel: Callable[..., Any], *arguments: Any, nanoseconds: float) -> None:
    """Call a parallel kernel, on one thread where it takes about so long or less.

    Waking another thread takes some microseconds, or a time slice where it has to wait.
    """
    with nullcontext() if nanoseconds > WORTH_A_THREAD else one_thread():
        kernel(*arguments)


def when_compiling(say: Callable[[], None]) -> None:
    """Call ``say`` once, when a kernel is about to be compiled rather than loaded."""
    from numba.core import event

    class Watch(event.Listener):  # type: ignore[misc]
        said = False

        def on_start(self, _event: Any) -> None:
            if not self.said:
                self.said = True
                say()

        def on_end(self, _event: Any) -> None:
            """Only the start matters."""

    event.register("numba:compile", Watch())


class Stopwatch:
    """How long work takes, but for the time in which kernels were compiled for it.

    Kernels are compiled once after an install: that says nothing about the next time.

    >>> Stopwatch().stop() < 60
    True
    """

    def __init__(self) -> None:
        from numba.core import event

        self._compiling = event.TimingListener()
        event.register("numba:compile", self._compiling)
        self._begun = time.perf_counter()

    def stop(self) -> float:
        """Seconds since it was made."""
        from numba.core import event

        seconds = time.perf_counter() - self._begun
        event.unregister("numba:compile", self._compiling)
        return seconds - (self._compiling.duration if self._compiling.done else 0.0)
