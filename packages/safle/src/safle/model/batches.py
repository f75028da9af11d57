"""Check the input of a classifier: samples to count, or features to predict."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_X_y
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from safle.encoders.base import Encoder
from safle.encoders.registry import kind_named
from safle.errors import SafleWarning, SettingsError
from safle.tables.checks import as_features, as_labels
from safle.tables.drafting import draft_schema
from safle.tables.schema import Schema
from safle.tables.sources import arrange_frame, frame_names, holds_text, reorder_frame

if TYPE_CHECKING:
    from safle.model.estimator import SafleClassifier

AUTO = "auto"
_FLOATS = (np.float64, np.float32)


def check_batch(
    estimator: SafleClassifier, X: ArrayLike, y: ArrayLike, *, reset: bool
) -> tuple[NDArray[Any], NDArray[Any], Schema | None]:
    """Check samples: their features, labels, and the schema of the frame that they come from.

    ``reset`` says that this is the first call.
    """
    schema = _find_schema(estimator, X) if reset else estimator.encoder_.contract.schema
    gaps = allows_gaps(estimator.encoder if reset else estimator.encoder_)
    if schema is None or not frame_names(X):
        X = _order_columns(estimator.encoder, X)
        features, labels = validate_data(estimator, X, y, reset=reset, **_check_options(gaps))
    else:
        features, labels = check_X_y(arrange_frame(X, (), schema), y, **_check_options(gaps))
        estimator.n_features_in_ = schema.feature_dim
        estimator.feature_names_in_ = np.array(schema.names, object)
    check_classification_targets(labels)
    as_labels(labels, len(labels))
    return features, labels, schema


def check_features(estimator: SafleClassifier, X: Any) -> Any:
    """Check features to predict; a frame is returned as it is if the model reads it by a schema."""
    encoder = estimator.encoder_
    if encoder.contract.schema is not None and frame_names(X):
        return X
    X = _order_columns(estimator.encoder, X)
    return validate_data(estimator, X, reset=False, **_check_options(encoder.gaps))


def class_names(labels: NDArray[Any]) -> list[Any]:
    """Labels as statistics name them: plain integers or strings."""
    return as_labels(labels, len(labels)).tolist()


def allows_gaps(encoder: Encoder | str) -> bool:
    """Whether an encoder, a kind or "auto" allows missing values."""
    if isinstance(encoder, Encoder):
        return encoder.gaps
    return encoder == AUTO or kind_named(encoder).gaps


def _check_options(gaps: bool) -> dict[str, Any]:
    """Options of scikit-learn's check of features."""
    return {"dtype": _FLOATS, "ensure_all_finite": "allow-nan" if gaps else True}


def _find_schema(estimator: SafleClassifier, X: Any) -> Schema | None:
    """The given schema, or a draft if the frame holds text."""
    if isinstance(estimator.encoder, Encoder):
        return estimator.encoder.contract.schema
    schema = estimator.schema
    if schema is None and holds_text(X):
        draft = draft_schema(X)
        schema = draft.schema
        for name, why in draft.left_out.items():
            warnings.warn(f"column {name!r} is left out: it {why}", SafleWarning, stacklevel=4)
    # The kinds that allow missing values are those that take a schema.
    if schema is not None and not allows_gaps(estimator.encoder):
        raise SettingsError(
            f"an encoder of kind {estimator.encoder} takes no text and no schema; use "
            "encoder='table', or turn text into numbers"
        )
    return schema


def _order_columns(encoder: Encoder | str, X: Any) -> Any:
    """A frame with the columns that a given `Encoder` knows, in its order.

    Without an `Encoder`, scikit-learn compares the names with those of the first call.
    """
    if hasattr(X, "toarray"):
        # For sparse matrices, our error says more than scikit-learn's.
        as_features(X)
    names = encoder.contract.names if isinstance(encoder, Encoder) else ()
    return reorder_frame(X, names) if names else X
