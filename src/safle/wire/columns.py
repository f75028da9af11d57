"""The gram of few samples on the wire: some of its columns, which determine the others.

The columns sent follow from the gram alone, so that equal statistics have equal bytes. All
columns are put in a fixed order: narrow ranges first, then as a hash says, constants never.
Of the first ``2 n + 64``, the lexicographically first independent ones (modulo a prime, so
that no rounding decides) are the basis; up to `SPARE` columns behind its last keep the
basis from being nearly dependent. An entry is sent as its difference from ``t_i t_j // n``,
what the totals alone would expect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle.encoders.shuffle import hashes
from safle.errors import InvariantError, WireError
from safle.statistics import Statistics
from safle.statistics.factor import Factor
from safle.statistics.kernels import triangle
from safle.statistics.kernels.elimination import first_independent
from safle.statistics.samples import Samples
from safle.statistics.value import Margins

SPARE = 8
MOST_SAMPLES = 65_535
"""Products of two totals, up to 32,767 n each, stay within 62 bits."""
PROBES = 32
"""Random signs that would show a wrong entry, each with probability 1/2 at least."""
TOLERANCE = 0.1


@dataclass(frozen=True)
class Choice:
    """Columns that stand for a gram.

    Attributes
    ----------
    basis : bool, (candidates,), which candidates are independent of those before them
    columns : int64, rows of the gram: the basis, then the spare ones
    """

    basis: NDArray[np.bool_]
    columns: NDArray[np.int64]

    @property
    def rank(self) -> int:
        return int(self.basis.sum())

    @staticmethod
    def of(order: NDArray[np.int64], basis: NDArray[np.bool_]) -> Choice:
        """The choice of these candidates, the first of ``order``."""
        places = np.flatnonzero(basis)
        after = int(places[-1]) + 1 if len(places) else 0
        spare = np.arange(after, min(after + min(SPARE, len(places)), len(order)))
        return Choice(basis, order[np.concatenate([places, spare])])


def candidate_count(samples: int, order: NDArray[np.int64]) -> int:
    """How many columns may be looked at for a basis."""
    return min(2 * samples + 64, len(order))


def ordered_columns(margins: Margins) -> NDArray[np.int64]:
    """Rows of the gram that may be sent whole, in the order in which they are tried."""
    layout, seen = margins.layout, len(margins.codes)
    widths = np.ones(margins.dim, np.int64)
    limits = np.array(layout.dense_limits, np.int64).reshape(-1, 2)
    widths[seen:] = np.abs(limits).max(axis=1, initial=0)
    order = np.lexsort((hashes(0, margins.dim, 0), widths))
    return order[~np.isin(order, seen + np.array(layout.constants, np.int64))]


def are_few(margins: Margins) -> bool:
    """Whether there are so few samples that some columns determine the gram."""
    return 0 < margins.sample_count <= min(MOST_SAMPLES, (margins.dim - SPARE) // 2)


def working_bytes(margins: Margins) -> int:
    """Most memory that finding the columns, or all others from them, takes beside the gram."""
    dim, width = margins.dim, margins.sample_count + SPARE
    return 8 * (3 * dim * width + 2 * min(2 * width + 64, dim) ** 2) + (1 << 24)


def choose(statistics: Statistics) -> tuple[Choice, NDArray[np.int64]] | None:
    """The columns that the format prescribes; None if the whole triangle is to be sent.

    Which, and what they hold, int64, (dim, chosen).
    """
    n = statistics.sample_count
    if not are_few(statistics):
        return None
    order = ordered_columns(statistics)
    choice = Choice.of(order, _basis(statistics, order, n))
    held = statistics.columns(choice.columns)
    return (choice, held) if _determines(statistics, choice, held) else None


def _basis(statistics: Statistics, order: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    most = candidate_count(n, order)
    basis = np.zeros(most, np.bool_)
    # Mostly the first n are independent; the others are looked at only if they are needed.
    for tried in (min(n, most), most):
        candidates = order[:tried]
        found = first_independent(statistics.columns(candidates, candidates), n)
        if len(found) == n:
            break
    basis[found] = True
    return basis


def _determines(statistics: Statistics, choice: Choice, held: NDArray[np.int64]) -> bool:
    """Whether the receiver would rebuild every entry, by random combinations of them."""
    try:
        factor = Factor.of(held, choice.columns, choice.rank)
    except InvariantError:
        return False
    signs = np.random.Generator(np.random.PCG64(0)).choice([-1.0, 1.0], (statistics.dim, PROBES))
    if isinstance(statistics.few, Samples):
        values = statistics.few.values().astype(np.float64)
        exact = values.T @ (values @ signs)
    else:
        exact = triangle.multiply(statistics.gram, statistics.dim, signs)
    rebuilt = factor.root.T @ (factor.root @ signs)
    return bool((np.abs(rebuilt - exact) < TOLERANCE).all())


def check_choice(margins: Margins, factor: Factor, choice: Choice, held: NDArray[np.int64]) -> None:
    """Raise `WireError` unless the columns held are those that the format prescribes."""
    spare = ~np.isin(choice.columns, factor.basis)
    if (factor.columns(choice.columns[spare]) != held[:, spare]).any():
        raise WireError("the columns sent do not follow from each other; they were altered")
    n, order = margins.sample_count, ordered_columns(margins)
    last = int(np.flatnonzero(choice.basis)[-1]) + 1
    tried = order[: last if choice.rank == n else len(choice.basis)]
    found = first_independent(factor.columns(tried, tried), n)
    if not np.array_equal(found, np.flatnonzero(choice.basis)):
        raise WireError("the columns are not those that the format prescribes")


def rows_sent(margins: Margins, choice: Choice) -> NDArray[np.int64]:
    """Rows outside the chosen columns that are sent: codes by falling count, dense ones.

    Constants, and the most frequent code of every expert, follow from the totals.
    """
    seen, totals = len(margins.codes), margins.totals
    keep = np.ones(margins.dim, np.bool_)
    keep[choice.columns] = False
    keep[seen + np.array(margins.layout.constants, np.int64)] = False
    keep[_dropped(margins)] = False
    rows = np.flatnonzero(keep)
    return rows[np.lexsort((rows, np.where(rows < seen, -totals[rows], 1)))]


def _dropped(margins: Margins) -> NDArray[np.int64]:
    """The most frequent code of every expert, the lowest on ties: int64, (experts,)."""
    seen, offsets = len(margins.codes), margins.offsets
    owners = np.repeat(np.arange(margins.layout.experts), np.diff(offsets))
    order = np.lexsort((np.arange(seen), -margins.totals[:seen], owners))
    return order[offsets[:-1]] if margins.layout.experts else order


def expected(
    margins: Margins, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """``t_i t_j // n``, int64, (rows, columns)."""
    totals = margins.totals
    return totals[rows][:, None] * totals[columns] // margins.sample_count


