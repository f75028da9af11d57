"""Evaluation counts as a vector of integers, for masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.encoders.features import ClassName
from safle.errors import InvariantError
from safle.private.vector import LARGEST_COUNT, Block, check_samples
from safle.statistics.evaluation import Evaluation, shapes


@dataclass(frozen=True)
class EvaluationSpace:
    """The counts of one model's answers.

    >>> from safle.private.vector import pack, unpack
    >>> space = EvaluationSpace("0" * 64, ("ill", "well"), most_total_samples=1000)
    >>> none = Evaluation.none("0" * 64, ["ill", "well"])
    >>> unpack(space, pack(space, none)) == none
    True
    """

    model: str
    class_names: tuple[ClassName, ...]
    most_total_samples: int

    @property
    def blocks(self) -> tuple[Block, ...]:
        arrays = shapes(len(self.class_names)).items()
        # Wide enough for any number: more samples than the round allows are noticed, not wrapped.
        samples = Block("samples", 1, 0, LARGEST_COUNT)
        counts = [Block(name, prod(shape), 0, self.most_total_samples) for name, shape in arrays]
        return samples, *counts

    def arrays(self, value: Evaluation) -> Iterator[NDArray[np.integer[Any]]]:
        value.require(self.model, self.class_names)
        check_samples(value.sample_count, self.most_total_samples)
        yield np.array([value.sample_count])
        for name in shapes(len(self.class_names)):
            yield getattr(value, name).reshape(-1)

    def value(self, arrays: Iterator[NDArray[np.int64]]) -> Evaluation:
        samples = int(next(arrays)[0])
        check_samples(samples, self.most_total_samples)
        parts: dict[str, Any] = {
            name: array.reshape(shape)
            for (name, shape), array in zip(
                shapes(len(self.class_names)).items(), arrays, strict=True
            )
        }
        counts = Evaluation(self.model, self.class_names, **parts)
        if counts.sample_count != samples:
            raise InvariantError(
                f"the counts are of {counts.sample_count} samples, and {samples} were said: a "
                "client or a keyholder did not keep to the round; begin a new one"
            )
        return counts
