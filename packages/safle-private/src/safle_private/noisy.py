"""Noisy statistics: sums that may be published, and what their noise promises.

They are sums over the whole layout and all declared classes. Only the free sums
(`safle.statistics.free_sums`) get noise. All other sums are computed from them, so that the algebra
on which the solver relies holds for noisy sums as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from safle import ONLY_EXACT, ClassName, CodeSpace, FreeSums, Integers, Layout, Sums
from safle.basics import list_names, require_free_memory
from safle.errors import CountOverflow, InvalidInput, SettingsError

LARGEST_SUM = 1 << 61
CALIBRATIONS = ("declared", "public")
"""Where an encoder's thresholds and moments may come from at no cost."""
SCATTER = 2.0
"""Times ``D^(-2/3)``: one noise matrix in thousands has an eigenvalue farther out."""
MOST_RELEASES = 10**9
LARGEST_SCALE = 2.0**62
"""Largest scale of noise: larger numbers do not fit the integers of a sum."""


@dataclass(frozen=True)
class Privacy:
    """The noise of one release, and what it promises to each person who is one sample of it.

    When one sample is added or removed, the probability of any result of the release changes by a
    factor of at most ``exp(epsilon)``, except for ``delta``.

    Attributes
    ----------
    epsilon, delta : of this release
    rho : of this release, in zero-concentrated differential privacy
    gram, cross, counts : scale of the noise, in real units; in codes, an entry on the diagonal of
        the gram has ``gram`` times the scales of its two columns, other entries 1 / sqrt(2) of that
    releases : number of releases of the same data so far, this one included
    total_epsilon : of all these releases together, for the same delta
    calibration : where the encoder's thresholds came from
    """

    epsilon: float
    delta: float
    rho: float
    gram: float
    cross: float
    counts: float
    releases: int = 1
    total_epsilon: float = 0.0
    calibration: str = "declared"

    def __post_init__(self) -> None:
        object.__setattr__(self, "total_epsilon", self.total_epsilon or self.epsilon)
        for name in ("epsilon", "delta", "rho", "gram", "cross", "counts", "total_epsilon"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 < value <= LARGEST_SCALE:
                raise SettingsError(
                    f"{name} is {str(value)[:40]}; expected a number above 0 and up to "
                    f"{LARGEST_SCALE:.3g}, the most that the integers of a sum can hold"
                )
            if name != "total_epsilon":
                object.__setattr__(self, name, float(value))
        if not self.delta < 1 or self.total_epsilon < self.epsilon:
            raise SettingsError(
                f"delta {self.delta} and a total epsilon of {self.total_epsilon}; expected a delta "
                f"below 1, and a total of at least this release's epsilon, {self.epsilon}"
            )
        if type(self.releases) is not int or not 1 <= self.releases <= MOST_RELEASES:
            raise SettingsError(
                f"releases {str(self.releases)[:40]}; expected a whole number from 1 to "
                f"{MOST_RELEASES:,}"
            )
        if self.calibration not in CALIBRATIONS:
            raise InvalidInput(
                f"calibration {self.calibration!r}; expected {' or '.join(CALIBRATIONS)}: "
                "thresholds from the clients' own data say something about it that this noise does "
                "not cover; make another encoder, and count again"
            )

    @property
    def promise(self) -> str:
        """Epsilon and delta, for people; and those of all releases, where there are several."""
        this_release = f"epsilon {self.epsilon:.4g}, delta {self.delta:.4g}"
        if self.releases == 1:
            return this_release
        return f"{this_release}; epsilon {self.total_epsilon:.4g} with all {self.releases} releases"

    def of_all(self, keyholders: int) -> Privacy:
        """The same promise, with the noise of this many parties; each draws all of it."""
        factor = math.sqrt(keyholders)
        scales = {name: getattr(self, name) * factor for name in ("gram", "cross", "counts")}
        return replace(self, **scales)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Privacy:
        """Read `to_json` back; a `SettingsError` for anything else."""
        if not isinstance(content, dict) or {*content} != {f.name for f in fields(Privacy)}:
            expected = ", ".join(f.name for f in fields(Privacy))
            raise SettingsError(f"a release's privacy has other fields; expected {expected}")
        return Privacy(**content)


@dataclass(frozen=True, eq=False, repr=False)
class NoisyStatistics(Sums):
    """Sums with noise, and what the noise promises: to solve and to publish, not to add."""

    format: ClassVar[str] = "noisy statistics"
    privacy: Privacy = field(kw_only=True)

    @staticmethod
    def of(
        space: CodeSpace, classes: Sequence[ClassName], released: Integers, privacy: Privacy
    ) -> NoisyStatistics:
        """All sums from ``released``, the noisy free sums; class counts below 1 become 1."""
        layout = space.layout
        require_free_memory(
            noisy_bytes(layout),
            purpose=f"noise for the products of {layout.dim:,} columns",
            advice="publish sums of a small linear encoder: noise grows with the columns anyway",
        )
        free = FreeSums(layout, len(classes))
        _check_sizes(free, released)
        vector = released.copy()
        vector[free.counts] = np.maximum(vector[free.counts], 1)
        sums = free.restore(space.fingerprint, classes, vector)
        margins = sums.space, sums.codes, sums.cross, sums.class_names, sums.class_counts
        return NoisyStatistics(*margins, sums.gram, privacy=privacy)

    @cached_property
    def released(self) -> Integers:
        """The free sums, as they are sent."""
        return FreeSums(self.layout, len(self.class_names)).take(self, self.class_names)

    @cached_property
    def least_ridge(self) -> float:
        """The largest eigenvalue of the noise, in real units.

        A symmetric matrix of Gaussian noise, of deviation sigma / sqrt(2) off its diagonal, has
        eigenvalues up to ``sigma sqrt(2 D)`` (Wigner; the largest scatters by about ``D^(-2/3)`` of
        that). With a smaller ridge the weights follow the noise; with a larger one they shrink.
        """
        noise = self.privacy
        free = len(FreeSums(self.layout, 0).rows)
        products = noise.gram * math.sqrt(2 * free) * (1 + SCATTER * free ** (-2 / 3))
        # The products with the constant are sums over classes, each with noise of its own.
        totals = noise.cross * math.sqrt(free * len(self.class_names))
        edge = products / 2 + math.hypot(products / 2, totals)
        # The sums of one code are computed from its expert's other codes, and add up their noise.
        return edge * int(self.layout.table_sizes.max(initial=1))

    @property
    def gives_temperature(self) -> bool:
        """Noisy sums do not show how the noise changes scores."""
        return False

    @property
    def promise(self) -> str:
        return self.privacy.promise

    def facts(self) -> dict[str, str]:
        """Names and values for people."""
        noise = self.privacy
        return {
            "samples": f"about {self.sample_count:,}",
            "classes": list_names(self.class_names),
            "columns": f"{self.dim:,}",
            "privacy": noise.promise,
            "rho": f"{noise.rho:.4g}",
            "noise": f"discrete Gaussian; of scale {noise.gram:.4g} in products, "
            f"{noise.cross:.4g} in class sums, {noise.counts:.4g} in class counts, in real units",
            "calibration": noise.calibration,
            "encoder": self.fingerprint,
        }

    def exposure(self) -> None:
        """Nothing: the noise hides every sample."""

    def _refuse_adding(self, other: object) -> NoReturn:
        raise InvalidInput(
            f"{type(self).__name__} and {type(other).__name__}; expected {ONLY_EXACT}"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = check_same = add_all = _refuse_adding

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NoisyStatistics)
            and self.privacy == other.privacy
            and super().__eq__(other)
        )

    __hash__ = None

    def __repr__(self) -> str:
        return super().__repr__().replace(":", f" ({self.privacy.promise}):", 1)


def _check_sizes(free: FreeSums, released: Integers) -> None:
    """Refuse sums so large that the sums computed from them would overflow."""
    # As Python's integers, which do not wrap.
    table = int(free.layout.table_sizes.max(initial=1))
    scale = int(free.layout.scales.max(initial=1))
    classes = max(1, free.class_count)
    growths = {
        "products": table**2,
        "cross": classes * scale * table**2,
        "counts": classes * scale**2 * table**2,
    }
    for name, growth in growths.items():
        sums = released[getattr(free, name)]
        # In Python's integers: the least int64 has no absolute value in int64.
        largest = max(int(sums.max(initial=0)), -int(sums.min(initial=0)))
        allowed = LARGEST_SUM // growth
        if largest > allowed:
            raise CountOverflow(f"{name} has a sum of {largest}; expected at most {allowed}")


def noisy_bytes(layout: Layout) -> int:
    """Memory that noisy statistics take while they are made: vectors and triangles of the gram."""
    return 16 * layout.dim * (layout.dim + 1)
