"""Statistics: codes and labels -> (Phi'Phi, Phi'Y, class counts), exact integers.

Examples
--------
>>> from safle import LinearEncoder, count, declared_range
>>> from safle.statistics import FreeSums, Statistics, Summable
>>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
>>> total: Summable = count(encoder, [[0.2], [0.7]], ["ill", "well"])
>>> zero = Statistics.empty(encoder.space, ["ill", "well"])
>>> vector = total.to_vector(zero)
>>> len(vector) == FreeSums(encoder.layout, class_count=2).size == len(zero.vector_bounds())
True
>>> zero.from_vector(vector) == total
True
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.statistics.accumulator import Accumulator as Accumulator
    from safle.statistics.accumulator import count as count
    from safle.statistics.accumulator import sum_statistics as sum_statistics
    from safle.statistics.free_sums import FreeSums as FreeSums
    from safle.statistics.histogram import MAX_SAMPLES as MAX_SAMPLES
    from safle.statistics.histogram import Histogram as Histogram
    from safle.statistics.join import join_cells as join_cells
    from safle.statistics.summable import Summable as Summable
    from safle.statistics.triangle import Integers as Integers
    from safle.statistics.value import ONLY_EXACT as ONLY_EXACT
    from safle.statistics.value import Statistics as Statistics
    from safle.statistics.value import Sums as Sums
    from safle.statistics.value import count_codes as count_codes

define_public_names(__name__)
