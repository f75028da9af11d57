"""Statistics: codes and labels -> (Phi'Phi, Phi'Y, class counts), exact integers.

Examples
--------
>>> from safle import LinearEncoder, count, declared_range
>>> from safle.statistics import FreeSums, restore_all, spread_all, take_all
>>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
>>> total = count(encoder, [[0.2], [0.7]], ["ill", "well"])
>>> vector = take_all(total, ["ill", "well"])
>>> len(vector) == FreeSums(encoder.layout, class_count=2).size == len(
...     spread_all(encoder.layout, 2, FreeSums(encoder.layout, 2).largest)
... )
True
>>> restore_all(encoder.space, ["ill", "well"], vector) == total
True
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.statistics.accumulator import Accumulator as Accumulator
    from safle.statistics.accumulator import count as count
    from safle.statistics.accumulator import sum_statistics as sum_statistics
    from safle.statistics.free_sums import FreeSums as FreeSums
    from safle.statistics.free_sums import restore_all as restore_all
    from safle.statistics.free_sums import spread_all as spread_all
    from safle.statistics.free_sums import take_all as take_all
    from safle.statistics.histogram import MAX_SAMPLES as MAX_SAMPLES
    from safle.statistics.histogram import Grid as Grid
    from safle.statistics.histogram import Histogram as Histogram
    from safle.statistics.join import join_cells as join_cells
    from safle.statistics.triangle import Integers as Integers
    from safle.statistics.value import ONLY_EXACT as ONLY_EXACT
    from safle.statistics.value import Statistics as Statistics
    from safle.statistics.value import Sums as Sums
    from safle.statistics.value import count_codes as count_codes

define_public_names(__name__)
