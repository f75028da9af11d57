"""Products of principal coordinates: they bend the linear model where a public sample varies most.

Beside the d linear columns c and their constant, unit u multiplies two coordinates, i and j:

    ``z_i = clip(floor((sum_f directions[f, i] c_f + centres_i) / 2^(fraction_bits + 6)), +-511)``,
    ``code_u = clip(floor((factors_u z_i z_j + offsets_u) / 2^20), 0, 15)``.

Directions are the principal ones of the public sample over their deviations, so that z are 64ths
of a deviation; i <= j are the pairs with the largest products of variances. Factors and offsets
move the mean of a product, over the sample, to the code 8, and half a deviation to a step. All of
it is integer arithmetic: every machine computes the same codes.

The constant counts as 2^fraction_bits, so that the ridge hardly shrinks it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from safle._native import Kernel
from safle.basics.tensors import Arrays
from safle.encoders.calibration import Calibration
from safle.encoders.codes import MAX_EXPERTS, PRODUCTS, Block, Codes, Layout
from safle.encoders.linear import (
    BY_CLASS_HELP,
    FRACTION_BITS,
    TRANSFORM_HELP,
    LinearEncoder,
    LinearSettings,
    Transform,
    choose_transform,
)
from safle.encoders.operations import NumpyOperations, Operations, T
from safle.encoders.random_features import suits_by_class
from safle.encoders.registry import annotate
from safle.errors import SettingsError

MAX_PRODUCTS = 3_381
"""With 512 features, the gram has a fifth of the entries that 8,192 random columns give it."""
DIRECTION_BITS = 12
COORDINATE_BITS = 6
FACTOR_BITS = 20
"""Bits behind the binary point."""
MIN_VARIANCE = 1 / 64
"""Of a direction, in those of a feature: its entries are then at most 8, and fit 16 bits."""
MAX_DIRECTION = (1 << 15) - 1
MAX_CENTRE = (1 << 31) - 1
MAX_COORDINATE = 511
"""Eight deviations: what is longer is an outlier."""
MAX_FACTOR = 4_095
MAX_OFFSET = 1 << 30
"""With these and two coordinates at their limits, a sum stays below 2**31."""
STEPS_PER_DEVIATION = 2
MIDDLE_CODE = 8
MAX_CODE = 15
MIN_DEVIATION = 1 / 8
"""Of a product: its factor is then at most 4,095."""
SCALE = 4
"""Beside a deviation of a feature, one of a product counts half."""
multiply_pairs = Kernel(
    "multiply_pairs",
    "coordinates i2[samples, k]; k; pairs i4[units, 2] <k; factors i4[units]; offsets i4[units]",
    "units; shift; largest; dense i2[samples, width]!; width",
    pieces="samples",
)
_PRODUCTS = annotate(
    "Most products of two coordinates: columns that bend the linear model.",
    minimum=1,
    maximum=MAX_EXPERTS,
)
_BY_CLASS_IF = "if classes are declared, and 2 GB at the server hold their grams"
_SQUARE_ROOT_IF = "square-root if they are never negative, as pooled activations are, else none"


class _ProductSettings(LinearSettings, frozen=True):
    """Settings of a `ProductEncoder`."""

    products: Annotated[int, _PRODUCTS] = MAX_PRODUCTS
    # Sixteenths of a deviation, beside products in half deviations.
    fraction_bits: Annotated[int, FRACTION_BITS] = 4
    transform: Annotated[Transform, annotate(TRANSFORM_HELP, chosen=_SQUARE_ROOT_IF)] | None = None
    by_class: Annotated[bool, annotate(BY_CLASS_HELP, chosen=_BY_CLASS_IF)] | None = None

    def choose(self, calibration: Calibration, class_count: int) -> Self:
        by_class = self.by_class
        if by_class is None:
            by_class = suits_by_class(calibration.feature_dim, class_count, least=2)
        transform = self.transform or choose_transform(calibration)
        return msgspec.structs.replace(self, transform=transform, by_class=by_class)


class ProductEncoder(LinearEncoder):
    """Features -> linear columns, a constant, and products of principal coordinates.

    Parameters
    ----------
    mean, deviation : float64, (feature_dim,)
        of the transformed features
    directions : int16, (feature_dim, coordinates)
    centres : int32, (coordinates,)
    pairs : int32, (units, 2), the coordinates that a unit multiplies
    factors, offsets : int32, (units,)
    settings : those of the kind, which `safle encoder make --help` lists

    Examples
    --------
    >>> import numpy as np
    >>> from safle import make_encoder, public_sample
    >>> sample = np.random.default_rng(0).normal(size=(500, 16))
    >>> encoder = make_encoder(public_sample(sample), "products", products=32)
    >>> encoder.encode(sample).dense.shape
    (500, 49)
    """

    kind = "products"
    summary = "the strongest with a public sample: products of its principal coordinates"
    settings_type = _ProductSettings
    settings: _ProductSettings

    def __init__(
        self,
        mean: NDArray[np.float64],
        deviation: NDArray[np.float64],
        directions: NDArray[np.int16],
        centres: NDArray[np.int32],
        pairs: NDArray[np.int32],
        factors: NDArray[np.int32],
        offsets: NDArray[np.int32],
        **settings: Any,
    ) -> None:
        super().__init__(mean, deviation, **settings)
        k = np.shape(centres)[0] if np.ndim(centres) == 1 else 0
        units = np.shape(factors)[0] if np.ndim(factors) == 1 else 0
        if not (k and 1 <= units <= self.settings.products):
            raise SettingsError(
                f"{k} coordinates and {units} products; expected at least one of each, and at most "
                f"{self.settings.products} products"
            )
        shape = self.feature_dim, k
        most = MAX_DIRECTION
        self.directions = _integers("directions", directions, np.int16, shape, -most, most)
        self.centres = _integers("centres", centres, np.int32, (k,), -MAX_CENTRE, MAX_CENTRE)
        self.pairs = _integers("pairs", pairs, np.int32, (units, 2), 0, k - 1)
        self.factors = _integers("factors", factors, np.int32, (units,), 0, MAX_FACTOR)
        self.offsets = _integers("offsets", offsets, np.int32, (units,), -MAX_OFFSET, MAX_OFFSET)

    @classmethod
    def measure(cls, calibration: Calibration, settings: Any) -> dict[str, Any]:
        if calibration.sample is None:
            raise SettingsError(
                "products need the public sample itself; expected a calibration by "
                "public_sample(features) (`safle encoder make --sample`): without one, take kind "
                "random-features"
            )
        linear = super().measure(calibration, settings)
        bits = settings.fraction_bits
        plain = LinearEncoder(**linear, fraction_bits=bits, transform=settings.transform)
        complete = calibration.sample[~np.isnan(calibration.sample).any(axis=1)]
        fixed = plain.fixed_point(NumpyOperations(), complete)
        variances, white = _principal_directions(fixed / plain.scale)
        pairs = _largest_pairs(variances, settings.products)
        used = int(pairs.max()) + 1
        directions = np.rint(np.ldexp(white[:, :used], DIRECTION_BITS))
        directions = directions.clip(-MAX_DIRECTION, MAX_DIRECTION)
        centres = -np.rint(fixed.mean(axis=0) @ directions)
        z = _coordinates(NumpyOperations(), fixed, directions, centres, bits)
        factors, offsets = _standardise(np.ldexp(z, -COORDINATE_BITS), pairs)
        return linear | {
            "directions": directions.astype(np.int16),
            "centres": centres.clip(-MAX_CENTRE, MAX_CENTRE).astype(np.int32),
            "pairs": pairs.astype(np.int32),
            "factors": factors.astype(np.int32),
            "offsets": offsets.astype(np.int32),
        }

    @cached_property
    def layout(self) -> Layout:
        features, constant = super().layout.blocks
        constant = msgspec.structs.replace(constant, scale=1)
        products = Block(PRODUCTS, len(self.pairs), scale=SCALE, high=MAX_CODE)
        return Layout([features, constant, products])

    def arrays(self) -> Arrays:
        names = ("directions", "centres", "pairs", "factors", "offsets")
        return super().arrays() | {name: getattr(self, name) for name in names}

    @cached_property
    def _float_directions(self) -> NDArray[np.float64]:
        return self.directions.astype(np.float64)

    def _find_coordinates(self, ops: Operations[T], fixed: T) -> T:
        bits = self.settings.fraction_bits
        return _coordinates(ops, fixed, self._float_directions, self.centres, bits)

    def express(self, ops: Operations[T], features: T) -> tuple[None, T]:
        fixed = self.fixed_point(ops, features)
        z = self._find_coordinates(ops, fixed)
        first, second = self.pairs.T
        products = ops.times(ops.gather(z, first), ops.gather(z, second))
        sums = ops.add(ops.multiply(products, self.factors), self.offsets)
        codes = ops.clip(ops.floor(ops.divide(sums, 1 << FACTOR_BITS)), 0, MAX_CODE)
        return None, ops.join([ops.append(fixed, self.scale), codes])

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        codes = super().encode_checked(features)
        fixed = codes.dense[:, : self.feature_dim].astype(np.float64)
        z = self._find_coordinates(NumpyOperations(), fixed).astype(np.int16)
        # The kernel writes products behind the linear columns.
        multiply_pairs(
            z, self.pairs, self.factors, self.offsets, FACTOR_BITS, MAX_CODE, codes.dense
        )
        return codes


def _coordinates(
    ops: Operations[T],
    fixed: T,
    directions: NDArray[np.float64],
    centres: NDArray[Any],
    fraction_bits: int,
) -> T:
    """Coordinates of fixed-point columns, (samples, coordinates)."""
    # Less than 2**51: at most 2**20 features, and 16 bits of each factor.
    sums = ops.add(ops.integer_product(fixed, directions), centres)
    steps = ops.floor(ops.divide(sums, 1 << fraction_bits + COORDINATE_BITS))
    return ops.clip(steps, -MAX_COORDINATE, MAX_COORDINATE)


def _principal_directions(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variances, descending, and the directions over their deviations, (features, directions)."""
    if len(values) < 2:
        raise SettingsError(
            f"the public sample has n_samples={len(values)} without gaps; expected at least 2, "
            "better 1,000"
        )
    deviations = values - values.mean(axis=0)
    variances, vectors = np.linalg.eigh(deviations.T @ deviations / len(values))
    kept = np.flatnonzero(variances >= MIN_VARIANCE)[::-1]
    if not len(kept):
        raise SettingsError("the public sample hardly varies; expected samples that differ")
    vectors = vectors[:, kept]
    # The same signs by every library: the largest entry is positive.
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    return variances[kept], vectors * np.sign(largest) / np.sqrt(variances[kept])