def to_arrays(
    margins: Margins, choice: Choice, held: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    """What is sent: the chosen columns' own block, its upper triangle, and the other rows."""
    chosen, rows = choice.columns, rows_sent(margins, choice)
    own = held[chosen] - expected(margins, chosen, chosen)
    others = held[rows] - expected(margins, rows, chosen)
    return {"own": own[np.triu_indices(len(chosen))], "others": others}


def shapes(margins: Margins, choice: Choice) -> dict[str, tuple[int, ...]]:
    """Shapes of `to_arrays`, from what the receiver knows before it unfolds them."""
    width = len(choice.columns)
    return {
        "own": (triangle.packed_size(width),),
        "others": (len(rows_sent(margins, choice)), width),
    }


def from_arrays(
    margins: Margins, choice: Choice, own: NDArray[np.int64], others: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The chosen columns of the gram, int64, (dim, chosen)."""
    chosen, totals, seen = choice.columns, margins.totals, len(margins.codes)
    columns = np.zeros((margins.dim, len(chosen)), np.int64)
    block = np.zeros((len(chosen), len(chosen)), np.int64)
    block[np.triu_indices(len(chosen))] = own
    block += np.triu(block, 1).T
    columns[chosen] = block + expected(margins, chosen, chosen)
    rows = rows_sent(margins, choice)
    others += expected(margins, rows, chosen)
    columns[rows] = others
    for column in margins.layout.constants:
        columns[seen + column] = margins.layout.dense_scales[column] * totals[chosen]
    if margins.layout.experts:
        # A code's products with all codes of an expert add up to the code's own total.
        dropped = np.setdiff1d(_dropped(margins), chosen)
        experts = np.searchsorted(margins.offsets, dropped, side="right") - 1
        sums = np.add.reduceat(columns[:seen], margins.offsets[:-1], axis=0)
        columns[dropped] = totals[chosen] - sums[experts]
    return columns
