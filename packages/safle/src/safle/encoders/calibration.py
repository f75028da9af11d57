"""Calibration: where the thresholds and scales of encoders come from.

Every client must use the same thresholds, on any data: they come from a declared range,
declared moments, a schema, a public sample, or an exact integer histogram summed over clients
beforehand (`Histogram.calibration`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open

from safle.encoders.codes import MAX_EXPERTS
from safle.errors import InvalidInput, SettingsError, TableError
from safle.tables.checks import Ranges, as_features, as_names
from safle.tables.contract import Contract
from safle.tables.schema import Schema
from safle.tables.sources import arrange_frame, frame_names
from safle.tables.table import existing_file

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """What an encoder is made from: the features' distribution, and declarations about them.

    Attributes
    ----------
    contract : what is declared about the features
    thresholds : how many -> non-decreasing thresholds, float64, (how many, features)
    mean, deviation : float64, (features,); a deviation is positive. Where the contract has a
        schema, the distribution is of its numbers alone
    sample : the public sample itself, float64, (samples, features), NaN where a value is missing;
        None where there is none

    Examples
    --------
    >>> calibration = declared_range(0, 8, feature_dim=2)
    >>> calibration
    <Calibration: 2 features>
    >>> calibration.thresholds(3).tolist()
    [[2.0, 2.0], [4.0, 4.0], [6.0, 6.0]]
    """

    contract: Contract
    thresholds: Callable[[int], Vector]
    mean: Vector
    deviation: Vector
    sample: Vector | None = None

    @property
    def feature_dim(self) -> int:
        return self.contract.feature_dim

    def __repr__(self) -> str:
        return f"<Calibration: {self.feature_dim:,} features>"


def declared_range(
    low: ArrayLike, high: ArrayLike, feature_dim: int = 0, names: Sequence[str] = ()
) -> Calibration:
    """Thresholds spread evenly over [low, high]: one range for all features, or one for each.

    Parameters
    ----------
    low, high : a number, or float64, (feature_dim,)
    feature_dim : how many features there are; not needed if ``low`` or ``high`` is an array
    names : the names of the features, or empty

    Examples
    --------
    >>> declared_range(0, 16, feature_dim=2).thresholds(3).T.tolist()
    [[4.0, 8.0, 12.0], [4.0, 8.0, 12.0]]
    >>> declared_range([0, 100], [1, 500], names=["ratio", "platelets"]).thresholds(1).tolist()
    [[0.5, 300.0]]
    """
    low, high = as_ends(low, high, feature_dim)
    names = as_names(names, len(low))
    ranges = (low, high) if names else None
    return _spread_evenly(Contract(len(low), names=names, ranges=ranges), low, high)


def declared_moments(mean: ArrayLike, deviation: ArrayLike) -> Calibration:
    """Gaussian quantiles of a declared mean and deviation per feature.

    >>> declared_moments([5.0, 100.0], [2.0, 15.0]).thresholds(1).tolist()
    [[5.0, 100.0]]
    """
    mean, deviation = as_moments(mean, deviation)

    def thresholds(count: int) -> Vector:
        # SciPy takes a third of a command's start-up time, and only this function needs it.
        from scipy.special import ndtri

        result: Vector = mean + deviation * ndtri(_probabilities(count))[:, None]
        return result

    return Calibration(Contract(len(mean)), thresholds, mean, replace_zeros(deviation))


def read_moments(path: str | os.PathLike[str]) -> Calibration:
    """The moments in a file, for features of the source that it names.

    It is a .safetensors file with the tensors ``mean`` and ``deviation``, (feature_dim,) each; its
    metadata may have a ``source``.

    Examples
    --------
    >>> read_moments("nowhere.safetensors")
    Traceback (most recent call last):
    safle.errors.TableError: nowhere.safetensors: no such file or folder
    """
    file = existing_file(path, TableError)
    try:
        with safe_open(file, framework="numpy") as tensors:
            found = declared_moments(tensors.get_tensor("mean"), tensors.get_tensor("deviation"))
            source = (tensors.metadata() or {}).get("source")
        return replace(found, contract=found.contract.declare(source=source))
    # safetensors raises a TypeError for types that NumPy lacks.
    except (SafetensorError, TypeError, InvalidInput, SettingsError) as error:
        raise TableError(f"{file}: not a file of moments ({error}); make it again") from None


def public_sample(features: ArrayLike, *, names: Sequence[str] = ()) -> Calibration:
    """Quantiles and moments of features that everyone may see; missing values are left out.

    ``names`` are the names of the features, by default those of a frame's columns.

    >>> public_sample([[1.0], [2.0], [9.0]]).thresholds(1).tolist()
    [[2.0]]
    """
    names = names or frame_names(features)
    given = as_features(arrange_frame(features, names), gaps=True)
    names = as_names(names, given.shape[1])
    if not given.size:
        raise InvalidInput("the public sample is empty; expected at least one sample")
    # A feature whose values are all missing counts as a constant.
    sample = np.where(np.isnan(given).all(axis=0), 0.0, given.astype(np.float64))
    has_gaps = bool(np.isnan(sample).any())

    def thresholds(count: int) -> Vector:
        quantile = np.nanquantile if has_gaps else np.quantile
        return quantile(sample, _probabilities(count), axis=0)

    # An encoder that takes moments refuses infinite ones; to others they do not matter.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = (np.nanmean if has_gaps else np.mean)(sample, axis=0)
        deviation = (np.nanstd if has_gaps else np.std)(sample, axis=0)
    # Rounding of the mean would give a constant feature a deviation of 1e-17.
    varies = np.nanmax(sample, axis=0) > np.nanmin(sample, axis=0)
    contract = Contract(len(mean), names=names)
    spread = replace_zeros(np.where(varies, deviation, 0.0))
    return Calibration(contract, thresholds, mean, spread, sample)


def of_schema(schema: Schema) -> Calibration:
    """The ranges of a schema's numbers; its names, ranges and classes of all columns.

    Only an encoder of kind ``table`` takes categories.

    >>> from safle import Column
    >>> of_schema(Schema((Column("age", 0, 80), Column("sex", levels=("f", "m"))))).mean.tolist()
    [40.0]
    """
    low, high = schema.ranges
    numbers = [not column.is_category for column in schema.columns]
    return _spread_evenly(Contract.of_schema(schema), low[numbers], high[numbers])


def require_numbers(schema: Schema | None) -> None:
    """`SettingsError` if a column of the schema is a category."""
    columns = () if schema is None else schema.columns
    if categories := [column.name for column in columns if column.is_category]:
        raise SettingsError(
            f"{', '.join(categories)} have levels; expected only numbers: categories need an "
            "encoder of kind table"
        )


def as_ends(low: ArrayLike, high: ArrayLike, feature_dim: int) -> Ranges:
    """Both ends of the range of each feature, float64, (feature_dim,); see `declared_range`."""
    low = np.asarray(low, np.float64)
    high = np.asarray(high, np.float64)
    dims = {end.size for end in (low, high) if end.ndim}
    dims |= {feature_dim} if feature_dim or not dims else set()
    if len(dims) > 1 or min(dims) < 1 or max(low.ndim, high.ndim) > 1:
        raise InvalidInput(
            f"feature_dim is {feature_dim}, low has shape {low.shape}, high {high.shape}; "
            "expected feature_dim at least 1, and one range or as many as there are features"
        )
    (dim,) = dims
    if dim > MAX_EXPERTS:
        raise InvalidInput(f"{dim} features; expected at most {MAX_EXPERTS}")
    low = np.broadcast_to(low, dim)
    high = np.broadcast_to(high, dim)
    wrong = ~(np.isfinite(low) & np.isfinite(high) & (low < high))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise InvalidInput(f"range [{low[first]:g}, {high[first]:g}]; expected finite low < high")
    return low, high


def as_moments(mean: ArrayLike, deviation: ArrayLike) -> tuple[Vector, Vector]:
    """Mean and deviation of each feature, float64, (feature_dim,); a deviation may be 0."""
    mean = np.atleast_1d(np.asarray(mean, np.float64))
    deviation = np.atleast_1d(np.asarray(deviation, np.float64))
    if mean.ndim != 1 or not mean.size or deviation.shape not in {(1,), mean.shape}:
        raise InvalidInput(
            f"mean has shape {mean.shape} and deviation {deviation.shape}; expected one "
            "number per feature, or one deviation for all"
        )
    deviation = np.broadcast_to(deviation, mean.shape)
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all()) or (deviation < 0).any():
        raise InvalidInput("moments must be finite, and deviations not negative")
    return mean, deviation


def replace_zeros(deviation: Vector) -> Vector:
    """The deviations, with 1 for 0: dividing a constant feature by it stays finite."""
    return np.where(deviation > 0, deviation, 1.0)


def _probabilities(count: int) -> Vector:
    return np.arange(1, count + 1) / (count + 1)


def _spread_evenly(contract: Contract, low: Vector, high: Vector) -> Calibration:
    """The uniform distribution on [low, high] of each feature."""

    def thresholds(count: int) -> Vector:
        return low + (high - low) * _probabilities(count)[:, None]

    # An encoder that takes moments refuses infinite ones; to others they do not matter.
    with np.errstate(over="ignore"):
        return Calibration(contract, thresholds, (low + high) / 2, (high - low) / np.sqrt(12))
