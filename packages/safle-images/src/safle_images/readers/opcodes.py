"""The opcodes of a pickle, followed without running any.

CIFAR's authors shipped pickles. To unpickle is to run what the file says, so none is unpickled
here: the opcodes that build lists, texts and numbers are followed, a call is written down as
`Made` and not made, and any other opcode is refused. `pickletools` only takes a file apart.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import ImageError

_MARK = object()
_ARRAYS = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
_NAMES = frozenset([*_ARRAYS, "numpy ndarray", "numpy dtype"])
_VALUES = frozenset(
    [
        *("BININT", "BININT1", "BININT2", "BINSTRING", "SHORT_BINSTRING"),
        *("BINUNICODE", "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES"),
    ]
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_IGNORED = frozenset(["PROTO", "FRAME", "STOP"])


@dataclass
class Made:
    """A call that the file asks for, and the state that it gives to the result."""

    name: str
    arguments: Any
    state: Any = None


class _Stack(list[Any]):
    """What the file has built so far."""

    def __init__(self) -> None:
        super().__init__()
        self.memo: dict[int, Any] = {}

    def since_mark(self) -> list[Any]:
        values = []
        while (value := self.pop()) is not _MARK:
            values.append(value)
        return values[::-1]

    def tuple_of(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self.append(tuple(reversed(values)))

    def set_item(self) -> None:
        value = self.pop()
        self.set_items([self.pop(), value])

    def append_all(self) -> None:
        values = self.since_mark()
        self[-1].extend(values)

    def set_items(self, values: list[Any]) -> None:
        # Python 3 keeps the names of Python 2 as bytes.
        names = [n.decode("latin-1") if isinstance(n, bytes) else n for n in values[::2]]
        self[-1].update(zip(names, values[1::2], strict=True))

    def call(self) -> None:
        arguments = self.pop()
        self.append(Made(self.pop(), arguments))

    def build(self) -> None:
        state = self.pop()
        self[-1].state = state


_STEPS: dict[str, Callable[[_Stack, Any], object]] = {
    "MARK": lambda stack, _: stack.append(_MARK),
    "EMPTY_DICT": lambda stack, _: stack.append({}),
    "EMPTY_LIST": lambda stack, _: stack.append([]),
    "EMPTY_TUPLE": lambda stack, _: stack.append(()),
    "TUPLE": lambda stack, _: stack.append(tuple(stack.since_mark())),
    "TUPLE1": lambda stack, _: stack.tuple_of(1),
    "TUPLE2": lambda stack, _: stack.tuple_of(2),
    "TUPLE3": lambda stack, _: stack.tuple_of(3),
    "APPEND": lambda stack, _: stack[-2].append(stack.pop()),
    "APPENDS": lambda stack, _: stack.append_all(),
    "SETITEM": lambda stack, _: stack.set_item(),
    "SETITEMS": lambda stack, _: stack.set_items(stack.since_mark()),
    "BINPUT": lambda stack, place: stack.memo.update({place: stack[-1]}),
    "LONG_BINPUT": lambda stack, place: stack.memo.update({place: stack[-1]}),
    "MEMOIZE": lambda stack, _: stack.memo.update({len(stack.memo): stack[-1]}),
    "BINGET": lambda stack, place: stack.append(stack.memo[place]),
    "LONG_BINGET": lambda stack, place: stack.append(stack.memo[place]),
    "REDUCE": lambda stack, _: stack.call(),
    "BUILD": lambda stack, _: stack.build(),
}


def read_opcodes(data: bytes, where: str) -> dict[str, Any]:
    r"""The dictionary that a pickle describes; calls in it are `Made`, and were not made.

    Examples
    --------
    >>> read_opcodes(b"\x80\x02}(U\x06labels](K\x06K\x09eu.", "toy")
    {'labels': [6, 9]}
    """
    stack = _Stack()
    try:
        for opcode, argument, place in pickletools.genops(data):
            _follow(stack, opcode.name, argument, f"{where}, byte {place}")
        (tree,) = stack
    # The opcodes of a damaged file make no sense in any way.
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ImageError(f"{where}: not a complete pickle ({error}); copy it again") from None
    if not isinstance(tree, dict):
        raise ImageError(f"{where}: a pickle of {type(tree).__name__}; expected a dictionary")
    return tree


def _follow(stack: _Stack, name: str, argument: Any, where: str) -> None:
    if name == "STACK_GLOBAL":
        argument = f"{stack[-2]} {stack.pop()}"
        stack.pop()
    if name in _VALUES or (name in ("GLOBAL", "STACK_GLOBAL") and argument in _NAMES):
        stack.append(argument)
    elif name in _CONSTANTS:
        stack.append(_CONSTANTS[name])
    elif name in _STEPS:
        _STEPS[name](stack, argument)
    elif name not in _IGNORED:
        what = f"{name} {argument!r:.80}" if "GLOBAL" in name or name == "INST" else name
        raise ImageError(
            f"{where}: the pickle's opcode {what}; expected lists, texts, numbers and arrays: it "
            "could run code, and was not run: get the file from its authors"
        )


def as_array(made: Any, where: str) -> NDArray[np.uint8]:
    """The matrix of bytes that a call in a pickle describes."""
    match made:
        case Made(name, _, (1, (int(rows), int(columns)), kind, bool(fortran), str(data))) if (
            name in _ARRAYS
            and isinstance(kind, Made)
            and (kind.name, kind.arguments[:1]) == ("numpy dtype", ("u1",))
            and rows * columns == len(data)
        ):
            flat = np.frombuffer(data.encode("latin-1"), np.uint8)
            return flat.reshape((rows, columns), order="F" if fortran else "C")
    raise ImageError(f"{where}: 'data' is not a whole array of uint8 of two dimensions")
