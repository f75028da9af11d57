"""Frozen vectors: what a client masks, number by number, stays as it was.

A round that began with one release is opened with the next: every member must lay out its vector,
and choose which numbers are wide, in the same way.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from private_support.private_rounds import make_parties
from safle import (
    Evaluation,
    Model,
    Statistics,
    count,
    declared_range,
    evaluate,
    make_encoder,
    solve,
)
from safle.statistics.histogram import Histogram

SAMPLES = 24
NAMES = ["ill", "unsure", "well"]
SETTINGS = {
    "linear": {},
    "linear by class": {"by_class": True},
    "random-features": {"units": 6},
    "random-features by class": {"units": 6, "by_class": True},
    "embedding": {"buckets": 4, "group_size": 2},
    "table": {"units": 4},
}
FROZEN = {
    ("linear", 1000): "128cb77763646b76",
    ("linear", 2000000): "d8e0a444e1ff507a",
    ("linear by class", 1000): "ca88857a60316ca9",
    ("linear by class", 2000000): "5bff202b85e6a631",
    ("random-features", 1000): "81f2cc02eb42b107",
    ("random-features", 2000000): "0ea57617dfadeb8c",
    ("random-features by class", 1000): "90fcd5351bfc61e3",
    ("random-features by class", 2000000): "b3009f9179bf1f96",
    ("embedding", 1000): "4f4b17ecf4c56bb3",
    ("embedding", 2000000): "4f4b17ecf4c56bb3",
    ("table", 1000): "99a3e5d7ffc88ceb",
    ("table", 2000000): "314368e685e8564f",
    "histogram": "3d283654c07bcfbf",
    "evaluation": "454bf3c140e3f974",
}


def drawn() -> tuple[np.ndarray, list[str]]:
    """Features from 0 to 1 of two of three classes; no generator."""
    place = np.arange(SAMPLES * 4).reshape(SAMPLES, 4)
    return (place * place * 37 + place * 11) % 101 / 101, ["ill", "well"] * (SAMPLES // 2)


def digest(zero, most, value) -> str:
    entries = value.to_vector(zero)
    wide = make_parties(zero, 2, most).private_round.moduli.wide
    assert (entries.dtype, wide.dtype) == (np.int64, np.bool_)
    return hashlib.sha256(entries.tobytes() + wide.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("most", [1_000, 2_000_000])
def test_vectors_of_statistics_are_as_they_were(name, most):
    features, labels = drawn()
    encoder = make_encoder(declared_range(0, 1, 4), name.split()[0], **SETTINGS[name])
    zero = Statistics.empty(encoder.space, NAMES)
    assert digest(zero, most, count(encoder, features, labels)) == FROZEN[name, most]


def test_a_vector_of_a_histogram_is_as_it_was():
    features, _ = drawn()
    grid = Histogram.empty(0, 1, feature_dim=4, bins=8)
    assert digest(grid, 1_000, grid.count(features)) == FROZEN["histogram"]


def test_a_vector_of_evaluation_counts_is_as_it_was():
    features, labels = drawn()
    encoder = make_encoder(declared_range(0, 1, 4), "linear")
    model = Model.of(encoder, solve(count(encoder, features, labels), ridge=1.0))
    zero = Evaluation.empty(model.digest, model.class_names)
    assert digest(zero, 1_000, evaluate(model, features, labels)) == FROZEN["evaluation"]
