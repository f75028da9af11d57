"""Model: encoder + weights -> predictions. ``scores = sum_j W_j[idx_j] + dense W + b``.

Weights are kept as float32 multiples of one power of two (24 bits below the largest), so
a sum of them is exact: scores do not depend on the order of summation. Equal statistics give
equal bytes, of linear heads on any machine, of quadratic ones on one machine.
"""

from __future__ import annotations

import hashlib
import os
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.basics import atomic
from safle.basics.memory import require_free_memory
from safle.basics.paths import naming, read_capped
from safle.basics.texts import require_type
from safle.encoders.base import Encoder
from safle.encoders.codes import Codes
from safle.errors import InvalidInput
from safle.model.model_file import MAX_FILE_BYTES, read_model, write_model
from safle.model.scores import (
    add_dense,
    add_squares,
    check_squares,
    grid_exponent,
    look_up,
    pad_tables,
    probabilities,
    round_to_grid,
    split_dense,
)
from safle.solver.heads import FittedHead
from safle.solver.solution import Origin, Solution
from safle.tables.checks import ClassName
from safle.tables.findings import Findings

BATCH = 8_192
MIN_BATCH = 256
DENSE_BATCH = 1 << 22
"""Dense integers of a batch, so that they are still in the cache when they meet the weights."""


