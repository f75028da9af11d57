"""scores -> probabilities and odds, the same on any machine.

The discriminant, averaged and quadratic heads' scores, divided by the model's temperature, are
logarithms of posteriors, up to what all classes share: ``p = softmax(scores / temperature)``.
Least-squares scores estimate the one-hot labels; theirs is the nearest point of the probability
simplex. Whoever exports probabilities does the same. Libraries differ in the last bit of an
exponential, which would decide whose bin an answer is counted in: here it is a polynomial, with
every product and sum in a fixed order.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
LEAST = -700.0
"""Below, an exponential is nothing beside 1."""
_HIGH = 0.693147180369123816490
"""High part of ln 2; its last bits are zeros, so that whole multiples are exact."""
_LOW = 1.90821492927058770002e-10
_TERMS = 14


def probabilities(scores: Matrix, head: str, temperature: float = 1.0) -> Matrix:
    """Class probabilities, (samples, class_count), of a head's scores."""
    if head == "least-squares":
        return _nearest_probabilities(scores)
    raised = exponential((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return raised / _sum_in_order(raised)


def odds(scores: Matrix, head: str, temperature: float = 1.0) -> Matrix:
    """``p / (1 - p)``, (samples, class_count), without losing what is left of 1."""
    if head == "least-squares":
        p = _nearest_probabilities(scores)
        with np.errstate(divide="ignore"):
            return p / (1 - p)
    raised = exponential((scores - scores.max(axis=1, keepdims=True)) / temperature)
    # The largest is 1: it is set aside, or others beside it would drown.
    rows, best = np.arange(len(raised)), np.argmax(scores, axis=1)
    raised[rows, best] = 0.0
    rest = _sum_in_order(raised)
    result: Matrix = raised / (1 + rest - raised)
    with np.errstate(divide="ignore"):
        result[rows, best] = 1 / rest[:, 0]
    return result


def exponential(values: Matrix) -> Matrix:
    """``exp(values)`` of values up to 0, to about the last bit; 0 below `LEAST`.

    >>> exponential(np.array([0.0, -1.0, -1e9])).round(12).tolist()
    [1.0, 0.367879441171, 0.0]
    """
    powers = np.rint(np.maximum(values, LEAST) * (1 / math.log(2)))
    rest = (np.maximum(values, LEAST) - powers * _HIGH) - powers * _LOW
    series = np.ones_like(rest)
    for term in range(_TERMS, 0, -1):
        series *= rest / term
        series += 1.0
    raised: Matrix = np.ldexp(series, powers.astype(np.int32))
    return np.where(values < LEAST, 0.0, raised)


def _sum_in_order(values: Matrix) -> Matrix:
    """Row sums, (rows, 1), column after column."""
    total = np.zeros(len(values))
    for column in values.T:
        total = total + column
    return total[:, None]


def _nearest_probabilities(scores: Matrix) -> Matrix:
    """Euclidean projection of every row on the probability simplex."""
    ordered = -np.sort(-scores, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, scores.shape[1] + 1)
    support = (ordered > excess).sum(axis=1)
    threshold = excess[np.arange(len(scores)), support - 1]
    return np.maximum(scores - threshold[:, None], 0.0)
