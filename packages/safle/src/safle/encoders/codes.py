"""Codes: what an encoder makes of features, and the space they live in.

A sample is one symbol per expert (``idx_j``) and a vector of fixed-point integers for
linear parts. Its one-hot image ``Phi(x)`` has a column for every symbol of every
expert, then a column for every dense integer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from safle.basics.settings import as_settings, to_mapping
from safle.errors import EncoderMismatch, SettingsError

MAX_TABLE_SIZE = 65_536
MAX_EMBEDDING_DIM = 1 << 26
MAX_EXPERTS = 1 << 20
"""Most experts, and most dense columns: each has at least one row of the gram."""
DENSE_LIMIT = 32_767
"""Largest magnitude of a dense integer: they are int16."""
MAX_NORM = 1 << 32
TABLES = "tables"
LINEAR = "linear"
RANDOM = "random"
PRODUCTS = "products"
"""The names of blocks that other rooms ask for."""
_NAME = re.compile(r"[a-z][a-z-]{0,31}")


@dataclass(frozen=True)
class Codes:
    """Encoded samples.

    Attributes
    ----------
    symbols : uint8 or uint16, (samples, experts)
    dense : int16, (samples, dense_dim)

    Examples
    --------
    >>> codes = Codes(np.array([[3, 1]], np.uint8), np.array([[-40, 7, 12]], np.int16))
    >>> len(codes), codes.dense.shape
    (1, (1, 3))
    """

    symbols: NDArray[np.unsignedinteger]
    dense: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.symbols)


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A run of equal columns of a layout: tables of experts, or dense columns.

    Attributes
    ----------
    name : what its columns are; several blocks may have one name
    columns : how many experts, or dense columns
    rows : how many symbols each expert has (V_j); 0 for dense columns
    scale : a dense column holds ``round(scale * value)``
    low, high : the least and the largest integer of a column; equal ones make a constant column,
        a whole multiple of its scale
    norm : if not 0, the block's columns form in every sample a vector whose Euclidean norm is at
        most this
    by_class : the products of these dense columns are also counted for each class

    Examples
    --------
    >>> Layout([Block("tables", 3, rows=4), Block("linear", low=0, high=9)]).dim
    13
    """

    name: str
    columns: int = 1
    rows: int = 0
    scale: int = 1
    low: int = 0
    high: int = 1
    norm: int = 0
    by_class: bool = False

    @property
    def width(self) -> int:
        """Columns of the code space."""
        return self.columns * (self.rows or 1)

    @property
    def constant(self) -> bool:
        """Whether its columns always hold the same integer."""
        return self.low == self.high

    def check(self) -> None:
        """`SettingsError` for a block that no encoder has."""
        if not _NAME.fullmatch(self.name):
            raise SettingsError(f"a block named {self.name[:40]!r}; expected lower-case letters")
        if not 1 <= self.columns <= MAX_EXPERTS:
            raise SettingsError(
                f"{self.columns} experts or dense columns in block {self.name!r}; expected 1 to "
                f"{MAX_EXPERTS}"
            )
        if self.rows:
            self._check_tables()
        elif not 1 <= self.scale <= DENSE_LIMIT or self.scale & (self.scale - 1):
            raise SettingsError(f"dense scales must be powers of two in 1..{DENSE_LIMIT}")
        elif not -DENSE_LIMIT <= self.low <= self.high <= DENSE_LIMIT or (
            self.constant and (self.low < 1 or self.low % self.scale)
        ):
            raise SettingsError(
                f"dense limits {self.low} to {self.high}; expected integers of at most "
                f"{DENSE_LIMIT} in magnitude, and for a constant column a multiple of its scale, "
                f"{self.scale}"
            )
        if not 0 <= self.norm <= MAX_NORM or (self.norm and self.constant):
            raise SettingsError(
                f"norm {self.norm} for block {self.name!r}; expected at most {MAX_NORM}, and none "
                "for constants"
            )

    def _check_tables(self) -> None:
        if not 1 <= self.rows <= MAX_TABLE_SIZE:
            raise SettingsError(f"table sizes must lie in 1..{MAX_TABLE_SIZE}")
        if self != Block(self.name, self.columns, self.rows):
            raise SettingsError(
                f"block {self.name!r} has tables; expected no scale, limits, norm or classes"
            )


