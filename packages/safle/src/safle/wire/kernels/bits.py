"""Entries of one, two, four or eight bits joined into bytes, and split again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

SPARE = 8
"""Entries that may share a byte: room to pad the last one."""


@njit(cache=True, nogil=True)
def bytes_of(count, bits):  # type: ignore[no-untyped-def]
    """How many bytes ``count`` entries take, the last one padded."""
    return (count * bits + 7) // 8


def _packing(bits: int) -> tuple[Any, Any]:
    """Code that joins entries of ``bits`` bits into bytes, and that splits them again.

    A function a width: with a constant the compiler unrolls and vectorises.
    """
    per_byte, most = np.uint64(8 // bits), np.uint8((1 << bits) - 1)
    shifts = tuple(np.uint8(bits * k) for k in range(8 // bits))
    places = tuple(np.uint64(k) for k in range(8 // bits))

    @njit(nogil=True)
    def join(entries, packed, first, size):  # type: ignore[no-untyped-def]
        for index in range(size):
            byte = np.uint8(0)
            for k in range(len(shifts)):
                byte |= np.uint8(entries[index * per_byte + places[k]] << shifts[k])
            packed[first + index] = byte

    @njit(nogil=True)
    def split(entries, packed, first, size):  # type: ignore[no-untyped-def]
        for index in range(size):
            byte = packed[first + index]
            for k in range(len(shifts)):
                entries[index * per_byte + places[k]] = np.uint8(byte >> shifts[k]) & most

    return join, split


def _by_width(one: Any, two: Any, four: Any, eight: Any) -> Any:
    """Code that moves ``count`` entries, and those that pad the last byte, of any width."""

    @njit(nogil=True)
    def move(entries, count, bits, packed, first):  # type: ignore[no-untyped-def]
        first, size = np.uint64(first), np.uint64(bytes_of(count, bits))
        if bits == 1:
            one(entries, packed, first, size)
        elif bits == 2:
            two(entries, packed, first, size)
        elif bits == 4:
            four(entries, packed, first, size)
        else:
            eight(entries, packed, first, size)

    return move


join, split = (_by_width(*codes) for codes in zip(*map(_packing, (1, 2, 4, 8)), strict=True))
