"""Codes: what an encoder makes of features, and the layout of the space they live in.

A sample is one symbol per expert (``idx_j``) and a vector of fixed-point integers for
linear parts. Its one-hot image ``Phi(x)`` has a column for every symbol of every
expert, then a column for every dense integer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import SettingsError

MAX_TABLE_SIZE = 65_536
MAX_EMBEDDING_DIM = 1 << 26
MAX_EXPERTS = 1 << 20
"""Most experts, and most dense columns: each has a row of the gram at least."""
DENSE_LIMIT = 32_767
"""Largest magnitude of a dense integer: they are int16."""


@dataclass(frozen=True)
class Codes:
    """Encoded samples.

    Attributes
    ----------
    symbols : uint8 or uint16, (samples, experts)
    dense : int16, (samples, dense_dim)
    """

    symbols: NDArray[np.unsignedinteger]
    dense: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.symbols)

    @staticmethod
    def side_by_side(parts: Sequence[Codes]) -> Codes:
        """The same samples under several encoders: symbols first, then dense columns."""
        widest = np.result_type(*(part.symbols.dtype for part in parts))
        symbols = np.concatenate([part.symbols.astype(widest) for part in parts], axis=1)
        return Codes(symbols, np.concatenate([part.dense for part in parts], axis=1))


@dataclass(frozen=True)
class Layout:
    """Columns of the code space: expert tables first, dense columns after them.

    Attributes
    ----------
    table_sizes : how many symbols each expert has (V_j)
    dense_scales : a dense column holds ``round(scale * value)``
    constants : dense columns that are always equal to their scale
    """

    table_sizes: tuple[int, ...] = ()
    dense_scales: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if max(self.experts, self.dense_dim) > MAX_EXPERTS:
            raise SettingsError(
                f"{self.experts} experts and {self.dense_dim} dense columns; at most {MAX_EXPERTS}"
            )
        if any(not 1 <= size <= MAX_TABLE_SIZE for size in set(self.table_sizes)):
            raise SettingsError(f"table sizes must lie in 1..{MAX_TABLE_SIZE}")
        if any(not 1 <= s <= DENSE_LIMIT or s & (s - 1) for s in set(self.dense_scales)):
            raise SettingsError(f"dense scales must be powers of two in 1..{DENSE_LIMIT}")
        if any(not 0 <= column < self.dense_dim for column in self.constants):
            raise SettingsError("a constant column lies outside the dense block")
        if list(self.constants) != sorted(set(self.constants)):
            raise SettingsError("the constant columns are not ascending")
        if not 1 <= self.embedding_dim <= MAX_EMBEDDING_DIM:
            raise SettingsError(
                f"{self.code_count} codes + {self.dense_dim} dense columns = "
                f"{self.embedding_dim}; expected 1..{MAX_EMBEDDING_DIM}"
            )

    @property
    def experts(self) -> int:
        return len(self.table_sizes)

    @property
    def dense_dim(self) -> int:
        return len(self.dense_scales)

    @cached_property
    def bases(self) -> NDArray[np.int64]:
        """First column of each expert, then the column after the last; (experts + 1,)."""
        return np.concatenate([[0], np.cumsum(self.table_sizes, dtype=np.int64)]).astype(np.int64)

    @cached_property
    def code_count(self) -> int:
        return sum(self.table_sizes)

    @property
    def embedding_dim(self) -> int:
        return self.code_count + self.dense_dim

    @property
    def gram_type(self) -> type[np.signedinteger[Any]]:
        """Counts of codes fit int32; sums of products of dense integers need int64."""
        return np.int64 if self.dense_dim else np.int32

    @property
    def most_samples(self) -> int:
        """How many samples a gram of this layout can count without overflow.

        Counts of codes stay 255 below the end of int32: a file states an entry as up to
        255 and the rest.
        """
        if self.experts:
            return int(np.iinfo(np.int32).max) - 255
        return int(np.iinfo(np.int64).max) // DENSE_LIMIT**2

    def to_json(self) -> dict[str, Any]:
        """Run-length form: thousands of equal experts take a few bytes."""
        return {
            "tables": _runs(self.table_sizes),
            "dense": _runs(self.dense_scales),
            "constants": list(self.constants),
        }

    @staticmethod
    def from_json(data: Any) -> Layout:
        """Read `to_json` back; sizes are checked before anything is expanded."""
        if not isinstance(data, dict) or set(data) != {"tables", "dense", "constants"}:
            raise SettingsError("a layout needs exactly: tables, dense, constants")
        constants = data["constants"]
        if not isinstance(constants, list) or not all(type(c) is int for c in constants):
            raise SettingsError("layout constants must be a list of integers")
        return Layout(_expand(data["tables"]), _expand(data["dense"]), tuple(constants))

    @staticmethod
    def side_by_side(layouts: Sequence[Layout]) -> Layout:
        """The layout of `Codes.side_by_side`."""
        constants: list[int] = []
        shift = 0
        for layout in layouts:
            constants += [shift + column for column in layout.constants]
            shift += layout.dense_dim
        return Layout(
            tuple(size for layout in layouts for size in layout.table_sizes),
            tuple(scale for layout in layouts for scale in layout.dense_scales),
            tuple(constants),
        )


def _runs(values: Iterable[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return runs


def _expand(runs: Any) -> tuple[int, ...]:
    if not isinstance(runs, list):
        raise SettingsError("layout runs must be a list")
    total = 0
    for run in runs:
        if not (isinstance(run, list) and len(run) == 2 and all(type(x) is int for x in run)):
            raise SettingsError("a layout run must be [value, count]")
        if run[1] < 1 or run[0] < 1:
            raise SettingsError("layout runs must be positive")
        total += run[1]
        if total > MAX_EXPERTS:
            raise SettingsError(f"a layout of more than {MAX_EXPERTS} experts or dense columns")
    return tuple(value for value, count in runs for _ in range(count))
