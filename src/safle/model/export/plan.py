"""What a model does, laid out for tensor libraries: no loops, only gathers and comparisons.

A digit of the one-hot and thermometer bucketings asks ``low < x_f <= high``. The permuted
digits are laid out place by place, the first digits of all experts before the second
ones: a composite index ``sum_i g_{j,i} k^i`` is then a sum of G long vectors. The digits
missing in a smaller last expert have place value 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from safle.encoders import EmbeddingEncoder, Encoder
from safle.encoders.codes import Layout
from safle.encoders.kernels.encode import EXCEEDS
from safle.encoders.shuffle import permutation
from safle.errors import InvalidInput
from safle.model import Model

Exporter = TypeVar("Exporter", bound=Callable[..., Any])


@dataclass(frozen=True)
class Weights:
    """Weights of one encoder's codes.

    Attributes
    ----------
    tables : float32, (code_count, class_count)
    dense : float64, (dense_dim, class_count), per code unit
    """

    tables: NDArray[np.float32]
    dense: NDArray[np.float64]

    @staticmethod
    def of(model: Model) -> Weights:
        return Weights(model.tables, model.dense_weights)

    def split(self, layouts: Sequence[Layout]) -> Iterator[Weights]:
        """The share of each part of `Layout.side_by_side`."""
        codes = np.cumsum([layout.code_count for layout in layouts])[:-1]
        dense = np.cumsum([layout.dense_dim for layout in layouts])[:-1]
        parts = zip(np.split(self.tables, codes), np.split(self.dense, dense), strict=True)
        return (Weights(*part) for part in parts)


@dataclass(frozen=True)
class Digits:
    """Where the digits of an embedding come from and what they count for.

    Attributes
    ----------
    feature : int64, (G * experts,), the feature each digit looks at
    function : int64, (G * experts,), which of that feature's L functions it is
    places : int64, (G, experts), its place value k^i
    """

    feature: NDArray[np.int64]
    function: NDArray[np.int64]
    places: NDArray[np.int64]

    @staticmethod
    def of(encoder: EmbeddingEncoder) -> Digits:
        functions, group = encoder.bucketing.functions, encoder.group_size
        count, experts = encoder.feature_dim * functions, encoder.layout.experts
        # Expert by expert, the last one filled up with digits that count for nothing.
        shuffled = np.zeros(experts * group, np.int64)
        shuffled[:count] = permutation(count, encoder.seed)
        places = np.tile(encoder.bucketing.radix ** np.arange(group), experts)
        places[count:] = 0
        feature, function = np.divmod(shuffled.reshape(experts, group).T.ravel(), functions)
        return Digits(feature, function, places.reshape(experts, group).T)


def intervals(
    encoder: EmbeddingEncoder, digits: Digits
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(low, high], the values that set each digit of a one-hot or thermometer bucketing.

    Float64, (G * experts,) each. Level l lies above t_l-1 and not above t_l; the first and
    the last reach to infinity.
    """
    infinite = np.full((1, encoder.feature_dim), np.inf)
    borders = np.concatenate([-infinite, encoder.thresholds, infinite])
    if encoder.bucketing.rule == EXCEEDS:
        low = borders[1 + digits.function, digits.feature]
        return low, np.full_like(low, np.inf)
    return (
        borders[digits.function, digits.feature],
        borders[1 + digits.function, digits.feature],
    )


def exporter_of(encoder: Encoder, exporters: Mapping[str, Exporter], *, target: str) -> Exporter:
    """The exporter of an encoder's kind."""
    if encoder.kind not in exporters:
        raise InvalidInput(
            f"no export of {encoder.kind!r} encoders to {target}; "
            f"it knows {', '.join(sorted(exporters))}: add one in safle.model.export"
        )
    return exporters[encoder.kind]
