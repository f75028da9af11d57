"""Leading eigenvectors: against NumPy, and where there are none to find."""

from __future__ import annotations

import numpy as np
import pytest

from safle.solver.directions import lead


@pytest.mark.parametrize(("size", "count"), [(1, 1), (6, 2), (40, 5), (150, 12)])
def test_they_are_numpys(size, count):
    generator = np.random.default_rng(size)
    drawn = generator.standard_normal((3, size, size))
    matrices = drawn @ np.swapaxes(drawn, 1, 2) / size - 0.5 * np.eye(size)
    white = np.triu(0.1 * generator.standard_normal((size, size)) + np.eye(size))
    for matrix, (values, vectors) in zip(matrices, lead(matrices, white, count), strict=True):
        whole = white.T @ matrix @ white
        assert values == pytest.approx(np.linalg.eigvalsh(whole)[::-1][:count], abs=1e-9)
        assert vectors @ vectors.T == pytest.approx(np.eye(count), abs=1e-9)
        assert vectors @ whole == pytest.approx(values[:, None] * vectors, abs=1e-6)


def test_a_matrix_alone_gives_what_it_gives_among_others():
    matrices = np.random.default_rng(0).standard_normal((5, 30, 30))
    matrices += np.swapaxes(matrices, 1, 2)
    together = lead(matrices, np.eye(30), 4)
    for matrix, (values, vectors) in zip(matrices, together, strict=True):
        [(own_values, own_vectors)] = lead(matrix[None], np.eye(30), 4)
        assert values.tobytes() == own_values.tobytes()
        assert vectors.tobytes() == own_vectors.tobytes()


def test_no_more_are_found_than_differ():
    for size, matrix in {0.0: np.zeros((5, 5)), 2.0: 2 * np.eye(5)}.items():
        [(values, vectors)] = lead(matrix[None], np.eye(5), 3)
        assert values == pytest.approx([size])
        assert vectors.shape == (1, 5)
        assert np.linalg.norm(vectors) == pytest.approx(1)
