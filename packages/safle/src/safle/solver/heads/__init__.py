"""Heads: from the solved system to scores. All are exact functions of the sums.

A head is one module of this folder, with its equations in the docstring, and a `Head` called HEAD;
`HEADS` finds it there. Its ``fit`` takes the sums, and a function that gives `LeastSquares` of them
(or of other sums, or at another ridge), each of which is solved only once.

With C the gram, M the cross, both in real units, n samples and N the class counts on a diagonal,
all heads start from ``B = inverse(C + ridge) M``. Scores over the temperature are log posteriors,
except for heads that take no priors: those estimate the one-hot labels themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from safle.errors import InvalidInput
from safle.solver.ordered import log_shares
from safle.statistics.statistics import Sums
from safle.tables.checks import ClassName

if TYPE_CHECKING:
    from safle.solver.heads.quadratic import Quadratic
    from safle.solver.least_squares import LeastSquares

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Priors = Literal["uniform"] | Mapping[ClassName, float]
"""How frequent classes are where a model is used, if not as they were counted."""
BaseOf = Callable[..., "LeastSquares"]
"""``base_of(sums, ridge)``: without arguments, of the sums and the ridge that `solve` was given."""


@dataclass(frozen=True, eq=False)
class FittedHead:
    """What a head made of the sums, and all that a model needs of it.

    Attributes
    ----------
    name : of the head
    ridge : the strength used (its nearest value of 20 significant bits)
    weights : float64, (seen + dense_dim, class_count), in real units
    intercept : float64, (class_count,)
    temperature : divides scores before they become probabilities; None where it is not known
    quadratic : squares that are added to the scores, if the head has some
    """

    name: str
    ridge: float
    weights: Matrix
    intercept: Vector
    temperature: float | None = None
    quadratic: Quadratic | None = None

    def moved(self, shift: Vector) -> FittedHead:
        """The head whose log posteriors are larger by ``shift``, (class_count,)."""
        intercept = self.intercept + (self.temperature or 1.0) * shift
        return FittedHead(
            self.name, self.ridge, self.weights, intercept, self.temperature, self.quadratic
        )


@dataclass(frozen=True)
class Head:
    """A way from sums to scores.

    Attributes
    ----------
    name : as ``solve(head=...)`` and ``--head`` take it
    summary : what it is, in a few words
    fit : makes a `FittedHead` of sums and of a function that gives `LeastSquares`
    needs_positive_ridge : whether ridge 0 is refused
    takes_priors : whether scores over the temperature are log posteriors, which priors move

    Examples
    --------
    >>> HEADS["averaged"].needs_positive_ridge
    True
    """

    name: str
    summary: str
    fit: Callable[[Sums, BaseOf], FittedHead]
    needs_positive_ridge: bool = True
    takes_priors: bool = True


def shift_of(
    priors: Priors, class_names: tuple[ClassName, ...], class_counts: NDArray[np.int64]
) -> Vector:
    """What priors add to log posteriors, (class_count,), less its mean over the classes.

    Scores over their temperature are log posteriors: each moves by ``log prior_c - log n_c / n``.

    >>> shift_of("uniform", ("ill", "well"), np.array([1, 3])).round(6).tolist()
    [0.549306, -0.549306]
    """
    shift = -log_shares(class_counts)
    if priors != "uniform":
        shift += [float(Decimal(float(p)).ln()) for p in _check_priors(priors, class_names)]
    return shift - math.fsum(shift) / len(shift)


def _check_priors(priors: Priors, class_names: tuple[ClassName, ...]) -> list[float]:
    if not isinstance(priors, Mapping):
        raise InvalidInput(f"priors {priors!r}; expected 'uniform', or a number for each class")
    if wrong := [str(name) for name in {*priors} ^ {*class_names}]:
        raise InvalidInput(
            f"priors name {len(priors)} classes, the statistics {len(class_names)}; "
            f"only one of them names {', '.join(sorted(wrong)[:5])}: give a prior for each class"
        )
    for name, prior in priors.items():
        if not 0 < float(prior) < math.inf:
            raise InvalidInput(f"prior {prior!r} of class {name!r}; expected a positive number")
    return [priors[name] for name in class_names]


def _find_heads() -> dict[str, Head]:
    modules = sorted(found.name for found in iter_modules(__path__))
    heads: list[Head] = [import_module(f"{__name__}.{name}").HEAD for name in modules]
    return {head.name: head for head in heads}


HEADS = _find_heads()
"""Every head by its name."""
