"""Sums of products of integer columns: every entry equal to NumPy's int64 product."""

from __future__ import annotations

import numpy as np
import pytest

from safle.statistics import counting
from safle.statistics.triangle import packed_size

pytestmark = pytest.mark.usefixtures("kernel_level")


def check(dense: np.ndarray) -> None:
    samples, dim = dense.shape
    labels = np.random.default_rng(1).integers(0, 4, samples) * 2
    gram, cross = np.ones(packed_size(dim), np.int64), np.ones((dim, 8), np.int64)
    counting.add_products(gram, dense)
    counting.add_cross(cross, np.empty((0, samples), np.int32), dense, labels)
    whole = dense.astype(np.int64)
    assert np.array_equal(gram - 1, (whole.T @ whole)[np.triu_indices(dim)])
    assert np.array_equal(cross - 1, whole.T @ np.eye(8, dtype=np.int64)[labels])


@pytest.mark.parametrize("samples", [0, 1, 7, 511, 4_096, 5_000])
def test_codes_of_any_number_of_samples(samples: int) -> None:
    check(np.random.default_rng(samples).integers(0, 16, (samples, 61)).astype(np.int16))


@pytest.mark.parametrize("bits", range(1, 9))
def test_codes_of_any_width(bits: int) -> None:
    """All of them the largest there is, so that every sum is as near overflow as it gets."""
    check(np.full((700, 50), (1 << bits) - 1, np.int16))


@pytest.mark.parametrize("dim", [1, 47, 48, 49, 143, 144, 145, 300])
def test_product_has_any_number_of_columns(dim: int) -> None:
    check(np.random.default_rng(dim).integers(0, 16, (90, dim)).astype(np.int16))


@pytest.mark.parametrize("reach", [40, 640, 32_767])
def test_features_beside_codes(reach: int) -> None:
    generator = np.random.default_rng(reach)
    dense = generator.integers(0, 16, (1_025, 320)).astype(np.int16)
    dense[:, :160] = generator.integers(-reach, reach + 1, (1_025, 160))
    dense[:, 3], dense[:, 4] = reach, -reach
    check(dense)
