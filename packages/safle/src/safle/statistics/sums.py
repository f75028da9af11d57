"""Samples, or the statistics of several sites -> statistics, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from numpy.typing import ArrayLike

from safle.basics.texts import require_type
from safle.encoders import Encoder
from safle.encoders.features import ClassName
from safle.errors import InvalidInput
from safle.statistics.accumulator import Accumulator
from safle.statistics.value import EXACT, Statistics


def count(
    encoder: Encoder,
    features: ArrayLike,
    labels: ArrayLike,
    *,
    classes: Sequence[ClassName] | None = None,
    weights: ArrayLike | None = None,
    allow_outside: bool = False,
) -> Statistics:
    """Statistics of one array of features, (samples, feature_dim), and its labels.

    With ``weights``, whole numbers, a sample of weight w counts as if it stood there w times, to
    the byte: a sum does not tell the two apart. `InvalidInput` if more than a tenth of a feature's
    values lie outside what the encoder expects, unless ``allow_outside``.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> count(encoder, [[0.1, 0.9], [0.2, 0.4]], ["ill", "well"]).class_names
    ('ill', 'well')
    """
    require_type("encoder", encoder, Encoder)
    total = Accumulator(encoder, classes=classes, allow_outside=allow_outside)
    total.add_samples(features, labels, weights)
    return total.snapshot()


def sum_statistics(contributions: Iterable[Statistics]) -> Statistics:
    """The sum of at least one contribution, in memory that does not grow with their number.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count, sum_statistics
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> sum_statistics(count(encoder, [[x]], [0]) for x in (0.1, 0.5, 0.9)).sample_count
    3
    """
    require_type("contributions", contributions, Iterable, advice="several statistics")
    total: Accumulator | None = None
    for contribution in contributions:
        require_type("contribution", contribution, Statistics, advice=EXACT)
        total = total or Accumulator(contribution.space)
        total.add(contribution)
    if total is None:
        raise InvalidInput("nothing to sum; expected at least one contribution")
    return total.snapshot()
