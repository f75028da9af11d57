"""The paper's encoder: bucket every feature, shuffle, group, index.

The level of a value is the number of its feature's thresholds strictly below it. Digit l, from 0,
is the level (``integer``), 1 if the level is l (``one-hot``), or 1 if the level exceeds l
(``binary-overlap``). Digits are numbered feature by feature, then sorted by the SplitMix64 output
number i + 1 of the seed, i their position, ties by position. Each ``group_size`` digits in a row
are an expert, the last one smaller if need be. Expert j's symbol is ``g_1 + g_2 k + g_3 k^2 +
...``, k the number of values of a digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle.basics.tensors import Arrays
from safle.encoders.base import Encoder
from safle.encoders.calibration import Calibration
from safle.encoders.codes import MAX_EMBEDDING_DIM, MAX_TABLE_SIZE, TABLES, Block, Codes, Layout
from safle.encoders.operations import NumpyOperations, Operations, T
from safle.encoders.registry import MAX_SEED, Settings, annotate
from safle.encoders.splitmix import permutation
from safle.errors import SettingsError
from safle.tables.contract import Contract

MAX_BUCKETS = 65_536
LEVEL = 0
EQUALS = 1
EXCEEDS = 2
RULES = {"integer": LEVEL, "one-hot": EQUALS, "binary-overlap": EXCEEDS}
"""How a digit follows from its feature's level; the kernel uses these numbers."""
DEFAULT_BUCKETS = 8
DEFAULT_EMBEDDING_DIM = 12_288
DEFAULT_GROUP_LIMIT = 6
"""Tables of more than 64 rows are mostly unseen at a client's sample counts."""
_encode_rows = Kernel(
    "encode_rows",
    "features f4|f8[samples, dim]; samples; dim; thresholds =features[count, dim]; count",
    "rule; functions; sources i4[digit_count] <functions * dim",
    "starts i8[experts + 1] <digit_count + 1; experts; radix",
    "symbols u1|u2[samples, experts]!; digits u2[functions * dim]~",
    pieces="(samples + 63) // 64",
)


@dataclass(frozen=True)
class Bucketing:
    """One feature value -> L = ``functions`` digits in {0..k-1}, k = ``radix``.

    The *level* of a value is the number of its feature's thresholds below it. A digit is the
    level itself (``integer``), "is the level l?" (``one-hot``) or "is the level above l?"
    (``binary-overlap``, a thermometer: nearby values share most bits).

    Examples
    --------
    >>> Bucketing("integer", 8).radix, Bucketing("binary-overlap", 8).functions
    (8, 8)
    """

    name: str
    buckets: int

    def __post_init__(self) -> None:
        if self.name not in RULES:
            raise SettingsError(f"bucketing {self.name!r}; expected one of {', '.join(RULES)}")
        if not self.fewest_buckets <= self.buckets <= MAX_BUCKETS:
            raise SettingsError(
                f"{self.name} bucketing got {self.buckets} buckets; "
                f"expected {self.fewest_buckets}..{MAX_BUCKETS}"
            )

    @property
    def rule(self) -> int:
        """How a digit follows from the level."""
        return RULES[self.name]

    @property
    def fewest_buckets(self) -> int:
        """The fewest buckets that distinguish two values."""
        return 1 if self.rule == EXCEEDS else 2

    @property
    def functions(self) -> int:
        """L, the number of digits of a feature."""
        return 1 if self.rule == LEVEL else self.buckets

    @property
    def radix(self) -> int:
        """k, the number of values of a digit."""
        return self.buckets if self.rule == LEVEL else 2

    @property
    def threshold_count(self) -> int:
        return self.buckets if self.rule == EXCEEDS else self.buckets - 1


_BUCKETS = annotate(
    "Buckets per feature.", minimum=1, maximum=MAX_BUCKETS, chosen="8, fewer for many features"
)
_GROUP_SIZE = annotate(
    "Digits per expert.", minimum=1, chosen="the largest up to 6 with about 12,000 columns"
)
_SEED = annotate("Chooses the permutation of digits.", minimum=0, maximum=MAX_SEED)


