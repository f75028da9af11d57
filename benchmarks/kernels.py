"""Kernels: what each reaches on one core, beside the most that the machine allows.

Seconds are those of the thread, the best of several runs, so that other work on the machine counts
as little as it can. Peaks are measured in the same run: of memory, by adding one large array to
another; of instructions, the clock that the operating system names times what a core starts in a
cycle: two loads and two multiplications of one vector. A core may run faster than that clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.privacy import BAR_MASKING, masking_speed
from benchmarks.products import BARS, PER_CYCLE, VECTOR_BYTES, clock
from benchmarks.report import Bar, Outcome
from benchmarks.settings import Settings
from safle import _native
from safle._native import cores
from safle.encoders.codes import Block, Layout
from safle.encoders.linear import fix
from safle.encoders.random_features import LANES, encode_units
from safle.model import scores as scoring
from safle.statistics import counting, triangle


@dataclass(frozen=True)
class Rate:
    """What a kernel does in a second of a core, the most it could, and what keeps it from more."""

    kernel: str
    unit: str
    reached: float
    peak: float
    bound: str

    def row(self) -> list[str]:
        share = f"{self.reached / self.peak:.0%}"
        return [
            self.kernel,
            f"{self.reached / 1e9:.3g} G{self.unit}/s",
            f"{self.peak / 1e9:.3g} G{self.unit}/s",
            share,
            self.bound,
        ]


def run(settings: Settings) -> Outcome:
    """All kernels, one after the other."""
    repeats, small = (2, 16) if settings.quick else (7, 1)
    with cores.use_threads(1):
        cycles = clock()
        memory = memory_speed(repeats, small)
        rates, over_float32 = _measure(repeats, small, cycles, memory)
    masking = masking_speed((1 << 24) // small)
    rates.append(Rate("masks (AES-CTR of `cryptography`)", "B", masking, memory / 3, "AES"))
    header = ["kernel", "reached", "peak", "share", "likely bound by"]
    level = _native.level()
    return Outcome(
        figures={
            "level": level,
            "hertz": cycles,
            "memory_bytes_per_second": memory,
            "rates": {rate.kernel: rate.reached for rate in rates},
            "products_over_float32": over_float32,
        },
        data="generated",
        compared="nothing: the kernels' tests do",
        bars=[
            Bar("kernels: products over float32, one core", over_float32, BARS[level]),
            Bar("kernels: masked bytes per second and core", masking, BAR_MASKING),
        ],
        tables={f"Kernels at level {level}": [header, *(rate.row() for rate in rates)]},
    )


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of this thread that the fastest run took."""
    seconds = []
    for _ in range(repeats):
        begun = time.thread_time()
        work()
        seconds.append(time.thread_time() - begun)
    return min(seconds)


def memory_speed(repeats: int, small: int) -> float:
    """Bytes per second that `target += source` reads and writes, far beyond the caches."""
    target = np.ones((1 << 24) // small, np.int64)
    source = np.ones_like(target)
    return 3 * target.nbytes / best(lambda: np.add(target, source, out=target), repeats)


def _measure(repeats: int, small: int, cycles: float, memory: float) -> tuple[list[Rate], float]:
    generator = np.random.default_rng(0)
    vector = VECTOR_BYTES[_native.level()]
    loads = PER_CYCLE * vector * cycles
    rates = []

    samples, dim = 4_096 // small, 1_536
    codes = generator.integers(0, 16, (samples, dim)).astype(np.int16)
    gram = np.zeros(triangle.packed_size(dim), np.int64)
    seconds = best(lambda: counting.add_products(gram, codes), repeats)
    pairs = samples * dim * (dim + 1) / 2
    rates.append(Rate("products of 4-bit codes", "op", pairs / seconds, loads, "multiplications"))
    real = codes.astype(np.float32)
    over_float32 = best(lambda: real.T @ real, repeats) / seconds

    experts, values = 256, 16
    offsets = np.arange(0, (experts + 1) * values, values)
    places = generator.integers(0, values, (experts, samples)) + offsets[:-1, None]
    rows = places.astype(np.int32)
    wide = np.zeros(triangle.packed_size(experts * values), np.int64)
    none = np.empty((samples, 0), np.int16)
    seconds = best(lambda: counting.add_gram(wide, rows, none, offsets), repeats)
    counters = samples * experts * experts * values / 4
    rates.append(Rate("counts, 256 × 16", "B", counters / seconds, loads, "loads of counters"))

    features, units, terms = 512, 8_192, 8
    real = generator.normal(size=(samples, features)).astype(np.float32)
    dense = np.zeros((samples, features + 1 + units), np.int16)
    ones = np.ones(features)
    fixing = best(lambda: fix(real, 0 * ones, ones, 64.0, 1, 0, dense), repeats)
    rates.append(
        Rate("fixed point", "B", real.size * 6 / fixing, memory, "square roots and divisions")
    )
    chosen = (generator.integers(0, 2 * features, (units, terms)) * LANES).astype(np.uint32)
    seconds = best(lambda: encode_units(dense, features, units, chosen, 2, 15), repeats)
    read = samples * units * terms * 2
    rates.append(Rate("units of 8 terms", "B", read / seconds, loads, "loads"))

    steps = generator.integers(-(2**20), 2**20, (units, 10))
    layout = Layout([Block("random", units, scale=4, high=15)])
    weighing = scoring.split_dense(layout, steps.astype(np.float32), 1.0)
    codes, scores = np.ascontiguousarray(dense[:, features + 1 :]), np.zeros((samples, 10))
    seconds = best(lambda: scoring.add_dense(scores, codes, weighing), repeats)
    # A weight is multiplied as two halves.
    multiplied = samples * 2 * steps.size
    rates.append(
        Rate(
            "scores of units, 10 classes", "op", multiplied / seconds, loads / 2, "multiplications"
        )
    )
    symbols = generator.integers(0, values, (samples, experts)).astype(np.uint8)
    padded = scoring.pad_tables(
        generator.integers(0, 2**20, (experts * values, 10)).astype(np.int32)
    )
    seconds = best(lambda: scoring.look_up(symbols, offsets, padded), repeats)
    read = symbols.size * padded.shape[1] * 4
    rates.append(Rate("scores of tables, 10 classes", "B", read / seconds, loads, "loads"))

    dim = 4_096 // (4 if small > 1 else 1)
    whole = np.ones(triangle.packed_size(dim), np.int64)
    other, kept = np.ones_like(whole), np.arange(dim)
    seconds = best(lambda: triangle.add_spread(whole, dim, other, kept, 1), repeats)
    rates.append(Rate("triangle += triangle", "B", whole.nbytes * 3 / seconds, memory, "memory"))
    right = generator.normal(size=(dim, 10))
    seconds = best(lambda: triangle.multiply(whole, dim, right), repeats)
    # Every entry meets its row and its column: two multiplications of eight bytes.
    done, most = 2 * whole.size * 10 / seconds, loads / 8
    rates.append(Rate("triangle @ 10 columns", "op", done, most, "multiplications"))
    return rates, over_float32
