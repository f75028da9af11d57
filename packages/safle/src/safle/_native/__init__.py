"""The kernels: a small C library, loaded once, every call of it checked.

A `Kernel` is a function of the library with a description of what it takes. A call checks every
array before an address is passed, allocates scratch memory, and shares the pieces of the job out
over threads (calls release the GIL). C functions allocate nothing, start no thread and return
nothing.

Each function exists once per instruction level. `level` is the best that this machine has;
SAFLE_KERNELS=portable or avx2 asks for a lower one. All levels give the same integers.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safle._native.cores import kernel_threads
from safle.errors import KernelsError, SettingsError

VARIABLE = "SAFLE_KERNELS"
LEVELS = ("portable", "avx2", "avx512")
ENTRIES_FOR_THREADS = 100_000
"""Entries of a call's arrays from which on other threads help: waking one takes microseconds."""
CALLS_PER_THREAD = 4
"""Calls into which a thread's share is cut, so that others take over those of a delayed thread."""
CACHE_LINE = 64


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(64, thread_name_prefix="safle-kernel")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


@cache
def _library() -> ctypes.CDLL:
    suffix = {"Darwin": ".dylib", "Windows": ".dll"}.get(platform.system(), ".so")
    chosen = os.environ.get("SAFLE_LIBRARY")
    path = Path(chosen or Path(__file__).with_name(f"libsafle{suffix}"))
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise KernelsError(
            f"the compiled kernels of safle cannot be loaded ({error}); install safle with pip, or "
            "run 'python -m safle._native.build' in a working tree"
        ) from error
    if not chosen:
        _check_sources(library, path)
    return library


def _check_sources(library: ctypes.CDLL, path: Path) -> None:
    """Refuse a library of other sources: a kernel with other parameters would write anywhere."""
    # Imported here: else 'python -m safle._native.build' finds itself imported before it runs.
    from safle._native.build import source_digest

    expected = source_digest()
    if not expected:
        return
    found = 0
    if hasattr(library, "source_digest_portable"):
        library.source_digest_portable.restype = ctypes.c_uint64
        found = library.source_digest_portable()
    if found != expected:
        raise KernelsError(
            f"{path} was compiled from other sources than those beside it; run "
            "'python -m safle._native.build'"
        )


@cache
def level() -> str:
    """The instruction level whose kernels are called: 'portable', 'avx2' or 'avx512'."""
    best = int(_library().processor_level_portable())
    wanted = os.environ.get(VARIABLE, "")
    if wanted and wanted not in LEVELS:
        raise SettingsError(f"{VARIABLE} is {wanted!r}; expected one of {', '.join(LEVELS)}")
    return LEVELS[min(best, LEVELS.index(wanted))] if wanted else LEVELS[best]


def packed(dim: int) -> int:
    """Entries of a packed triangle."""
    return dim * (dim + 1) // 2


_NAMES: dict[str, Any] = {"packed": packed, "__builtins__": {}}
_PARAMETER = re.compile(
    r"(?P<name>\w+)"
    r"(?: (?P<types>[a-z0-9|=_]+)\[(?P<shape>.*?)\](?P<mark>[!~]?)(?: <(?P<below>.+))?)?"
)


@cache
def _compiled(expression: str) -> Any:
    return compile(expression, "a kernel's description", "eval")


def _size(expression: str, bound: dict[str, Any]) -> int:
    """Evaluate a size, an expression over the names of a call; its text is always our own."""
    # Most sizes are names, and looking one up takes a tenth of the time.
    found = bound.get(expression)
    return int(eval(_compiled(expression), _NAMES, bound) if found is None else found)


class _Parameter(NamedTuple):
    """One parameter of a C function, as `Kernel` describes it; a number where ``shape`` is None."""

    name: str
    types: tuple[str, ...]
    shape: tuple[str, ...] | None
    mark: str
    below: str | None

    @classmethod
    def parse(cls, text: str) -> _Parameter:
        found = _PARAMETER.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"not a parameter: {text!r}")
        types = tuple((found["types"] or "").split("|"))
        shape = found["shape"]
        axes = None if shape is None else tuple(axis.strip() for axis in shape.split(","))
        return cls(found["name"], types, axes, found["mark"] or "", found["below"])


