"""Release: what leaves a site, in the words of those who must agree to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from safle.encoders.features import ClassName
from safle.encoders.histogram import Histogram
from safle.evaluation.counts import Evaluation
from safle.site.disclosure import name_given_away
from safle.statistics import Statistics

if TYPE_CHECKING:
    from safle.private.round import PrivateRound


Counted = Statistics | Histogram | Evaluation
"""What can leave a site."""


@dataclass(frozen=True)
class Release:
    """What would leave a site: its sizes, and who could read it.

    Attributes
    ----------
    what : "statistics", "histogram" or "evaluation counts"
    columns : of the gram, or of the features; the classes that samples were scored for
    class_counts : samples of every class; empty in a histogram
    encoder : fingerprint of what statistics were counted with, or of the evaluated model's; empty
        in a histogram
    gives_away : the samples that can be worked out, in a sentence; empty if we know of none
    masked : whether only a sum with others can be read, and then
    keyholders : who must all help to open it: fingerprints of keys, by name
    least_clients : fewest whose sum is opened
    epsilon : of what is published; infinite where sums are exact
    """

    what: str
    samples: int
    columns: int
    class_counts: Mapping[ClassName, int] = field(default_factory=dict)
    encoder: str = ""
    gives_away: str = ""
    masked: bool = False
    keyholders: Mapping[str, str] = field(default_factory=dict)
    least_clients: int = 1
    epsilon: float = math.inf

    @property
    def mode(self) -> str:
        """In a word."""
        return "masked" if self.masked else "plain"

    def under_masks(self, private_round: PrivateRound) -> Release:
        """The same, if it leaves for a private round only."""
        keyholders = {name: key.fingerprint for name, key in private_round.keyholders.items()}
        return replace(
            self,
            masked=True,
            gives_away="",
            keyholders=keyholders,
            least_clients=private_round.fewest,
            epsilon=private_round.epsilon,
        )

    @staticmethod
    def of(counted: Counted, encoder: str = "") -> Release:
        """A plain release of what was counted; evaluation counts do not know their ``encoder``.

        Examples
        --------
        >>> from safle import DeclaredRange, LinearEncoder, count
        >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
        >>> Release.of(count(encoder, [[0.1, 0.9]], ["ill"])).gives_away[:53]
        'at least 1 of 1 samples can be worked out exactly: th'
        """
        if isinstance(counted, Histogram):
            return Release("histogram", counted.sample_count, counted.feature_dim)
        if isinstance(counted, Evaluation):
            names = *counted.class_names, "(unknown)"
            seen = zip(names, counted.class_counts.tolist(), strict=True)
            return Release(
                "evaluation counts",
                counted.sample_count,
                len(counted.class_names),
                {name: many for name, many in seen if many},
                encoder,
            )
        return Release(
            "statistics",
            counted.sample_count,
            counted.dim,
            dict(zip(counted.class_names, counted.class_counts.tolist(), strict=True)),
            counted.fingerprint,
            name_given_away(counted),
        )
