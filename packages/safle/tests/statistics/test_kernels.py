"""Kernels at every instruction level of this machine: equal to the definition in NumPy, exactly."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from safle import _native
from safle.encoders import linear, products, random_features
from safle.encoders.codes import Layout
from safle.model.scores import add_dense, look_up, pad_tables, split_dense
from safle.statistics import counting
from safle.statistics.triangle import packed_size
from support.layouts import dense

THEOREMS = (
    "test_counting.py::test_statistics_are_the_products_of_the_one_hot_codes",
    "test_encoding.py::test_codes_are_those_of_the_formulas",
    "test_exactness.py::test_any_partition_in_any_order_gives_the_same_bytes",
)


pytestmark = pytest.mark.usefixtures("kernel_level")


@pytest.mark.parametrize(
    ("samples", "dim", "count", "terms", "shift"),
    [(1, 5, 3, 1, 0), (16, 40, 32, 16, 6), (33, 40, 33, 16, 1), (50, 300, 100, 256, 16)],
)
@pytest.mark.parametrize("reach", [40, 32_767])
def test_units(samples: int, dim: int, count: int, terms: int, shift: int, reach: int) -> None:
    generator = np.random.default_rng(dim)
    dense = generator.integers(-reach, reach + 1, (samples, dim + count + 2)).astype(np.int16)
    dense[0, :dim] = reach
    before = dense.astype(np.int64)
    features = np.argsort(generator.random((count, dim)), axis=1)[:, :terms]
    negative = generator.random((count, terms)) < 0.5
    negative[0] = False
    rows = random_features.rows_of_terms(features, negative, dim)
    random_features.encode_units(dense, dim, count, rows, shift, 15)
    sums = (before[:, features] * np.where(negative, -1, 1)).sum(axis=2)
    expected = before.copy()
    expected[:, dim + 1 : dim + 1 + count] = np.clip((sums + ((1 << shift) >> 1)) >> shift, 0, 15)
    assert np.array_equal(dense, expected)


@pytest.mark.parametrize("samples", [0, 1, 17])
@pytest.mark.parametrize("units", [1, 15, 200])
def test_products_of_coordinates(samples: int, units: int) -> None:
    """Up to the limits of the encoder, where a sum nearly fills 32 bits."""
    generator = np.random.default_rng(units)
    z = generator.choice([-511, -64, -3, 0, 1, 70, 511], (samples, 5)).astype(np.int16)
    pairs = generator.integers(0, 5, (units, 2)).astype(np.int32)
    factors = generator.choice([0, 1, 512, 4_095], units).astype(np.int32)
    offsets = generator.choice([-(1 << 30), 0, 1 << 22, 1 << 30], units).astype(np.int32)
    found = np.full((samples, units + 3), 5, np.int16)
    products.multiply_pairs(z, pairs, factors, offsets, 20, 15, found)
    wide = z.astype(np.int64)
    sums = wide[:, pairs[:, 0]] * wide[:, pairs[:, 1]] * factors + offsets
    assert np.array_equal(found[:, 3:], np.clip(sums >> 20, 0, 15))
    assert (found[:, :3] == 5).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("samples", [0, 1, 50])
def test_fixed_point(dtype: type, root: bool, samples: int) -> None:
    generator = np.random.default_rng(samples)
    features = (generator.standard_normal((samples, 37)) * 3).astype(dtype)
    features[::7] = np.finfo(dtype).max
    mean, deviation = generator.random(37), generator.random(37) + 0.01
    found = np.full((samples, 40), 5, np.int16)
    linear.fix(features, mean, deviation, 64.0, int(root), 0, found)
    values = features.astype(np.float64)
    values = np.copysign(np.sqrt(np.abs(values)), values) if root else values
    with np.errstate(over="ignore"):
        values = np.clip(np.rint((values - mean) / deviation * 64), -32_767, 32_767)
    assert np.array_equal(found[:, :37], values)
    assert (found[:, 37:] == 5).all()


@pytest.mark.parametrize("samples", [0, 1, 2, 33, 100])
@pytest.mark.parametrize("classes", [1, 2, 7])
def test_scores_of_dense_columns(samples: int, classes: int) -> None:
    """Runs of columns of several scales and ranges, every value as large as it may be."""
    generator = np.random.default_rng(classes)
    widths, limits = (21, 300, 1, 40), ((-32_767, 32_767), (0, 15), (64, 64), (0, 255))
    parts = zip(widths, [64, 8, 64, 2], limits, strict=True)
    layout = Layout(dense(*ends, scale=scale, columns=width) for width, scale, ends in parts)
    shape = samples, layout.dense_dim
    codes = generator.integers(layout.low, layout.high + 1, shape).astype(np.int16)
    codes[::2] = layout.high
    steps = generator.integers(-(1 << 24), (1 << 24) + 1, (layout.dense_dim, classes))
    steps[:, 0] = 1 << 24
    scores = np.full((samples, classes), 0.5)
    weights = (steps * 2.0**-30).astype(np.float32)
    add_dense(scores, codes, split_dense(layout, weights, 2.0**-30))
    scaled = steps * (64 // layout.scales)[:, None]
    assert np.array_equal(scores, 0.5 + (codes.astype(np.int64) @ scaled) * 2.0**-36)


@pytest.mark.parametrize("classes", [1, 4, 9, 17])
def test_scores_of_symbols(classes: int) -> None:
    generator = np.random.default_rng(classes)
    sizes = np.array([3, 16, 5] * 50)
    bases = np.concatenate([[0], np.cumsum(sizes)])
    symbols = (generator.random((300, len(sizes))) * sizes).astype(np.uint8)
    steps = np.full((bases[-1], classes), 1 << 24, np.int32)
    steps[::3] = generator.integers(-(1 << 24), 1 << 24, steps[::3].shape)
    found = look_up(symbols, bases, pad_tables(steps))
    expected = steps.astype(np.int64)[symbols + bases[:-1]].sum(axis=1)
    assert np.array_equal(found[:, :classes], expected)


def test_counts_of_symbols() -> None:
    generator = np.random.default_rng(0)
    offsets = np.arange(0, 41 * 16, 16)
    rows = (generator.integers(0, 16, (40, 700)) + offsets[:-1, None]).astype(np.int32)
    dense = generator.integers(-99, 99, (700, 3)).astype(np.int16)
    gram = np.zeros(packed_size(643), np.int64)
    counting.add_gram(gram, rows, dense, offsets)
    phi = np.zeros((700, 643), np.int64)
    np.put_along_axis(phi, rows.T.astype(np.int64), 1, axis=1)
    phi[:, 640:] = dense
    assert np.array_equal(gram, (phi.T @ phi)[np.triu_indices(643)])


@pytest.mark.slow
def test_theorems_hold_at_every_level(request: pytest.FixtureRequest, kernel_level: str) -> None:
    folder = request.config.rootpath / "packages/safle/tests/theorems"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(f"{folder}/{name}" for name in THEOREMS)],
        env={**os.environ, _native.VARIABLE: kernel_level},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:]