class Kernel:
    """A function of the library.

    Parameters
    ----------
    name : without types and level
    parameters : the C function's, in its order, with ``;`` between them. ``dim`` is a number;
        ``columns i4[experts, samples] <codes`` an array that is read, of that type and shape,
        every entry from 0 to below ``codes``; ``!`` behind the shape marks one that is written,
        ``~`` scratch memory. Types ``i4|i8`` choose the variant of the function; ``=gram`` is the
        type of another. A name in a shape is bound by the first array that has it as an axis;
        other arrays must agree. Numbers that no axis binds are given by the caller, in order.
    pieces : an expression, the number of pieces that the job can be cut into; if empty, the job is
        not cut, and its function takes no first and last piece
    """

    def __init__(self, name: str, *parameters: str, pieces: str = "") -> None:
        self._name = name
        self._parameters = [_Parameter.parse(text) for text in "; ".join(parameters).split(";")]
        self._pieces = pieces
        inputs = [p for p in self._parameters if p.mark != "~"]
        axes = {axis for p in inputs for axis in p.shape or ()}
        self._given = [p for p in inputs if p.shape is not None or p.name not in axes]

    def __call__(self, *arguments: Any) -> None:
        """Run the kernel on arrays and numbers in the order of the parameters."""
        if len(arguments) != len(self._given):
            raise TypeError(
                f"{self._name} takes {len(self._given)} arguments; found {len(arguments)}"
            )
        bound = {p.name: value for p, value in zip(self._given, arguments, strict=True)}
        arrays = [p for p in self._given if p.shape is not None]
        for parameter in arrays:
            self._check_form(parameter, bound)
        for parameter in arrays:
            self._check_sizes(parameter, bound)
        variant = [_type_code(bound[p.name]) for p in arrays if len(p.types) > 1]
        function = getattr(_library(), "_".join([self._name, *variant, level()]))
        self._run(function, bound, sum(bound[p.name].size for p in arrays))

    def _check_form(self, parameter: _Parameter, bound: dict[str, Any]) -> None:
        """Check type, contiguity and number of axes, and bind the names of axes."""
        where = f"{self._name}: {parameter.name}"
        array = bound[parameter.name]
        types = parameter.types
        if types[0].startswith("="):
            types = (_type_code(bound[types[0][1:]]),)
        if not isinstance(array, np.ndarray) or _type_code(array) not in types:
            found = getattr(array, "dtype", type(array).__name__)
            raise TypeError(f"{where} has type {found}; expected {' or '.join(types)}")
        if parameter.mark == "!" and not (array.flags.c_contiguous and array.flags.writeable):
            raise ValueError(f"{where} is not contiguous, or cannot be written to")
        # An array that is only read may be a view; it is copied if it is not contiguous.
        bound[parameter.name] = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        axes = parameter.shape or ()
        if array.ndim != len(axes):
            raise ValueError(f"{where} has {array.ndim} axes; expected {len(axes)}")
        for axis, size in zip(axes, array.shape, strict=True):
            if axis.isidentifier():
                bound.setdefault(axis, size)

    def _check_sizes(self, parameter: _Parameter, bound: dict[str, Any]) -> None:
        """Check the size of every axis, and the range of indices."""
        where = f"{self._name}: {parameter.name}"
        array = bound[parameter.name]
        for axis, size in zip(parameter.shape or (), array.shape, strict=True):
            if size != (expected := _size(axis, bound)):
                raise ValueError(f"{where} has {size} entries along {axis}; expected {expected}")
        if parameter.below is not None and array.size:
            limit = _size(parameter.below, bound)
            if int(array.max()) >= limit or (array.dtype.kind == "i" and int(array.min()) < 0):
                raise IndexError(f"{where} has an entry outside 0 to {limit - 1}")

    def _run(self, function: Any, bound: dict[str, Any], entries: int) -> None:
        """Run all pieces, on several threads if there is much to do."""
        if not self._pieces:
            c_arguments, _scratch = self._c_arguments(bound)
            function(*c_arguments)
            return
        pieces = _size(self._pieces, bound)
        helpers = min(kernel_threads(), pieces) if entries > ENTRIES_FOR_THREADS else 1
        cuts = 1 if helpers == 1 else min(pieces, helpers * CALLS_PER_THREAD)
        places = count()

        def work() -> None:
            c_arguments, _scratch = self._c_arguments(bound)
            while (part := next(places)) < cuts:
                first = pieces * part // cuts
                last = pieces * (part + 1) // cuts
                function(*c_arguments, ctypes.c_int64(first), ctypes.c_int64(last))

        others = [_pool().submit(work) for _ in range(helpers - 1)]
        work()
        for other in others:
            # One that no core has begun by now has nothing left to do.
            if not other.cancel():
                other.result()

    def _c_arguments(self, bound: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """The C arguments, and the scratch memory behind some of them."""
        c_arguments: list[Any] = []
        scratch: list[Any] = []
        for parameter in self._parameters:
            value: Any = bound.get(parameter.name)
            if parameter.shape is None:
                real = isinstance(value, float)
                c_arguments.append(ctypes.c_double(value) if real else ctypes.c_int64(value))
                continue
            if parameter.mark == "~":
                size = max(1, _size(parameter.shape[0], bound))
                value = _scratch(size, np.dtype(parameter.types[0]))
                scratch.append(value)
            c_arguments.append(ctypes.c_void_p(value.ctypes.data))
        return c_arguments, scratch


def _scratch(size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Memory that begins at a cache line: a vector that crosses lines is read twice."""
    whole = np.empty(size * dtype.itemsize + CACHE_LINE, np.uint8)
    begin = -whole.ctypes.data % CACHE_LINE
    return whole[begin : begin + size * dtype.itemsize].view(dtype)


def _type_code(array: NDArray[Any]) -> str:
    return f"{array.dtype.kind}{array.dtype.itemsize}"
