"""Values that add up: one interface for all rooms and all kinds of counts.

Commands, policies, release sheets, sums of files, masks and networks work through it and never ask
for a type. A new value is one module with a `safle.wire.FileFormat`, and one row of the entry
points ``safle.formats``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from safle.tables.checks import ClassName

if TYPE_CHECKING:
    from safle.statistics.exposure import Exposure


class Summable(Protocol):
    """Exact integers over samples, that can be added and taken back."""

    format: ClassVar[str]
    """The type of its files, as `safle.wire.format_named` knows it."""

    @property
    def sample_count(self) -> int:
        """How many samples it counts."""

    @property
    def columns(self) -> int:
        """Its width: columns of statistics, features of a histogram, classes of answers."""

    @property
    def made_with(self) -> Mapping[str, str]:
        """Digests of what it was counted with, which a policy may pin: "encoder", "model"."""

    @property
    def cells(self) -> Iterator[NDArray[np.int64]]:
        """Its entries that are counts of samples, as tables: see `safle.statistics.cells`."""

    @property
    def most_samples(self) -> int:
        """How many samples its integers can count."""

    def samples_by_class(self) -> dict[ClassName, int]:
        """Samples of each class that occurs; empty for a value without classes."""

    def holds(self) -> str:
        """What a file of it holds, for a release sheet."""

    def facts(self) -> dict[str, str]:
        """Names and values, for people."""

    def exposure(self) -> Exposure | None:
        """Which samples can be reconstructed from it; None without an answer."""

    def check_same(self, other: Self) -> None:
        """`EncoderMismatch` unless both can be added."""

    def __add__(self, other: Self) -> Self: ...

    def __sub__(self, other: Self) -> Self:
        """Take a contribution back: the value that never saw it."""

    def add_all(self, others: Iterable[Self]) -> Self:
        """The sum with all others, in memory that does not grow with their number."""

    # For masks and noise. A *zero* is the value of no samples that names everything allowed: the
    # classes of statistics, the grid of a histogram, the model of answers.

    def declaration(self) -> dict[str, Any]:
        """What a zero allows, as JSON."""

    @classmethod
    def declared(cls, content: Mapping[str, Any]) -> Self:
        """The zero of a declaration from outside; a `SafleError` if there is none."""

    def to_vector(self, zero: Self) -> NDArray[np.int64]:
        """The entries that do not follow from others, for all that ``zero`` allows."""

    def from_vector(self, vector: NDArray[np.int64]) -> Self:
        """Of a zero: the value with this vector, verified."""

    def vector_bounds(self) -> NDArray[np.int64]:
        """Of a zero: the most that one sample adds to each entry; 0 where samples are counted."""
