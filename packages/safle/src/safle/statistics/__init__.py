"""Statistics: codes and labels -> (Phi'Phi, Phi'Y, class counts), exact integers."""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.statistics.accumulator import Accumulator as Accumulator
    from safle.statistics.accumulator import count as count
    from safle.statistics.accumulator import sum_statistics as sum_statistics
    from safle.statistics.join import join_cells as join_cells
    from safle.statistics.value import Statistics as Statistics
    from safle.statistics.value import count_codes as count_codes

define_public_names(__name__)
