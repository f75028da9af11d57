"""What a classifier is given, call by call: samples that are counted, and their classes."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.basics.memory import require
from safle.encoders.features import as_class_names, as_labels, as_weights
from safle.encoders.schema import Schema
from safle.errors import InvalidInput, SafleWarning
from safle.tables.drafting import draft_schema


class Batch(NamedTuple):
    """Samples that are counted: features, labels, and how often each if not once."""

    features: NDArray[Any]
    labels: NDArray[Any]
    weights: NDArray[np.int64] | None = None
    schema: Schema | None = None
    """What the features are, where they were the columns of a mixed frame."""

    @staticmethod
    def of(
        features: NDArray[Any],
        labels: NDArray[Any],
        weights: ArrayLike | None,
        schema: Schema | None,
    ) -> Batch:
        """Samples whose weight is not zero; refused here, before anything is counted."""
        as_labels(labels, len(labels))
        if weights is None:
            return Batch(features, labels, None, schema)
        times = as_weights(weights, len(labels))
        counted = times > 0
        if not counted.any():
            raise InvalidInput("all sample weights are zero; expected a positive one")
        return Batch(features[counted], labels[counted], times[counted], schema)

    def repeated(self) -> NDArray[Any]:
        """The features, each as often as it is counted."""
        if self.weights is None:
            return self.features
        require(
            int(self.weights.sum()) * self.features.shape[1] * self.features.itemsize,
            purpose=f"{int(self.weights.sum())} samples to calibrate by",
            advice="take smaller weights, or give an Encoder, which needs no calibration",
        )
        return self.features.repeat(self.weights, axis=0)


def draft_with_warnings(frame: Any) -> Schema:
    """A draft of a frame's schema; warns of every column that it leaves out."""
    draft = draft_schema(frame)
    for name, why in draft.left_out.items():
        warnings.warn(f"column {name!r} is left out: it {why}", SafleWarning, stacklevel=5)
    return draft.schema


def class_names(labels: NDArray[Any]) -> list[Any]:
    """Labels as statistics name them: plain integers or strings."""
    names: list[Any] = as_labels(labels, len(labels)).tolist()
    return names


def known_classes(
    labels: NDArray[Any], given: ArrayLike | None, earlier: NDArray[Any] | None, *, declared: bool
) -> tuple[NDArray[Any], bool]:
    """Classes after a batch of ``labels``, and whether there may be no others.

    Parameters
    ----------
    given : all that may ever occur, as this call declares them
    earlier, declared : the same two of the call before; None if this is the first
    """
    known = np.unique(labels) if earlier is None else earlier
    if given is not None:
        wanted, declared = np.unique(np.asarray(given)), True
        if earlier is not None and not np.array_equal(wanted, known):
            raise InvalidInput(
                f"classes={wanted.tolist()}; earlier calls had {known.tolist()}, "
                "and classes can be declared at the first call only"
            )
        known = wanted
    names, found = {*class_names(known)}, {*class_names(np.unique(labels))}
    as_class_names([*names | found])
    if declared and not found <= names:
        raise InvalidInput(
            f"labels contain {sorted(found - names)}, which are not among the declared "
            f"classes {known.tolist()}"
        )
    return known if found <= names else np.union1d(known, labels), declared