@dataclass(frozen=True)
class Layout:
    """Columns of the code space, as blocks: tables of experts first, dense columns after them.

    Neighbours that differ only in their number are one block, so a layout has one text.
    """

    blocks: tuple[Block, ...]

    def __init__(self, blocks: Iterable[Block]) -> None:
        object.__setattr__(self, "blocks", tuple(_join_neighbours(blocks)))
        if max(self.experts, self.dense_dim) > MAX_EXPERTS:
            raise SettingsError(
                f"{self.experts} experts, {self.dense_dim} dense columns; expected at most "
                f"{MAX_EXPERTS} of each"
            )
        if not 1 <= self.dim <= MAX_EMBEDDING_DIM:
            raise SettingsError(
                f"{self.code_count} codes + {self.dense_dim} dense columns = {self.dim}; expected "
                f"1..{MAX_EMBEDDING_DIM}"
            )
        if any(after.rows and not block.rows for block, after in pairwise(self.blocks)):
            raise SettingsError("tables after dense columns; expected all tables first")
        names = [name for name, _ in groupby(self.blocks, lambda block: block.name)]
        if len({*names}) < len(names):
            raise SettingsError(
                "blocks of one name with other blocks between them; expected them together"
            )
        flags = [block.by_class for block in self.blocks]
        if any(flags) and not (
            flags == sorted(flags, reverse=True)
            and any(block.constant and block.by_class for block in self.blocks)
        ):
            raise SettingsError(
                f"of {len(flags)} blocks, {sum(flags)} are counted by class; expected the first "
                "ones, with a constant among them"
            )

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """First column of each block, then the number of columns; (blocks + 1,)."""
        return np.cumsum([0, *(block.width for block in self.blocks)], dtype=np.int64)

    @property
    def dim(self) -> int:
        """How many columns there are: codes and dense ones."""
        return int(self.starts[-1])

    @property
    def dense_blocks(self) -> Iterator[tuple[Block, slice]]:
        """The blocks of dense columns, and which of the dense columns they have."""
        for block, start in zip(self.blocks, self.starts.tolist(), strict=False):
            if not block.rows:
                first = start - self.code_count
                yield block, slice(first, first + block.columns)

    def block(self, name: str) -> range:
        """The dense columns of this name; an empty range if there are none."""
        places = [place for block, place in self.dense_blocks if block.name == name]
        return range(places[0].start, places[-1].stop) if places else range(0)

    @property
    def experts(self) -> int:
        return sum(block.columns for block in self.blocks if block.rows)

    @property
    def dense_dim(self) -> int:
        return sum(block.columns for block in self.blocks if not block.rows)

    @cached_property
    def code_count(self) -> int:
        return sum(block.width for block in self.blocks if block.rows)

    @cached_property
    def table_sizes(self) -> NDArray[np.int64]:
        """How many symbols each expert has, (experts,)."""
        tables = [block for block in self.blocks if block.rows]
        sizes = np.array([block.rows for block in tables], np.int64)
        return np.repeat(sizes, [block.columns for block in tables])

    @cached_property
    def bases(self) -> NDArray[np.int64]:
        """First column of each expert, then the column after the last; (experts + 1,)."""
        return np.concatenate([[0], np.cumsum(self.table_sizes)]).astype(np.int64)

    @cached_property
    def scales(self) -> NDArray[np.int64]:
        """The scale of each dense column, (dense_dim,)."""
        return self._of_dense("scale")

    @cached_property
    def low(self) -> NDArray[np.int64]:
        """The least integer of each dense column, (dense_dim,)."""
        return self._of_dense("low")

    @cached_property
    def high(self) -> NDArray[np.int64]:
        """The largest integer of each dense column, (dense_dim,)."""
        return self._of_dense("high")

    @property
    def largest(self) -> NDArray[np.int64]:
        """The largest magnitude of each dense column, (dense_dim,)."""
        return np.maximum(-self.low, self.high)

    def _of_dense(self, name: str) -> NDArray[np.int64]:
        dense = [block for block, _ in self.dense_blocks]
        values = np.array([getattr(block, name) for block in dense], np.int64)
        return np.repeat(values, [block.columns for block in dense])

    @cached_property
    def constants(self) -> NDArray[np.int64]:
        """Dense columns that always hold the same integer, ascending."""
        return np.flatnonzero(self.low == self.high)

    @cached_property
    def class_layout(self) -> Layout | None:
        """The layout of the columns that are counted for each class; None if none are.

        They are the first columns of the layout.
        """
        counted = [block for block in self.blocks if block.by_class]
        return Layout(replace(block, by_class=False) for block in counted) if counted else None

    @cached_property
    def squared_columns(self) -> NDArray[np.int64]:
        """Dense columns that are counted for each class, without constants, ascending."""
        counted = self.class_layout
        return np.setdiff1d(np.arange(counted.dim if counted else 0), self.constants)

    @property
    def only_classes(self) -> bool:
        """Whether all columns are counted for each class, so that sums follow from the classes'."""
        return all(block.by_class for block in self.blocks)

    @property
    def symbol_type(self) -> type[np.unsignedinteger[Any]]:
        """The narrowest type that holds every symbol."""
        return np.uint8 if max(block.rows for block in self.blocks) <= 256 else np.uint16

    @property
    def most_samples(self) -> int:
        """How many samples a gram of this layout can count without overflow.

        Counts of codes are int32; 255 less than the largest one leaves a margin.
        """
        if self.experts:
            return int(np.iinfo(np.int32).max) - 255
        return int(np.iinfo(np.int64).max) // DENSE_LIMIT**2

    def to_json(self) -> list[dict[str, Any]]:
        """The blocks: thousands of equal experts take a few bytes."""
        return [to_mapping(block) for block in self.blocks]

    @staticmethod
    def from_json(data: Any, *, most: int = MAX_EXPERTS) -> Layout:
        """The inverse of `to_json`; `SettingsError` for more than ``most`` experts or columns."""
        if not isinstance(data, list):
            raise SettingsError(f"a layout is {type(data).__name__}; expected a list of blocks")
        blocks = [as_settings(Block, block, where="layout: ") for block in data]
        for has_tables in (True, False):
            alike = [block for block in blocks if bool(block.rows) is has_tables]
            # Numbers below 1 are refused with the block.
            if sum(max(block.columns, 0) for block in alike) > most:
                raise SettingsError(f"a layout of more than {most} experts or dense columns")
        return Layout(blocks)


