"""The gram of few samples on the wire: some of its columns, which determine the others.

The columns sent follow from the gram alone, so that equal statistics have equal bytes. All
columns are put in a fixed order: a constant, which costs nothing because its products are the
totals; then narrow ranges first, as a hash says; other constants never. Of the first
``2 n + 64``, the lexicographically first independent ones (modulo a prime, so that no rounding
decides) are the basis; some columns behind its last keep it from being nearly dependent. An
entry is sent as its difference from ``t_i t_j // n``, what the totals alone would expect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safle.encoders.operations import hashes
from safle.errors import InvariantError, WireError
from safle.statistics import Statistics, triangle
from safle.statistics.factor import Factor, first_independent
from safle.statistics.free_sums import FreeSums
from safle.statistics.invariants import Bounds
from safle.statistics.value import Margins

SPARE, BASIS_PER_SPARE = 8, 1
"""Most columns beyond the basis, and how much basis there is for each."""
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
    def of(order: NDArray[np.int64], basis: NDArray[np.bool_], per_spare: int) -> Choice:
        """The choice of these candidates, the first of ``order``."""
        places = np.flatnonzero(basis)
        after = int(places[-1]) + 1 if len(places) else 0
        wanted = min(SPARE, len(places) // per_spare)
        spare = np.arange(after, min(after + wanted, len(order)))
        return Choice(basis, order[np.concatenate([places, spare])])


def candidate_count(samples: int, order: NDArray[np.int64]) -> int:
    """How many columns may be looked at for a basis."""
    return min(2 * samples + 64, len(order))


def ordered_columns(margins: Margins) -> NDArray[np.int64]:
    """Rows of the gram that may be in a basis, in the order in which they are tried."""
    layout, seen = margins.layout, len(margins.codes)
    widths = np.ones(margins.dim, np.int64)
    limits = np.array(layout.dense_limits, np.int64).reshape(-1, 2)
    widths[seen:] = np.abs(limits).max(axis=1, initial=0)
    order = np.lexsort((hashes(0, margins.dim, 0), widths))
    constants = FreeSums.of(margins).constants
    return np.concatenate([constants[:1], order[~np.isin(order, constants)]])


def are_few(margins: Margins) -> bool:
    """Whether there are so few samples that some columns determine the gram."""
    return 0 < margins.sample_count <= min(MOST_SAMPLES, (margins.dim - SPARE) // 2)


def working_bytes(margins: Margins) -> int:
    """Most memory that finding the columns, or all others from them, takes beside the gram."""
    dim, width = margins.dim, margins.sample_count + SPARE
    return 8 * (3 * dim * width + 2 * min(2 * width + 64, dim) ** 2) + (1 << 24)


Chosen = tuple[Choice, NDArray[np.int64]]


def choose(statistics: Statistics, per_spare: int = BASIS_PER_SPARE) -> Chosen | None:
    """The columns that the format prescribes; None if the whole triangle is to be sent.

    Which, and what they hold, int64, (dim, chosen).
    """
    n = statistics.sample_count
    if not are_few(statistics):
        return None
    order = ordered_columns(statistics)
    choice = Choice.of(order, _basis(statistics, order, n), per_spare)
    held = statistics.gram.columns(choice.columns)
    return (choice, held) if _determines(statistics, choice, held) else None


def _basis(statistics: Statistics, order: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    most = candidate_count(n, order)
    basis = np.zeros(most, np.bool_)
    # Mostly the first n are independent; the others are looked at only if they are needed.
    for tried in (min(n, most), most):
        candidates = order[:tried]
        found = first_independent(statistics.gram.columns(candidates, candidates), n)
        if len(found) == n:
            break
    basis[found] = True
    return basis


def _determines(statistics: Statistics, choice: Choice, held: NDArray[np.int64]) -> bool:
    """Whether the receiver would rebuild every entry, by random combinations of them."""
    try:
        factor = Factor.of(held, choice.columns, choice.rank, Bounds.of(statistics))
    except InvariantError:
        return False
    signs = np.random.Generator(np.random.PCG64(0)).choice([-1.0, 1.0], (statistics.dim, PROBES))
    differences = factor.multiply(signs) - statistics.gram.multiply(signs)
    return bool((np.abs(differences) < TOLERANCE).all())


def _check_choice(
    margins: Margins, factor: Factor, choice: Choice, held: NDArray[np.int64]
) -> None:
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


def pack_bits(flags: NDArray[np.bool_]) -> bytes:
    """Flag i in bit i mod 8 of byte i // 8."""
    return np.packbits(flags, bitorder="little").tobytes()


