"""The opcodes of a pickle, read without running any.

CIFAR's authors shipped pickles: dictionaries of lists of numbers and texts, and one array. To
unpickle is to run what the file says, so none is unpickled here. `pickletools` takes the file
apart; opcodes that such files lack are refused, and of the others only the values are read.
"""

import pickletools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import ImageError

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = frozenset(
    [
        *("BININT", "BININT1", "BININT2", "BINSTRING", "SHORT_BINSTRING", "BINUNICODE"),
        *("SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES", *_CONSTANTS),
    ]
)
_ALLOWED = _VALUES | {
    *("PROTO", "FRAME", "MARK", "EMPTY_DICT", "EMPTY_LIST", "APPEND", "APPENDS", "SETITEM"),
    *("SETITEMS", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "REDUCE", "BUILD", "STOP"),
    *("BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET", "GLOBAL", "STACK_GLOBAL"),
}
_CALLS = (
    *("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct"),
    *("numpy ndarray", "numpy dtype"),
)
_KEYS = frozenset(
    [
        *("data", "labels", "fine_labels", "coarse_labels", "filenames", "batch_label"),
        *("label_names", "fine_label_names", "coarse_label_names", "num_cases_per_batch"),
        "num_vis",
    ]
)


def read_opcodes(data: bytes, where: str) -> dict[str, list[Any]]:
    r"""The numbers and texts that follow each key of one of CIFAR's pickles.

    Examples
    --------
    >>> read_opcodes(b"\x80\x02}(U\x06labels](K\x06K\x09eu.", "toy")
    {'labels': [6, 9]}
    """
    found: dict[str, list[Any]] = {}
    values: list[Any] = []
    memo: dict[int, Any] = {}
    argument: Any
    last = None
    in_list = False
    try:
        for opcode, argument, place in pickletools.genops(data):
            name = opcode.name
            called = " ".join(values[-2:]) if name == "STACK_GLOBAL" else argument
            if name not in _ALLOWED or ("GLOBAL" in name and called not in _CALLS):
                raise ImageError(
                    f"{where}, byte {place}: the pickle's opcode {name} "
                    f"{'' if called is None else repr(called)[:80]}; expected numbers, texts, "
                    "lists and one array: it could run code, and was not run: get the file from "
                    "its authors"
                )
            if name == "STACK_GLOBAL":
                del values[-2:]
            if name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
                memo[len(memo) if argument is None else argument] = last
                continue
            last = memo[argument] if "BINGET" in name else argument
            in_list = name == "EMPTY_LIST" or (in_list and name not in ("APPEND", "APPENDS"))
            key = last.decode("latin-1") if isinstance(last, bytes) else last
            if not in_list and isinstance(key, str) and key in _KEYS:
                values = found.setdefault(key, [])
            elif name in _VALUES or "BINGET" in name:
                values.append(_CONSTANTS.get(name, last))
    except ImageError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise ImageError(f"{where}: not a complete pickle ({error}); copy it again") from None
    return found


def as_array(values: list[Any] | None, where: str) -> NDArray[np.uint8]:
    """The matrix of bytes whose parts are in a pickle as NumPy writes them."""
    match values:
        case [0, "b" | b"b", 1, rows, columns, "u1", 0, 1, 3, "|", *_, bool(fortran), data]:
            flat = np.frombuffer(data.encode("latin-1") if isinstance(data, str) else data, "u1")
            if type(rows) is type(columns) is int and rows * columns == len(flat):
                return flat.reshape((rows, columns), order="F" if fortran else "C")
    raise ImageError(f"{where}: 'data' is not a whole array of uint8 of two dimensions")