def tables_of(sizes: Iterable[int]) -> list[Block]:
    """Blocks of tables with these numbers of symbols, one for each run of equal ones.

    >>> [(block.columns, block.rows) for block in tables_of([4, 4, 2])]
    [(2, 4), (1, 2)]
    """
    return [Block(TABLES, len([*run]), size) for size, run in groupby(sizes)]


def _join_neighbours(blocks: Iterable[Block]) -> Iterator[Block]:
    """Checked blocks, equal neighbours as one; a norm is of the columns of one block only."""
    waiting: Block | None = None
    for block in blocks:
        block.check()
        if waiting is None:
            waiting = block
        elif not block.norm and replace(waiting, columns=block.columns) == block:
            waiting = replace(waiting, columns=waiting.columns + block.columns)
        else:
            yield waiting
            waiting = block
    if waiting is not None:
        yield waiting


@dataclass(frozen=True)
class CodeSpace:
    """What two values must share to be added: the encoder's fingerprint and its layout."""

    fingerprint: str
    layout: Layout

    def check_same(self, found: CodeSpace) -> None:
        """Raise `EncoderMismatch` unless ``found`` is this space."""
        self.check_same_encoder(found.fingerprint, same_layout=found.layout == self.layout)

    def check_same_encoder(self, fingerprint: str, *, same_layout: bool) -> None:
        """Raise `EncoderMismatch` unless fingerprint and layout are those of this space."""
        if fingerprint != self.fingerprint:
            raise EncoderMismatch(
                f"counted with encoder {fingerprint[:12]}…, this federation uses "
                f"{self.fingerprint[:12]}…; take the federation's encoder file and count again"
            )
        if not same_layout:
            raise EncoderMismatch(
                f"names encoder {fingerprint[:12]}… but has another layout of codes; count again"
            )
