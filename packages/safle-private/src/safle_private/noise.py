"""Publishing a sum under differential privacy: exact sums -> noisy statistics.

One sample more or less changes the free sums (see `safle.statistics.free_sums`), in real units and
with every product of two columns counted twice, by at most (S^2 - E)^1/2 in the gram, S^1/2 in
the class sums and 1 in the class counts: its E codes and its clipped features have a squared
length of at most S together, and the squares of codes are not released. Gaussian noise
of scale sigma on sums that change by d costs rho = d^2 / (2 sigma^2) of zero-concentrated
differential privacy (Bun & Steinke 2016), in whole numbers as well (Canonne, Kamath & Steinke
2020). OpenDP draws the noise and does the accounting.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle import DENSE_LIMIT, ClassName, FreeSums, Layout, Statistics, as_class_names
from safle.basics import require_type
from safle.errors import InvalidInput, SafleWarning, SettingsError
from safle_private.noisy import NoisyStatistics, Privacy

SHARES = {"gram": 0.49, "cross": 0.49, "counts": 0.02}
"""Shares of rho: the few counts, of many samples each, need little of it."""
SLACK = 1 + 1e-12
"""Rounding must never make a scale too small: this rounds it up."""
REACH = 16
"""Moduli leave room for noise of this many scales: larger noise has a chance below 1e-50."""
BISECTIONS = 60
LEAST_EPSILON = 1e-6
LEAST_DELTA = 1e-100
"""Below these, OpenDP's conversion runs out of floats."""

MOST_GIVEN_AWAY = 0.1
"""Most samples that delta may give away, on average: one sample in ten releases."""

Draw = Callable[[int, float], NDArray[np.int64]]
"""Size and scale -> discrete Gaussian noise."""


@dataclass(frozen=True)
class Sensitivity:
    """The most by which one sample changes the free sums: squares, in real units."""

    gram: Fraction
    cross: Fraction
    counts: Fraction = Fraction(1)

    @staticmethod
    def of(layout: Layout) -> Sensitivity:
        """Sensitivity of a layout; `SettingsError` if dense columns have no useful bound."""
        if layout.class_layout:
            raise SettingsError(
                "this encoder counts products by class, which are not published: make one without "
                "by_class, and count again"
            )
        experts = Fraction(sum(block.columns for block in layout.blocks if block.rows > 1))
        power = experts
        for block, _ in layout.dense_blocks:
            if block.norm:
                power += Fraction(block.norm, block.scale) ** 2
            elif block.high - block.low == 2 * DENSE_LIMIT:
                raise SettingsError(
                    "a sample of this encoder may be of any length, and noise that hides one "
                    "would hide everything: make an encoder with a norm clip ('safle encoder make "
                    "--publishable'), and count again"
                )
            elif not block.constant:
                longest = Fraction(max(-block.low, block.high), block.scale)
                power += block.columns * longest**2
        return Sensitivity(power**2 - experts, power)


def plan_noise(
    layout: Layout, epsilon: float, delta: float, *, calibration: str = "declared"
) -> Privacy:
    """The noise that a release of sums of this layout needs.

    Parameters
    ----------
    epsilon, delta : what to promise
    calibration : where the encoder's thresholds came from, "declared" or "public"
    """
    rho = rho_within(epsilon, delta)
    changes = Sensitivity.of(layout)
    scales: dict[str, Any] = {}
    spent = 0.0
    for name, share in SHARES.items():
        change = math.sqrt(getattr(changes, name)) * SLACK
        # The gram of a single expert never changes, but noise needs a scale above 0.
        scales[name] = max(change, SLACK - 1) / math.sqrt(2 * rho * share) * SLACK
        spent += _gaussian(scales[name]).map(change)
    return Privacy(epsilon, delta, spent, **scales, calibration=calibration)


