"""Privacy: what noise was added to a sum before it was published, and what that promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from safle.errors import SettingsError

MECHANISM = "discrete Gaussian"
CALIBRATIONS = ("declared", "public")
"""Where an encoder's thresholds and moments may come from at no cost."""
LARGEST_SCALE = 2.0**62
"""Of noise: larger numbers do not fit the integers of a sum."""


@dataclass(frozen=True)
class Privacy:
    """Noise of one release, and what is promised to everyone who is one sample of it.

    Whatever is worked out from the release, its probability changes by a factor of at most
    ``exp(epsilon)``, but for ``delta``, when one sample is added or removed.

    Attributes
    ----------
    epsilon, delta : of this release
    rho : of this release, in zero-concentrated differential privacy
    gram, cross, counts : the noise's scale, in real units: an entry of the gram, in codes, has
        that times the scales of its two columns on the diagonal, and 1 / sqrt(2) of it elsewhere
    releases : of the same data so far, this one included
    total_epsilon : of all of them together, for the same delta
    calibration : where the encoder's thresholds came from
    mechanism : how the noise was drawn

    Examples
    --------
    >>> Privacy(1, 1e-5, 0.03, 500.0, 40.0, 20.0).promise
    'epsilon 1, delta 1e-05'
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
    mechanism: str = MECHANISM

    def __post_init__(self) -> None:
        total = self.total_epsilon or self.epsilon
        object.__setattr__(self, "total_epsilon", total)
        for field in fields(self)[:6]:
            value = float(_number(field.name, getattr(self, field.name)))
            object.__setattr__(self, field.name, value)
        if (largest := max(self.gram, self.cross, self.counts)) > LARGEST_SCALE:
            raise SettingsError(
                f"noise of scale {largest:.3g}; expected at most {LARGEST_SCALE:.3g}, what the "
                "integers of a sum can hold"
            )
        if not self.delta < 1 or _number("total_epsilon", total) < self.epsilon:
            raise SettingsError(
                f"delta {self.delta} and a total epsilon of {total}; expected a delta below 1, and "
                f"all releases to cost at least this one's epsilon, {self.epsilon}"
            )
        if type(self.releases) is not int or self.releases < 1:
            raise SettingsError(f"releases {self.releases!r}; expected a number from 1")
        if self.calibration not in CALIBRATIONS or self.mechanism != MECHANISM:
            raise SettingsError(
                f"calibration {self.calibration!r} and mechanism {self.mechanism!r}; expected "
                f"one of {', '.join(CALIBRATIONS)}, and {MECHANISM!r}"
            )

    @property
    def promise(self) -> str:
        """Epsilon and delta, for people; and those of all releases, where there are several."""
        own = f"epsilon {self.epsilon:.4g}, delta {self.delta:.4g}"
        if self.releases == 1:
            return own
        return f"{own}; epsilon {self.total_epsilon:.4g} with all {self.releases} releases"

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Privacy:
        """Read `to_json` back; a `SettingsError` for anything else."""
        if not isinstance(content, dict) or {*content} != {f.name for f in fields(Privacy)}:
            raise SettingsError("the fields of a release's privacy are not as expected")
        return Privacy(**content)


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise SettingsError(f"{name} is {str(value)[:40]}; expected a positive finite number")
    return float(value)
