"""The paper's formulas, one value at a time.

The reference shares no code with safle but the permutation, which the paper leaves open.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np

from safle import Bucketing, EmbeddingEncoder, Encoder, LinearEncoder, RandomFeatureEncoder
from safle.encoders.operations import NumpyOperations
from safle.encoders.products import ProductEncoder
from safle.encoders.splitmix import permutation
from safle.encoders.table import TableEncoder


def digits_of(bucketing: Bucketing, thresholds: list[float], value: float) -> list[int]:
    """B_1(x)..B_L(x) of one value."""
    if bucketing.name == "binary-overlap":
        return [int(value > threshold) for threshold in thresholds]
    borders = [-np.inf, *thresholds, np.inf]
    inside = [int(low < value <= high) for low, high in pairwise(borders)]
    return [inside.index(1)] if bucketing.name == "integer" else inside


def symbols_of(encoder: EmbeddingEncoder, row: np.ndarray) -> list[int]:
    """idx_1..idx_E of one sample."""
    bucketing, columns = encoder.bucketing, encoder.thresholds.T.tolist()
    k = bucketing.buckets if bucketing.name == "integer" else 2
    digits = [
        digit
        for value, thresholds in zip(row.tolist(), columns, strict=True)
        for digit in digits_of(bucketing, thresholds, value)
    ]
    shuffled = [digits[place] for place in permutation(len(digits), encoder.settings.seed)]
    size = encoder.group_size
    groups = [shuffled[at : at + size] for at in range(0, len(shuffled), size)]
    return [sum(digit * k**i for i, digit in enumerate(group)) for group in groups]


def fixed_point_of(encoder: LinearEncoder, row: np.ndarray) -> list[int]:
    """Standardised values times 2^b, rounded half to even."""
    scale = 2**encoder.settings.fraction_bits
    values = row.tolist()
    if encoder.settings.transform == "square-root":
        values = [math.copysign(math.sqrt(abs(value)), value) for value in values]
    standardised = [
        (value - mean) / deviation
        for value, mean, deviation in zip(
            values, encoder.mean.tolist(), encoder.deviation.tolist(), strict=True
        )
    ]
    # A gap of a table is taken for the mean.
    whole = [0 if math.isnan(z) else round(scale * z) for z in standardised]
    codes = [max(-32_767, min(32_767, code)) for code in whole]
    return shortened(codes, encoder.settings.norm_clip * scale)


def shortened(codes: list[int], longest: int) -> list[int]:
    """Codes times ``longest`` over their length, rounded up; towards zero."""
    power = sum(code * code for code in codes)
    length = math.isqrt(power) + (math.isqrt(power) ** 2 < power)
    if not longest or length <= longest:
        return codes
    return [int(Fraction(code * longest, length)) for code in codes]


def hash_of(position: int, seed: int) -> int:
    """SplitMix64 of the position after ``seed``."""
    mask = 2**64 - 1
    state = (seed + 0x9E3779B97F4A7C15 * (position + 1)) & mask
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
    return state ^ (state >> 31)


def units_of(fixed: list[int], settings, *, has_thresholds: bool = False) -> list[int]:
    """Signed sums of the columns with the smallest hashes, less a threshold, in few bits."""
    dim, terms = len(fixed), settings.terms
    deviation = 1
    while 2 * deviation**2 <= terms:
        deviation *= 2
    step = Fraction(4 * 2**settings.fraction_bits * deviation, 2**settings.bits)
    codes = []
    for unit in range(settings.units):
        keys = [hash_of(unit * dim + f, settings.seed) for f in range(dim)]
        chosen = sorted(range(dim), key=keys.__getitem__)[:terms]
        total = sum(-fixed[f] if keys[f] % 2 else fixed[f] for f in chosen)
        if has_thresholds:
            drawn = sum(hash_of(settings.units * dim + unit, settings.seed).to_bytes(8, "little"))
            spread = math.isqrt(48_171 * terms * 4**settings.fraction_bits)
            total -= (drawn - 1020) * spread // 2**16
        rounded = math.floor(max(0, total) / step + Fraction(1, 2))
        codes.append(min(2**settings.bits - 1, rounded))
    return codes


def products_of(encoder: ProductEncoder, fixed: list[int]) -> list[int]:
    """Products of two projections in 64ths, in half deviations around code 8, in four bits."""
    unit = Fraction(1, 2 ** (encoder.settings.fraction_bits + 6))
    z = []
    axes = zip(encoder.directions.T.tolist(), encoder.centres.tolist(), strict=True)
    for direction, centre in axes:
        total = centre + sum(d * code for d, code in zip(direction, fixed, strict=True))
        z.append(max(-511, min(511, math.floor(total * unit))))
    codes = []
    scaling = zip(encoder.factors.tolist(), encoder.offsets.tolist(), strict=True)
    for (i, j), (factor, offset) in zip(encoder.pairs.tolist(), scaling, strict=True):
        codes.append(max(0, min(15, math.floor(Fraction(factor * z[i] * z[j] + offset, 2**20)))))
    return codes


def level_counts_of(encoder: TableEncoder) -> list[int]:
    """How many levels each column has; 0 for a number."""
    if encoder.contract.schema is None:
        return [0] * encoder.feature_dim
    return [len(column.levels) for column in encoder.contract.schema.columns]


def table_symbol_of(value: float, levels: int) -> int:
    """0 for a gap, 1 for a number; 1 to L for a level, L + 1 for any other."""
    if math.isnan(value):
        return 0
    return sum(value > place - 0.5 for place in range(levels + 1)) if levels else 1


def level_inputs_of(value: float, levels: int, fraction_bits: int) -> list[int]:
    """A category's levels as fixed-point columns, as if all were equally frequent."""
    others = max(levels, 2) - 1
    here = math.isqrt(4**fraction_bits * others)
    elsewhere = -math.isqrt(4**fraction_bits // others)
    return [here if place - 0.5 < value <= place + 0.5 else elsewhere for place in range(levels)]


def table_row_of(encoder: TableEncoder, row: np.ndarray) -> tuple[list[int], list[int]]:
    """Symbols of all columns; and numbers, a constant and random features of numbers and levels."""
    bits = encoder.settings.fraction_bits
    columns = list(zip(row.tolist(), level_counts_of(encoder), strict=True))
    symbols = [table_symbol_of(value, levels) for value, levels in columns]
    numbers = np.array([value for value, levels in columns if not levels], np.float64)
    fixed = fixed_point_of(encoder.linear, numbers)
    inputs = [code for value, levels in columns for code in level_inputs_of(value, levels, bits)]
    units = units_of([*fixed, *inputs], encoder.settings, has_thresholds=True)
    return symbols, [*fixed, 2**bits, *units]


def _one_hot(encoder: Encoder, symbols: list[int]) -> list[int]:
    pairs = zip(symbols, encoder.layout.table_sizes, strict=True)
    return [int(symbol == value) for symbol, size in pairs for value in range(size)]


def row_of(encoder: Encoder, row: np.ndarray) -> tuple[list[int], list[int]]:
    """One-hot columns and dense columns of Phi for one sample."""
    if isinstance(encoder, EmbeddingEncoder):
        return _one_hot(encoder, symbols_of(encoder, row)), []
    if isinstance(encoder, LinearEncoder):
        fixed = fixed_point_of(encoder, row)
        units = []
        if isinstance(encoder, RandomFeatureEncoder):
            units = units_of(fixed, encoder.settings)
        if isinstance(encoder, ProductEncoder):
            units = products_of(encoder, fixed)
        return [], [*fixed, 2**encoder.settings.fraction_bits, *units]
    if isinstance(encoder, TableEncoder):
        symbols, dense = table_row_of(encoder, row)
        return _one_hot(encoder, symbols), dense
    # A kind without a formula here, registered by a test: its own words.
    made = encoder.express(NumpyOperations(), row[None].astype(np.float64))
    symbols, dense = ([] if x is None else [int(v) for v in x[0]] for x in made)
    return _one_hot(encoder, symbols), dense


def phi(encoder: Encoder, features: np.ndarray) -> np.ndarray:
    """Phi over the whole code space, seen or not; int64, (samples, embedding_dim)."""
    rows = [[*onehot, *dense] for onehot, dense in (row_of(encoder, x) for x in features)]
    return np.array(rows, np.int64).reshape(len(rows), -1 if rows else encoder.layout.dim)


def real_phi(encoder: Encoder, features: np.ndarray) -> np.ndarray:
    """`phi` in real units: a fixed-point integer over its scale."""
    real = phi(encoder, features).astype(np.float64)
    real[:, encoder.layout.code_count :] /= encoder.layout.scales
    return real