def draw_noise(layout: Layout, classes: int, privacy: Privacy, draw: Draw) -> NDArray[np.int64]:
    """Noise for the free sums of a layout and a number of classes, as one vector."""
    free = FreeSums(layout, classes)
    scales = np.empty(free.size)
    noise = np.empty(free.size, np.int64)
    scales[free.counts] = privacy.counts
    scales[free.cross] = privacy.cross
    # Products of two columns are two entries of the gram: half the variance hides them.
    scales[free.products] = privacy.gram / math.sqrt(2) * SLACK
    scales[free.squares] = privacy.gram * SLACK
    scales *= free.spread(free.scales)
    for scale in np.unique(scales).tolist():
        alike = np.flatnonzero(scales == scale)
        noise[alike] = draw(len(alike), scale)
    return noise


def most_noise(layout: Layout, privacy: Privacy, keyholders: int) -> tuple[int, int]:
    """The most that the noise of all keyholders changes: any sum, and any class count.

    Both are powers of two: they are the same on machines whose scales differ in the last bits.
    """
    largest = int(layout.scales.max(initial=1))
    scales = max(privacy.cross * largest, privacy.gram * largest**2), privacy.counts
    sums, counts = (
        1 << math.ceil(math.log2(REACH * scale * math.sqrt(keyholders) + 1)) for scale in scales
    )
    return sums, counts


def publish(
    total: Statistics, privacy: Privacy, classes: Sequence[ClassName], *, draw: Draw | None = None
) -> NoisyStatistics:
    """Add noise to a sum, so that it may be given to anyone.

    Parameters
    ----------
    total : the exact sum
    privacy : from `plan_noise`
    classes : every class that can occur; if they came from the data, they would reveal it
    draw : the source of noise; OpenDP's, from the system's randomness, unless a test replaces it
    """
    names = check_classes(total, classes)
    expected = privacy.delta * total.sample_count
    if expected > MOST_GIVEN_AWAY:
        warnings.warn(
            f"delta {privacy.delta:g} times {total.sample_count:,} samples is {expected:.2g}: the "
            "promise allows that many samples to be given away whole; choose a delta well below "
            f"1 / {total.sample_count}",
            SafleWarning,
            stacklevel=2,
        )
    noise = draw_noise(total.layout, len(names), privacy, draw or draw_discrete_gaussian)
    exact = FreeSums(total.layout, len(names)).take(total, names)
    return NoisyStatistics.of(total.space, names, exact + noise, privacy)


def check_classes(total: Statistics, classes: Sequence[ClassName]) -> tuple[ClassName, ...]:
    """The declared classes in order; `InvalidInput` unless all of an exact sum are among them."""
    require_type("the sum", total, Statistics, advice="exact sums, that have no noise yet")
    names = as_class_names(classes)
    if unknown := sorted({*total.class_names} - {*names}, key=str):
        raise InvalidInput(
            f"the sum has samples of class {unknown[0]!r}, which is not among the {len(names)} "
            "declared: declare every class that there may be"
        )
    if not names:
        raise InvalidInput("no classes are declared: declare every class that there may be")
    return names


def rho_within(epsilon: float, delta: float) -> float:
    """The largest rho that keeps a promise: the inverse of `epsilon_of`."""
    if not (LEAST_EPSILON <= epsilon <= 1 / LEAST_EPSILON and LEAST_DELTA <= delta < 1):
        raise InvalidInput(
            f"epsilon {epsilon} and delta {delta}; expected epsilon from {LEAST_EPSILON:g} to "
            f"{1 / LEAST_EPSILON:g}, and delta from {LEAST_DELTA:g} to below 1"
        )
    low = 0.0
    high = float(epsilon)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if epsilon_of(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def epsilon_of(rho: float, delta: float) -> float:
    """The epsilon that a rho of one or several releases promises, by OpenDP's conversion."""
    if rho == 0:
        return 0.0
    converted = _opendp().c.make_zCDP_to_approxDP(_gaussian(1.0))
    return float(converted.map(math.sqrt(2 * rho) * SLACK).epsilon(delta))


def draw_discrete_gaussian(size: int, scale: float) -> NDArray[np.int64]:
    """Exact discrete Gaussian noise from the system's randomness, int64, (size,)."""
    return np.array(_gaussian(scale)([0] * size), np.int64)


def _gaussian(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=scale)


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp
