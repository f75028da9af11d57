"""Priors: how frequent classes are where a model is used, if not as they were counted.

Scores over their temperature T are logarithms of posteriors, so that other priors move each by
``T (log prior_c - log n_c / n)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from safle.encoders.features import ClassName
from safle.errors import InvalidInput
from safle.solver.ordered import log_shares

Priors = Literal["uniform"] | Mapping[ClassName, float]


def shift_of(
    priors: Priors, class_names: tuple[ClassName, ...], class_counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What priors add to log posteriors, (class_count,), without what all classes share.

    >>> shift_of("uniform", ("ill", "well"), np.array([1, 3])).round(6).tolist()
    [0.549306, -0.549306]
    """
    shift = -log_shares(class_counts)
    if priors != "uniform":
        shift += [float(Decimal(float(p)).ln()) for p in _checked(priors, class_names)]
    return shift - math.fsum(shift) / len(shift)


def _checked(priors: Priors, class_names: tuple[ClassName, ...]) -> list[float]:
    if not isinstance(priors, Mapping):
        raise InvalidInput(f"priors {priors!r}; expected 'uniform', or a number for each class")
    if wrong := [str(name) for name in {*priors} ^ {*class_names}]:
        raise InvalidInput(
            f"priors name {len(priors)} classes, the statistics {len(class_names)}; "
            f"{', '.join(sorted(wrong)[:5])} in one of them only: give one for each class"
        )
    for name, prior in priors.items():
        if not 0 < float(prior) < math.inf:
            raise InvalidInput(f"prior {prior!r} of class {name!r}; expected a positive number")
    return [priors[name] for name in class_names]