def _largest_pairs(variances: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """The pairs i <= j with the largest products of variances, (pairs, 2)."""
    first, second = np.triu_indices(len(variances))
    order = np.argsort(-variances[first] * variances[second], kind="stable")[:most]
    return np.stack([first[order], second[order]], axis=1)


def _standardise(
    z: NDArray[np.float64], pairs: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Factors and offsets of products of coordinates, by their mean and deviation over samples."""
    first, second = pairs.T
    means = (z.T @ z / len(z))[first, second]
    squares = ((z**2).T @ z**2 / len(z))[first, second]
    deviations = np.sqrt(np.maximum(squares - means**2, MIN_DEVIATION**2))
    factors = np.ldexp(STEPS_PER_DEVIATION / deviations, FACTOR_BITS - 2 * COORDINATE_BITS)
    offsets = np.ldexp(MIDDLE_CODE + 0.5 - STEPS_PER_DEVIATION * means / deviations, FACTOR_BITS)
    return np.rint(factors).clip(0, MAX_FACTOR), np.rint(offsets).clip(-MAX_OFFSET, MAX_OFFSET)


def _integers(
    name: str, array: Any, dtype: Any, shape: tuple[int, ...], low: int, high: int
) -> NDArray[Any]:
    """A copy of integers of a type and shape; `SettingsError` for others than low to high."""
    values = np.asarray(array)
    if values.shape != shape or values.dtype != dtype:
        raise SettingsError(
            f"{name} are {values.dtype} of shape {values.shape}; expected {np.dtype(dtype)} of "
            f"shape {shape}"
        )
    if values.min() < low or values.max() > high:
        raise SettingsError(
            f"{name} from {values.min()} to {values.max()}; expected {low} to {high}"
        )
    return np.array(values, dtype, order="C")