def unpack_bits(data: bytes, count: int) -> NDArray[np.bool_]:
    """The inverse of `pack_bits`; `WireError` if the padding is not zero."""
    flags = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(np.bool_)
    if flags[count:].any():
        raise WireError("the padding of a bitmap is not zero")
    return flags[:count]


def basis_bytes(margins: Margins) -> int:
    """Bytes of a basis."""
    return -(-candidate_count(margins.sample_count, ordered_columns(margins)) // 8)


def read_choice(margins: Margins, data: bytes, per_spare: int = BASIS_PER_SPARE) -> Choice:
    """The choice that the bits of a basis say."""
    n, order = margins.sample_count, ordered_columns(margins)
    basis = unpack_bits(data, candidate_count(n, order))
    if not 0 < basis.sum() <= n:
        raise WireError("the basis does not fit the number of samples")
    return Choice.of(order, basis, per_spare)


def restore(margins: Margins, choice: Choice, values: NDArray[np.int64]) -> Factor:
    """The root of the gram that the values of `to_values` determine."""
    held = _from_values(margins, choice, values)
    factor = Factor.of(held, choice.columns, choice.rank, Bounds.of(margins))
    _check_choice(margins, factor, choice, held)
    return factor


def rows_sent(margins: Margins, choice: Choice) -> NDArray[np.int64]:
    """Rows outside the chosen columns that are sent; the others follow from the totals."""
    return np.setdiff1d(FreeSums.of(margins).rows, choice.columns)


def expected(
    margins: Margins, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """``t_i t_j // n``, int64, (rows, columns)."""
    totals = margins.totals
    return totals[rows][:, None] * totals[columns] // margins.sample_count


def _columns_sent(margins: Margins, choice: Choice) -> NDArray[np.bool_]:
    """Which of the chosen columns are sent: constants follow from the totals."""
    return ~np.isin(choice.columns, FreeSums.of(margins).constants)


def to_values(margins: Margins, choice: Choice, held: NDArray[np.int64]) -> NDArray[np.int64]:
    """What is sent: the chosen columns' own block, its upper triangle, then the other rows."""
    sent, rows = _columns_sent(margins, choice), rows_sent(margins, choice)
    chosen, held = choice.columns[sent], held[:, sent]
    own = held[chosen] - expected(margins, chosen, chosen)
    others = held[rows]
    others -= expected(margins, rows, chosen)
    return np.concatenate([own[np.triu_indices(len(chosen))], others.reshape(-1)])


def value_count(margins: Margins, choice: Choice) -> int:
    """How many `to_values` are: known before they are unfolded."""
    width = int(_columns_sent(margins, choice).sum())
    return triangle.packed_size(width) + len(rows_sent(margins, choice)) * width


def _from_values(margins: Margins, choice: Choice, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The chosen columns of the gram, int64, (dim, chosen)."""
    free, sent, totals = FreeSums.of(margins), _columns_sent(margins, choice), margins.totals
    chosen, rows = choice.columns[sent], rows_sent(margins, choice)
    columns = np.zeros((margins.dim, len(chosen)), np.int64)
    block = np.zeros((len(chosen), len(chosen)), np.int64)
    size = triangle.packed_size(len(chosen))
    block[np.triu_indices(len(chosen))] = values[:size]
    block += np.triu(block, 1).T
    columns[chosen] = block + expected(margins, chosen, chosen)
    columns[rows] = expected(margins, rows, chosen)
    columns[rows] += values[size:].reshape(len(rows), len(chosen))
    held = np.empty((margins.dim, len(sent)), np.int64)
    held[:, sent] = free.restore_rows(columns[free.rows], totals[chosen])
    if (held[np.ix_(chosen, sent)] != columns[chosen]).any():
        raise WireError("the columns sent do not follow from each other; they were altered")
    scales = np.array(margins.layout.dense_scales, np.int64)
    held[:, ~sent] = scales[choice.columns[~sent] - len(margins.codes)] * totals[:, None]
    return held
