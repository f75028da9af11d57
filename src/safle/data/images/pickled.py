"""Pickles of arrays and plain containers, read without unpickling anything.

A pickle is a program. This is a small machine of its own for the few instructions
that build dicts, lists, strings, numbers and NumPy arrays; it has no way to import
or call anything, so a pickle that asks for more is refused, not run.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import ImageError

_IGNORED = frozenset({"PROTO", "FRAME"})
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = frozenset(
    [
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "LONG4",
        "FLOAT",
        "BINFLOAT",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
        "BYTEARRAY8",
    ]
)
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_NUMBERS = frozenset(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])


class _Known(Enum):
    """The only things a pickle may name, and they are only names here."""

    RECONSTRUCT = "_reconstruct"
    FROM_BUFFER = "_frombuffer"
    NDARRAY = "ndarray"
    DTYPE = "dtype"
    ENCODE = "encode"


_GLOBALS = {
    "numpy ndarray": _Known.NDARRAY,
    "numpy dtype": _Known.DTYPE,
    "_codecs encode": _Known.ENCODE,
    # NumPy 2 moved its modules; CIFAR is older than that.
    **{f"numpy.{core}.multiarray _reconstruct": _Known.RECONSTRUCT for core in ("core", "_core")},
    **{f"numpy.{core}.numeric _frombuffer": _Known.FROM_BUFFER for core in ("core", "_core")},
}


class _Type:
    """A NumPy integer type, its byte order set by a later instruction."""

    def __init__(self, code: Any) -> None:
        if not isinstance(code, str) or code not in _NUMBERS:
            raise ValueError("an array of something else than integers")
        self.dtype: np.dtype[Any] = np.dtype(code)

    def build(self, state: Any) -> None:
        if state[1] not in ("<", ">", "|"):
            raise ValueError("an unknown byte order")
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """An array, its contents set by a later instruction."""

    value: NDArray[Any] | None = None

    def build(self, state: Any) -> None:
        shape, kind, fortran, raw = state[-4:]
        self.fill(raw, kind, shape, "F" if fortran else "C")

    def fill(self, raw: Any, kind: Any, shape: Any, order: Any) -> None:
        # Python 2 wrote strings where Python 3 has bytes.
        buffer = raw.encode("latin-1") if isinstance(raw, str) else raw
        flat = np.frombuffer(buffer, dtype=kind.dtype)
        self.value = flat.reshape(tuple(shape), order="F" if order == "F" else "C")


class _Machine:
    """A stack, the positions of its marks, and a memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def take(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise IndexError("nothing left on the stack")
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def take_marked(self) -> list[Any]:
        mark = self.marks.pop()
        taken = self.stack[mark:]
        del self.stack[mark:]
        return taken

    def extend(self, values: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise TypeError("appends to something that is no list")
        self.stack[-1].extend(values)

    def update(self, values: list[Any]) -> None:
        if type(self.stack[-1]) is not dict:
            raise TypeError("sets items of something that is no dict")
        self.stack[-1].update(_pairs(values))

    def name(self, wanted: str) -> None:
        if wanted not in _GLOBALS:
            raise _Refused(wanted.replace(" ", "."))
        self.stack.append(_GLOBALS[wanted])

    def reduce(self) -> None:
        known, arguments = self.take(2)
        if known is _Known.RECONSTRUCT:
            self.stack.append(_Array())
        elif known is _Known.DTYPE:
            self.stack.append(_Type(arguments[0]))
        elif known is _Known.FROM_BUFFER:
            array = _Array()
            array.fill(*arguments)
            self.stack.append(array)
        elif known is _Known.ENCODE:
            self.stack.append(arguments[0].encode("latin-1"))
        else:
            raise _Refused(f"a call of {type(known).__name__}")

    def build(self) -> None:
        (state,) = self.take(1)
        if not isinstance(self.stack[-1], _Array | _Type):
            raise _Refused(f"the state of {type(self.stack[-1]).__name__}")
        self.stack[-1].build(state)

    def step(self, name: str, argument: Any) -> None:
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _PUTS:
            self.memo[argument] = self.stack[-1]
        elif name in _GETS:
            self.stack.append(self.memo[argument])
        elif name == "GLOBAL":
            self.name(argument)
        elif name in _INSTRUCTIONS:
            _INSTRUCTIONS[name](self)
        elif name not in _IGNORED:
            raise _Refused(f"the instruction {name}")


# Of the class and not of one machine: a machine that refers to itself is freed late.
_INSTRUCTIONS: dict[str, Callable[[_Machine], object]] = {
    "MARK": lambda m: m.marks.append(len(m.stack)),
    "POP": lambda m: m.take(1),
    "POP_MARK": _Machine.take_marked,
    "DUP": lambda m: m.stack.append(m.stack[-1]),
    "MEMOIZE": lambda m: m.memo.update({len(m.memo): m.stack[-1]}),
    "EMPTY_DICT": lambda m: m.stack.append({}),
    "EMPTY_LIST": lambda m: m.stack.append([]),
    "EMPTY_TUPLE": lambda m: m.stack.append(()),
    "DICT": lambda m: m.stack.append(_pairs(m.take_marked())),
    "LIST": lambda m: m.stack.append(m.take_marked()),
    "TUPLE": lambda m: m.stack.append(tuple(m.take_marked())),
    "TUPLE1": lambda m: m.stack.append(tuple(m.take(1))),
    "TUPLE2": lambda m: m.stack.append(tuple(m.take(2))),
    "TUPLE3": lambda m: m.stack.append(tuple(m.take(3))),
    "APPEND": lambda m: m.extend(m.take(1)),
    "APPENDS": lambda m: m.extend(m.take_marked()),
    "SETITEM": lambda m: m.update(m.take(2)),
    "SETITEMS": lambda m: m.update(m.take_marked()),
    "STACK_GLOBAL": lambda m: m.name(" ".join(m.take(2))),
    "REDUCE": _Machine.reduce,
    "BUILD": _Machine.build,
}


class _Refused(Exception):
    """What a pickle asked for."""


def _pairs(values: list[Any]) -> dict[Any, Any]:
    # Sixty tuples that each hold the one before twice would be hashed, or printed, for ever.
    if not all(isinstance(key, str | bytes | int) for key in values[::2]):
        raise TypeError("a key that is neither text nor number")
    return dict(zip(values[::2], values[1::2], strict=True))


def read_pickled_arrays(data: bytes, *, where: str) -> dict[str, Any]:
    """The entries of a pickled dict: lists, strings, numbers, NumPy arrays of integers."""
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                break
            machine.step(opcode.name, argument)
        (result,) = machine.take(1)
        entries = {_text(key): value for key, value in result.items()}
    except _Refused as error:
        raise ImageError(
            f"{where}: asks for {error}, which could run code; expected arrays and plain "
            "containers only: this is not the file that its authors distribute, delete it"
        ) from None
    # Whatever a broken file makes the machine do ends in one of these.
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        AssertionError,
        struct.error,
    ) as error:
        raise ImageError(
            f"{where}: not a whole pickle of arrays ({error}); download it again"
        ) from None
    return {k: v.value if isinstance(v, _Array) else v for k, v in entries.items()}


def _text(key: Any) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)
