"""Noisy statistics: sums that may be published, over the whole layout and all declared classes.

Noise goes to the free sums (`safle.statistics.free_sums`) alone. The rest is worked out from them,
so that what the solver relies on holds of noisy sums as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from safle.basics.memory import require
from safle.encoders.code_space import CodeSpace
from safle.encoders.codes import Layout
from safle.encoders.features import ClassName
from safle.errors import CountOverflow
from safle.statistics.free_sums import FreeSums
from safle.statistics.gram import Triangle
from safle.statistics.kernels import triangle
from safle.statistics.privacy import Privacy
from safle.statistics.value import Sums

MOST = 1 << 61
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class NoisyStatistics(Sums):
    """Sums with noise, and what the noise promises: to solve and to publish, not to add.

    Examples
    --------
    See `safle.publishing.publish`, which makes them.
    """

    privacy: Privacy = field(kw_only=True)

    @staticmethod
    def of(
        space: CodeSpace, classes: Sequence[ClassName], released: Integers, privacy: Privacy
    ) -> NoisyStatistics:
        """All sums from the free ones; a class has at least one sample, whatever the noise.

        Parameters
        ----------
        released : the vector of `FreeSums` of the whole layout and these classes, with noise
        """
        layout = space.layout
        require(
            noisy_bytes(layout),
            purpose=f"noise for the products of {layout.embedding_dim:,} columns",
            advice="publish sums of a small linear encoder: noise grows with the columns anyway",
        )
        free = FreeSums(layout, len(classes))
        _check_sizes(free, released)
        vector = released.copy()
        vector[free.counts] = np.maximum(vector[free.counts], 1)
        sums = free.restore(vector)
        codes = np.arange(layout.code_count)
        whole = space, codes, sums.cross, tuple(classes), sums.counts
        gram = Triangle(sums.gram, layout.embedding_dim)
        return NoisyStatistics(*whole, gram, privacy=privacy)

    @cached_property
    def released(self) -> Integers:
        """The free sums, as they travel."""
        return FreeSums(self.layout, len(self.class_names)).take(self, self.class_names)

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
    """Refuse sums so large that what follows from them would wrap."""
    table, scale = max(free.layout.table_sizes, default=1), max(free.layout.dense_scales, default=1)
    classes = max(1, free.class_count)
    growths = {
        "products": table**2,
        "cross": classes * scale * table**2,
        "counts": classes * scale**2 * table**2,
    }
    for name, growth in growths.items():
        sums = released[getattr(free, name)]
        # In Python's integers: the least of 64 bits has no absolute value in them.
        largest = max(int(sums.max(initial=0)), -int(sums.min(initial=0)))
        if largest > MOST // growth:
            raise CountOverflow(f"{name} has a sum of {largest}; at most {MOST // growth} is used")


def noisy_bytes(layout: Layout) -> int:
    """Memory that noisy statistics take while they are made: vectors and triangles of the gram."""
    return 4 * 8 * triangle.packed_size(layout.embedding_dim)
