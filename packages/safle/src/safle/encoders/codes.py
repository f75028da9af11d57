"""Codes: what an encoder makes of features, and the space they live in.

A sample is one symbol per expert (``idx_j``) and a vector of fixed-point integers for
linear parts. Its one-hot image ``Phi(x)`` has a column for every symbol of every
expert, then a column for every dense integer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby, repeat
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from safle.basics.settings import as_settings
from safle.errors import EncoderMismatch, SettingsError

MAX_TABLE_SIZE = 65_536
MAX_EMBEDDING_DIM = 1 << 26
MAX_EXPERTS = 1 << 20
"""Most experts, and most dense columns: each has at least one row of the gram."""
DENSE_LIMIT = 32_767
"""Largest magnitude of a dense integer: they are int16."""

ColumnLimits = tuple[int, int]
Norm = tuple[int, int, int]
MOST_NORM = 1 << 32
INT16_LIMITS: ColumnLimits = (-DENSE_LIMIT, DENSE_LIMIT)
NO_COLUMNS = (0, 0)


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


@dataclass(frozen=True)
class Layout:
    """Columns of the code space: expert tables first, dense columns after them.

    Attributes
    ----------
    table_sizes : how many symbols each expert has (V_j)
    dense_scales : a dense column holds ``round(scale * value)``
    dense_limits : the least and the largest integer of each dense column, by default those of
        int16. A column whose two limits are equal is constant.
    dense_norms : ``(first, last, most)``: in every sample, the dense columns first to last - 1
        form a vector whose Euclidean norm is at most ``most``
    by_class : ``(first, after)``: the products of the dense columns first to after - 1, with a
        constant among them, are also counted for each class; (0, 0) if none are
    units : how many of the last dense columns are random features: the solver may give them a
        ridge of their own, or leave them out
    """

    table_sizes: tuple[int, ...] = ()
    dense_scales: tuple[int, ...] = ()
    dense_limits: tuple[ColumnLimits, ...] = ()
    dense_norms: tuple[Norm, ...] = ()
    by_class: tuple[int, int] = NO_COLUMNS
    units: int = 0

    def __post_init__(self) -> None:
        if not self.dense_limits:
            object.__setattr__(self, "dense_limits", (INT16_LIMITS,) * self.dense_dim)
        if max(self.experts, self.dense_dim) > MAX_EXPERTS:
            raise SettingsError(
                f"{self.experts} experts, {self.dense_dim} dense columns; expected at most "
                f"{MAX_EXPERTS} of each"
            )
        if any(not 1 <= size <= MAX_TABLE_SIZE for size in set(self.table_sizes)):
            raise SettingsError(f"table sizes must lie in 1..{MAX_TABLE_SIZE}")
        if any(not 1 <= s <= DENSE_LIMIT or s & (s - 1) for s in set(self.dense_scales)):
            raise SettingsError(f"dense scales must be powers of two in 1..{DENSE_LIMIT}")
        if len(self.dense_limits) != self.dense_dim:
            raise SettingsError(
                f"{len(self.dense_limits)} dense limits; expected {self.dense_dim}, one per column"
            )
        for scale, (low, high) in set(zip(self.dense_scales, self.dense_limits, strict=True)):
            if not -DENSE_LIMIT <= low <= high <= DENSE_LIMIT or low == high != scale:
                raise SettingsError(
                    f"dense limits {low} to {high}; expected integers of at most {DENSE_LIMIT} in "
                    f"magnitude, and for a constant column its scale, {scale}"
                )
        if not 1 <= self.embedding_dim <= MAX_EMBEDDING_DIM:
            raise SettingsError(
                f"{self.code_count} codes + {self.dense_dim} dense columns = "
                f"{self.embedding_dim}; expected 1..{MAX_EMBEDDING_DIM}"
            )
        self._check_parts()

    def _check_parts(self) -> None:
        end = 0
        for first, last, most in self.dense_norms:
            one_scale = len({*self.dense_scales[first:last]}) == 1
            if not (end <= first < last <= self.dense_dim and one_scale and 1 <= most <= MOST_NORM):
                raise SettingsError(
                    f"norm {most} for dense columns {first} to {last}; expected ascending "
                    f"ranges of columns of one scale, and norms of 1 to {MOST_NORM}"
                )
            end = last
        first, after = self.by_class
        inside = 0 <= first < after <= self.dense_dim
        if self.by_class != NO_COLUMNS and not (
            inside and {*range(first, after)} & {*self.constants}
        ):
            raise SettingsError(
                f"dense columns {first} to {after} are counted by class; expected some of the "
                f"{self.dense_dim} that there are, a constant one among them"
            )
        one_scale = len({*self.dense_scales[self.plain_dim :]}) == 1
        if self.units and not (0 < self.units <= self.dense_dim - after and one_scale):
            raise SettingsError(
                f"{self.units} of {self.dense_dim} dense columns are units; expected some of one "
                "scale that are not counted by class"
            )

    @property
    def experts(self) -> int:
        return len(self.table_sizes)

    @property
    def dense_dim(self) -> int:
        return len(self.dense_scales)

    @property
    def plain_dim(self) -> int:
        """How many dense columns are no units."""
        return self.dense_dim - self.units

    def without_units(self) -> Layout:
        """The layout of all columns but the units."""
        plain = self._dense_columns(0, self.plain_dim)
        return replace(plain, table_sizes=self.table_sizes, by_class=self.by_class)

    def _dense_columns(self, first: int, after: int) -> Layout:
        """The layout of the dense columns ``first`` to ``after - 1``, with their norms."""
        norms = [(a - first, b - first, most) for a, b, most in self.dense_norms]
        return Layout(
            (),
            self.dense_scales[first:after],
            self.dense_limits[first:after],
            tuple(norm for norm in norms if norm[0] >= 0 and norm[1] <= after - first),
        )

    @cached_property
    def bases(self) -> NDArray[np.int64]:
        """First column of each expert, then the column after the last; (experts + 1,)."""
        return np.concatenate([[0], np.cumsum(self.table_sizes, dtype=np.int64)]).astype(np.int64)

    @cached_property
    def constants(self) -> tuple[int, ...]:
        """Dense columns that always hold their scale, ascending."""
        limits = enumerate(self.dense_limits)
        return tuple(column for column, (low, high) in limits if low == high)

    @cached_property
    def class_layout(self) -> Layout | None:
        """The layout of the columns that are counted for each class; None if none are."""
        return None if self.by_class == NO_COLUMNS else self._dense_columns(*self.by_class)

    @property
    def only_by_class(self) -> bool:
        """Whether all columns are counted for each class."""
        return not self.experts and self.by_class == (0, self.dense_dim)

    @cached_property
    def code_count(self) -> int:
        return sum(self.table_sizes)

    @property
    def embedding_dim(self) -> int:
        return self.code_count + self.dense_dim

    @property
    def symbol_type(self) -> type[np.unsignedinteger[Any]]:
        """The narrowest type that holds every symbol."""
        return np.uint8 if max(self.table_sizes, default=0) <= 256 else np.uint16

    @property
    def most_samples(self) -> int:
        """How many samples a gram of this layout can count without overflow.

        Counts of codes are int32; 255 less than the largest one leaves a margin.
        """
        if self.experts:
            return int(np.iinfo(np.int32).max) - 255
        return int(np.iinfo(np.int64).max) // DENSE_LIMIT**2

    def to_json(self) -> dict[str, Any]:
        """The layout in run-length form: thousands of equal experts take a few bytes."""
        file = _LayoutFile(
            _runs(self.table_sizes),
            _runs(self.dense_scales),
            _runs(self.dense_limits),
            [*self.dense_norms],
            # msgspec leaves a default out if it is the very same tuple, not an equal one.
            self.by_class if any(self.by_class) else NO_COLUMNS,
            self.units,
        )
        content: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(file))
        return content

    @staticmethod
    def from_json(data: Any, *, most: int = MAX_EXPERTS) -> Layout:
        """The inverse of `to_json`; `SettingsError` for more than ``most`` experts or columns."""
        file = as_settings(_LayoutFile, data, where="layout: ")
        return Layout(
            _expand(file.tables, most),
            _expand(file.dense, most),
            _expand(file.limits, most),
            tuple(file.norms),
            file.by_class,
            file.units,
        )


class _LayoutFile(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A layout as JSON: each value with the number of consecutive columns that have it."""

    tables: list[tuple[int, int]]
    dense: list[tuple[int, int]]
    limits: list[tuple[ColumnLimits, int]]
    norms: list[Norm] = []
    by_class: tuple[int, int] = NO_COLUMNS
    units: int = 0


def _runs(values: Iterable[Any]) -> list[tuple[Any, int]]:
    return [(value, len([*run])) for value, run in groupby(values)]


def _expand(runs: Sequence[tuple[Any, int]], most: int) -> tuple[Any, ...]:
    total = 0
    for _, count in runs:
        if count < 1:
            raise SettingsError(f"a layout run of {count} columns; expected at least 1")
        total += count
        if total > most:
            raise SettingsError(f"a layout of more than {most} experts or dense columns")
    return tuple(chain.from_iterable(repeat(value, count) for value, count in runs))


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
