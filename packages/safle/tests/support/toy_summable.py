"""A value that adds up in a file of its own: what a stranger writes to add one.

Visits of patients: ``n`` samples, ``s = sum of v_i`` with ``0 <= v_i <= most``. The package that
has this file names it in its ``pyproject.toml``::

    [project.entry-points."safle.formats"]
    "visits" = "support.toy_summable:FORMAT"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from safle import FileFormat, container, read_header
from safle.basics import as_settings
from safle.errors import EncoderMismatch, InvariantError

MAX_SAMPLES = 1 << 40
MAX_VISITS = 1 << 20


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    most: Annotated[int, msgspec.Meta(ge=1, le=MAX_VISITS)]


class Header(Declaration, frozen=True, forbid_unknown_fields=True):
    planes: dict[str, int]


@dataclass(frozen=True)
class Visits:
    format: ClassVar[str] = "visits"
    most: int
    sample_count: int = 0
    total: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.sample_count <= MAX_SAMPLES:
            raise InvariantError(f"{self.sample_count} samples; expected 0 to {MAX_SAMPLES}")
        if not 0 <= self.total <= self.most * self.sample_count:
            raise InvariantError(
                f"{self.total} visits of {self.sample_count} samples; expected at most "
                f"{self.most} of each: the counts are of no data"
            )

    def count(self, visits: Sequence[int]) -> Visits:
        if any(not 0 <= one <= self.most for one in visits):
            raise InvariantError(f"a patient of more than {self.most} visits, or of fewer than 0")
        return replace(self, sample_count=len(visits), total=sum(visits))

    @property
    def columns(self) -> int:
        return 1

    @property
    def made_with(self) -> Mapping[str, str]:
        return {}

    @property
    def cells(self) -> Iterator[np.ndarray]:
        yield np.array([[self.sample_count]])

    @property
    def most_samples(self) -> int:
        return MAX_SAMPLES

    def samples_by_class(self) -> dict[Any, int]:
        return {}

    def holds(self) -> str:
        return f"the sum of numbers of visits, each up to {self.most}"

    def facts(self) -> dict[str, str]:
        return {"samples": f"{self.sample_count:,}", "visits": f"{self.total:,}"}

    def exposure(self) -> None:
        return None

    def check_same(self, other: Visits) -> None:
        if self.most != other.most:
            raise EncoderMismatch(f"visits up to {other.most}; expected up to {self.most}")

    def __add__(self, other: Visits) -> Visits:
        self.check_same(other)
        samples = self.sample_count + other.sample_count
        return Visits(self.most, samples, self.total + other.total)

    def __sub__(self, other: Visits) -> Visits:
        self.check_same(other)
        samples = self.sample_count - other.sample_count
        return Visits(self.most, samples, self.total - other.total)

    def add_all(self, others: Iterable[Visits]) -> Visits:
        return reduce(add, others, self)

    def declaration(self) -> dict[str, Any]:
        return {"most": self.most}

    @classmethod
    def declared(cls, content: Mapping[str, Any]) -> Visits:
        return Visits(as_settings(Declaration, content, where="visits: ").most)

    def to_vector(self, zero: Visits) -> np.ndarray:
        zero.check_same(self)
        return np.array([self.sample_count, self.total])

    def from_vector(self, vector: np.ndarray) -> Visits:
        samples, total = vector.tolist()
        return Visits(self.most, samples, total)

    def vector_bounds(self) -> np.ndarray:
        return np.array([0, self.most])


def describe(value: Visits) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return value.declaration(), {"sums": value.to_vector(value)}


def restore(
    opened: container.Container,
    like: Visits | None = None,
    admit: Callable[..., None] = lambda _classes: None,
) -> Visits:
    zero = Visits(read_header(Header, opened).most)
    if like is not None:
        like.check_same(zero)
    admit(())
    sums = opened.array("sums", (2,))
    opened.finish()
    return zero.from_vector(sums)


FORMAT = FileFormat(1000, describe, restore, Visits)