class Model:
    """A classifier of features: the encoder that all clients shared, and solved weights.

    Made by `Model.of` from what `safle.solve` gives, or read by `safle.load_model`.

    Attributes
    ----------
    codes : int64, (seen,), columns that have weights; all others are zero
    weights : float32, (seen + dense_dim, class_count)
    intercept : float32, (class_count,)
    quadratic : squares of the quadratic head, or None for linear heads
    temperature : divides scores before they become probabilities; None where neither statistics
        nor evaluation counts gave one
    promise : of noisy statistics, as text; empty without noise
    sum_digest : `safle.statistics.statistics.digest_of_sum` of the statistics

    Examples
    --------
    >>> import numpy as np, safle
    >>> encoder = safle.LinearEncoder.calibrated(safle.declared_range(0, 1, feature_dim=2))
    >>> features = np.array([[0.1, 0.2], [0.9, 0.7], [0.2, 0.1], [0.8, 0.9]])
    >>> total = safle.count(encoder, features, ["low", "high", "low", "high"])
    >>> model = safle.Model.of(encoder, safle.solve(total))
    >>> model.predict([[0.0, 0.3]]).tolist()
    ['low']
    >>> safle.Model.from_bytes(model.to_bytes()).digest == model.digest
    True
    """

    def __init__(self, encoder: Encoder, origin: Origin, fitted: FittedHead) -> None:
        encoder.space.check_same(origin.space)
        if fitted.quadratic is not None:
            check_squares(encoder.layout, fitted.quadratic)
        self.encoder = encoder
        self.codes: NDArray[np.int64] = origin.codes
        self.weights: NDArray[np.float32] = round_to_grid(fitted.weights)
        self.intercept: NDArray[np.float32] = round_to_grid(fitted.intercept)
        self.class_names: tuple[ClassName, ...] = origin.class_names
        self.head = fitted.name
        self.ridge = fitted.ridge
        self.quadratic = fitted.quadratic
        self.temperature = fitted.temperature
        self.promise = origin.promise
        self.sum_digest = origin.sum_digest

    @classmethod
    def of(cls, encoder: Encoder, solution: Solution) -> Model:
        """The model of what `safle.solve` gave, and of the encoder that counted the statistics."""
        require_type("encoder", encoder, Encoder)
        require_type("solution", solution, Solution, advice="what solve gives")
        return cls(encoder, solution.origin, solution.fitted)

    def __repr__(self) -> str:
        return (
            f"<Model: {len(self.class_names)} classes, {len(self.weights):,} columns, {self.head} "
            f"head, ridge {self.ridge:.4g}, encoder {self.encoder.fingerprint[:12]}…>"
        )

    @cached_property
    def _step(self) -> float:
        """The power of two that all weights are multiples of."""
        return float(np.ldexp(1.0, grid_exponent(self.weights)))

    @cached_property
    def _table_steps(self) -> NDArray[np.int32]:
        """`tables` in units of `_step`, padded for the kernel."""
        shape = (self.encoder.layout.code_count, len(self.class_names))
        require_free_memory(
            8 * shape[0] * shape[1],
            purpose=f"tables of {shape[0]} codes and {shape[1]} classes",
            advice="predict on a machine with more memory",
        )
        steps = np.zeros(shape, np.int32)
        steps[self.codes] = self.weights[: len(self.codes)].astype(np.float64) / self._step
        return pad_tables(steps)

    @property
    def tables(self) -> NDArray[np.float32]:
        """Weights of all codes, seen or not, float32, (code_count, class_count)."""
        steps = self._table_steps[:, : len(self.class_names)]
        return (steps * self._step).astype(np.float32)

    @cached_property
    def _dense_parts(self) -> list[tuple[int, NDArray[np.int16], int, float]]:
        return split_dense(self.encoder.layout, self.weights[len(self.codes) :], self._step)

    @property
    def dense_weights(self) -> NDArray[np.float64]:
        """Weights per code unit of the dense columns, float64, (dense_dim, class_count)."""
        weights = self.weights[len(self.codes) :].astype(np.float64)
        return weights / self.encoder.layout.scales[:, None]

    def watch(self) -> Findings:
        """Counts values that the encoder does not expect, and gaps that no client had."""
        return Findings(self.encoder.contract, self._never_missing)

    @cached_property
    def _never_missing(self) -> NDArray[np.bool_] | None:
        codes = self.encoder.gap_codes
        return None if codes is None else ~np.isin(codes, self.codes)

    def decision_function(self, features: ArrayLike) -> NDArray[np.float64]:
        """Scores, float64, (samples, class_count).

        Warns, as predictions do, of values outside what the encoder expects, and of gaps in
        columns in which no client had one.
        """
        checked = self.encoder.contract.check(features)
        if not (len(checked) == 1 and self._expects(checked)):
            outside = self.watch()
            outside.add(checked)
            outside.warn()
        return self.score_checked(checked)

    def _expects(self, sample: NDArray[Any]) -> bool:
        """Whether one sample needs no warning: fast, for samples that come one by one."""
        if self.encoder.contract.ranges is None:
            return not self.encoder.gaps
        low, high = self.encoder.contract.ranges
        fine = (sample >= low) & (sample <= high)
        if self._never_missing is not None and not fine.all():
            fine |= np.isnan(sample) & ~self._never_missing
        return bool(fine.all())

    def score_checked(self, checked: NDArray[Any]) -> NDArray[np.float64]:
        """Scores of features that the encoder has checked; nothing is warned of."""
        scores = np.empty((len(checked), len(self.class_names)))
        scores[:] = self.intercept
        for first in range(0, len(checked), BATCH):
            self._add_scores(checked[first : first + BATCH], scores[first : first + BATCH])
        return scores

    def _add_scores(self, features: NDArray[Any], scores: NDArray[np.float64]) -> None:
        layout = self.encoder.layout
        rows = max(DENSE_BATCH // max(1, layout.dense_dim), MIN_BATCH)
        squared = []
        for first in range(0, len(features), rows):
            codes = self.encoder.encode_checked(features[first : first + rows])
            self._add_weights(codes, scores[first : first + rows])
            if self.quadratic is not None:
                squared.append(codes.dense[:, layout.squared_columns])
        if self.quadratic is not None:
            # All samples together, so that each class's triangle is expanded once.
            add_squares(scores, np.concatenate(squared), layout, self.quadratic)

    def _add_weights(self, codes: Codes, scores: NDArray[np.float64]) -> None:
        layout = self.encoder.layout
        if layout.experts:
            steps = look_up(codes.symbols, layout.bases, self._table_steps)
            scores += steps[:, : len(self.class_names)] * self._step
        if layout.dense_dim:
            add_dense(scores, codes.dense, self._dense_parts)

    def with_temperature(self, temperature: float) -> Model:
        """The same model with another temperature: other probabilities, the same classes."""
        if not 0 < temperature < np.inf:
            raise InvalidInput(f"temperature {temperature}; expected a positive number")
        changed = copy(self)
        changed.__dict__.pop("digest", None)
        changed.temperature = float(temperature)
        return changed

    def predict(self, features: ArrayLike) -> NDArray[Any]:
        """Class names, (samples,)."""
        return self.classes_[np.argmax(self.decision_function(features), axis=1)]

    @cached_property
    def classes_(self) -> NDArray[Any]:
        """`class_names` as scikit-learn has them, (class_count,)."""
        return np.array(self.class_names)

    def predict_proba(self, features: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities, (samples, class_count).

        For the discriminant, averaged and quadratic heads, the softmax of the scores over the
        `temperature`. Without a temperature they are mostly overconfident: `safle.fit_temperature`
        finds one. Least-squares scores estimate the one-hot labels; their probabilities are the
        nearest point of the probability simplex, which keeps the order of the classes.
        """
        return self.to_probabilities(self.decision_function(features))

    def to_probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """`predict_proba` of samples with these scores."""
        return probabilities(scores, self.head, self.temperature or 1.0)

    def predict_log_proba(self, features: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of `predict_proba`, -inf where a probability is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(features))

    def to_bytes(self) -> bytes:
        """The model as a safetensors file; equal models give equal bytes."""
        return write_model(self)

    @staticmethod
    def from_bytes(data: bytes) -> Model:
        """The inverse of `to_bytes`; `WireError` for anything that is not a model."""
        return Model(*read_model(data))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the model file."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, atomically."""
        atomic.write_bytes(path, self.to_bytes())


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file; nothing in it is executed.

    >>> load_model("nowhere.safetensors")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.safetensors'
    """
    with naming(path):
        return Model.from_bytes(read_capped(path, MAX_FILE_BYTES, "a model file"))