class _EmbeddingSettings(Settings, frozen=True):
    """Settings of an `EmbeddingEncoder`."""

    bucketing: Annotated[
        Literal["integer", "one-hot", "binary-overlap"], annotate("How a value becomes digits.")
    ] = "binary-overlap"
    buckets: Annotated[int, _BUCKETS] | None = None
    group_size: Annotated[int, _GROUP_SIZE] | None = None
    seed: Annotated[int, _SEED] = 0

    def choose(self, calibration: Calibration, class_count: int) -> Self:  # noqa: ARG002
        dim = calibration.feature_dim
        # One bucket of binary-overlap has a threshold; one bucket of the others has none.
        fewest = Bucketing(self.bucketing, MAX_BUCKETS).fewest_buckets
        buckets = max(fewest, default_buckets(dim)) if self.buckets is None else self.buckets
        group_size = self.group_size
        if group_size is None:
            group_size = default_group_size(dim, Bucketing(self.bucketing, buckets))
        return msgspec.structs.replace(self, buckets=buckets, group_size=group_size)


class EmbeddingEncoder(Encoder):
    """Features -> one symbol per expert.

    Parameters
    ----------
    thresholds : float64, (threshold_count, feature_dim), non-decreasing along axis 0
    settings : those of the kind; buckets and group_size must be given

    Examples
    --------
    >>> encoder = EmbeddingEncoder([[0.5, 0.5]], buckets=1, group_size=2)
    >>> encoder.layout.table_sizes.tolist(), encoder.encode([[0.1, 0.9]]).symbols.shape
    ([4], (1, 1))
    """

    kind = "embedding"
    summary = "the paper's SAFLe: buckets, shuffled and grouped"
    settings_type: ClassVar[type[_EmbeddingSettings]] = _EmbeddingSettings
    settings: _EmbeddingSettings

    def __init__(self, thresholds: NDArray[np.float64], **settings: Any) -> None:
        self.thresholds = np.array(thresholds, np.float64, order="C")
        # Thresholds of another shape are refused below.
        super().__init__(Contract(np.atleast_1d(self.thresholds).shape[-1]), **settings)
        self.bucketing = Bucketing(self.settings.bucketing, int(self.settings.buckets or 0))
        self.group_size = int(self.settings.group_size or 0)
        _check_thresholds(self.thresholds, self.bucketing)
        _check_sizes(self.feature_dim, self.bucketing, self.group_size)

    @classmethod
    def measure(cls, calibration: Calibration, settings: _EmbeddingSettings) -> dict[str, Any]:
        bucketing = Bucketing(settings.bucketing, int(settings.buckets or 0))
        return {"thresholds": calibration.thresholds(bucketing.threshold_count)}

    @property
    def _digit_count(self) -> int:
        return self.feature_dim * self.bucketing.functions

    @cached_property
    def layout(self) -> Layout:
        whole, rest = divmod(self._digit_count, self.group_size)
        blocks = []
        if whole:
            blocks.append(Block(TABLES, whole, self.bucketing.radix**self.group_size))
        if rest:
            blocks.append(Block(TABLES, 1, self.bucketing.radix**rest))
        return Layout(blocks)

    def arrays(self) -> Arrays:
        return {"thresholds": self.thresholds}

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        layout = self.layout
        symbols = np.empty((len(features), layout.experts), layout.symbol_type)
        starts = np.minimum(np.arange(layout.experts + 1) * self.group_size, self._digit_count)
        _encode_rows(
            features,
            _thresholds_for(features.dtype, self.thresholds),
            self.bucketing.rule,
            self.bucketing.functions,
            self._positions,
            starts,
            self.bucketing.radix,
            symbols,
        )
        return Codes(symbols, np.empty((len(features), 0), np.int16))

    @property
    def level_count(self) -> int:
        # Sums of symbols give each digit, and differences of digits each level: of the samples
        # with x > 3, those without x > 4.
        if self.bucketing.rule == LEVEL and self.group_size == 1:
            return 0
        return min(len(self.thresholds) + 1, MAX_TABLE_SIZE)

    def levels(self, features: NDArray[Any]) -> NDArray[np.unsignedinteger[Any]]:
        if not self.level_count:
            return super().levels(features)
        found = NumpyOperations().levels(features.astype(np.float64), self.thresholds)
        return np.minimum(found, self.level_count - 1).astype(np.uint16)

    @cached_property
    def _positions(self) -> NDArray[np.int32]:
        """Permuted digits (paper order f*L + l) as positions in the kernel's order l*d + f."""
        shuffled = permutation(self._digit_count, self.settings.seed)
        feature, function = np.divmod(shuffled, self.bucketing.functions)
        return (function * self.feature_dim + feature).astype(np.int32)

    def express(self, ops: Operations[T], features: T) -> tuple[T, None]:
        # The first digits of all experts come before the second ones: a symbol is then a sum
        # of G rows. Digits missing in the last expert have place value 0.
        group = self.group_size
        experts = self.layout.experts
        shuffled = np.zeros(experts * group, np.int64)
        shuffled[: self._digit_count] = permutation(self._digit_count, self.settings.seed)
        places = np.tile(self.bucketing.radix ** np.arange(group), experts)
        places[self._digit_count :] = 0
        digits = shuffled.reshape(experts, group).T.ravel()
        feature, function = np.divmod(digits, self.bucketing.functions)
        if self.bucketing.rule == LEVEL:
            values = ops.gather(ops.levels(features, self.thresholds), feature)
        else:
            low, high = self._intervals(feature, function)
            values = ops.inside(ops.gather(features, feature), low, high)
        return ops.compose(values, places.reshape(experts, group).T), None

    def _intervals(
        self, feature: NDArray[np.int64], function: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The intervals (low, high] of values that set these digits; float64, (digits,) each.

        Level l lies above t_l-1 and not above t_l; the first and the last reach to infinity.
        """
        infinite = np.full((1, self.feature_dim), np.inf)
        borders = np.concatenate([-infinite, self.thresholds, infinite])
        if self.bucketing.rule == EXCEEDS:
            low = borders[1 + function, feature]
            return low, np.full_like(low, np.inf)
        return borders[function, feature], borders[1 + function, feature]


def default_buckets(feature_dim: int) -> int:
    """8 buckets per feature, halved until there are at most 12,288 in all."""
    buckets = DEFAULT_BUCKETS
    while buckets > 1 and buckets * feature_dim > DEFAULT_EMBEDDING_DIM:
        buckets //= 2
    return buckets


def default_group_size(feature_dim: int, bucketing: Bucketing) -> int:
    """The largest G up to 6 with no more than about 12,000 columns, but at least 1."""
    digits = feature_dim * bucketing.functions
    fitting = [
        size
        for size in range(1, min(DEFAULT_GROUP_LIMIT, digits) + 1)
        if bucketing.radix**size <= MAX_TABLE_SIZE
        and -(-digits // size) * bucketing.radix**size <= DEFAULT_EMBEDDING_DIM
    ]
    return max(fitting, default=1)


def _thresholds_for(dtype: Any, thresholds: NDArray[np.float64]) -> NDArray[Any]:
    """Thresholds in the features' own precision, rounded down.

    For a float32 x, ``x > t`` and ``x > largest float32 <= t`` have the same answer,
    so float32 and float64 copies of the same features get the same codes.
    """
    if dtype == np.float64:
        return thresholds
    with np.errstate(over="ignore"):
        rounded = thresholds.astype(np.float32)
        below = np.nextafter(rounded, np.float32(-np.inf))
    above = rounded.astype(np.float64) > thresholds
    lowered: NDArray[Any] = np.where(above, below, rounded)
    return lowered


def _check_thresholds(thresholds: NDArray[np.float64], bucketing: Bucketing) -> None:
    if thresholds.ndim != 2 or not thresholds.shape[1]:
        raise SettingsError(
            f"thresholds have shape {thresholds.shape}; expected (threshold_count, feature_dim)"
        )
    if len(thresholds) != bucketing.threshold_count:
        raise SettingsError(
            f"{len(thresholds)} thresholds per feature; {bucketing.name} bucketing with "
            f"{bucketing.buckets} buckets needs {bucketing.threshold_count}"
        )
    if not np.isfinite(thresholds).all() or (np.diff(thresholds, axis=0) < 0).any():
        raise SettingsError("thresholds must be finite and must not decrease")


def _check_sizes(feature_dim: int, bucketing: Bucketing, group_size: int) -> None:
    digits = feature_dim * bucketing.functions
    if not 1 <= group_size <= digits:
        raise SettingsError(
            f"group_size {group_size}; expected 1..{digits} "
            f"({feature_dim} features x {bucketing.functions} digits)"
        )
    # The exponent is checked first: k^G of a hostile file could fill the memory.
    if group_size > 16 or bucketing.radix**group_size > MAX_TABLE_SIZE:
        raise SettingsError(
            f"k^G = {bucketing.radix}^{group_size} rows per table, more than {MAX_TABLE_SIZE}; "
            "use a smaller group_size or fewer buckets"
        )
    columns = -(-digits // group_size) * bucketing.radix**group_size
    if columns > MAX_EMBEDDING_DIM:
        raise SettingsError(
            f"{-(-digits // group_size)} experts x {bucketing.radix}^{group_size} rows = "
            f"{columns} columns, more than {MAX_EMBEDDING_DIM}; use a smaller group_size or "
            "fewer buckets"
        )
