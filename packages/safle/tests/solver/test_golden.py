"""Frozen models: whatever becomes of the code, equal sums give the weights that they gave before.

Linear heads have the same bits on every machine. The squares of others come from LAPACK, whose last
bits differ, so their scores are compared.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from safle import Model, count, declared_range, make_encoder, of_schema, solve
from safle.tables.schema import Column, Schema

SAMPLES = 90
FEATURES = 5
SETTINGS = {
    "linear": {},
    "random-features": {"units": 12},
    "embedding": {"buckets": 4, "group_size": 2},
    "table": {"units": 8},
}
FROZEN = {
    ("linear", "least-squares", 2, "auto"): "945445122cb4de1c",
    ("linear", "least-squares", 2, 2.0): "66a344233c020012",
    ("linear", "least-squares", 4, "auto"): "e372ddadfe0d8369",
    ("linear", "least-squares", 4, 2.0): "9eaa6b3e5f01ee7a",
    ("linear", "discriminant", 2, "auto"): "087a90a2343db64a",
    ("linear", "discriminant", 2, 2.0): "6c02d301761d632f",
    ("linear", "discriminant", 4, "auto"): "f51a6ca783ae1c4e",
    ("linear", "discriminant", 4, 2.0): "960d1cabbbb01752",
    ("linear", "averaged", 2, "auto"): "15f4b9bdbe20a3dd",
    ("linear", "averaged", 2, 2.0): "f702c34c04ef3222",
    ("linear", "averaged", 4, "auto"): "35f80666fa37c2b4",
    ("linear", "averaged", 4, 2.0): "24c5ec73d116e33f",
    ("random-features", "least-squares", 2, "auto"): "ed00ccbbbe253cba",
    ("random-features", "least-squares", 2, 2.0): "f7f085450ee0feae",
    ("random-features", "least-squares", 4, "auto"): "6970e029b6dfa3c8",
    ("random-features", "least-squares", 4, 2.0): "40ef7bbef26bf908",
    ("random-features", "discriminant", 2, "auto"): "e0bbf2215541ff9b",
    ("random-features", "discriminant", 2, 2.0): "d3eeb5112e07d97e",
    ("random-features", "discriminant", 4, "auto"): "5afbaf1ffd58a788",
    ("random-features", "discriminant", 4, 2.0): "7caeb3a993cfd942",
    ("random-features", "averaged", 2, "auto"): "dadefb9235be9ff2",
    ("random-features", "averaged", 2, 2.0): "16b0ad8a2813b96f",
    ("random-features", "averaged", 4, "auto"): "9c99dff0566694d2",
    ("random-features", "averaged", 4, 2.0): "d8ccbbed8a9a32f9",
    ("embedding", "least-squares", 2, "auto"): "ab320ea1cc77fd68",
    ("embedding", "least-squares", 2, 2.0): "1aca9286a83276da",
    ("embedding", "least-squares", 4, "auto"): "1c756eece59c6d5b",
    ("embedding", "least-squares", 4, 2.0): "6b1e81075a0344cb",
    ("embedding", "discriminant", 2, "auto"): "7f2e043879db3a61",
    ("embedding", "discriminant", 2, 2.0): "4d53066861ae0adc",
    ("embedding", "discriminant", 4, "auto"): "b9db5570fdeed61a",
    ("embedding", "discriminant", 4, 2.0): "b0b1159e7aa8557b",
    ("embedding", "averaged", 2, "auto"): "b9f1b01433f21379",
    ("embedding", "averaged", 2, 2.0): "e9945371ddc1d1c8",
    ("embedding", "averaged", 4, "auto"): "80fe9065cdf071fd",
    ("embedding", "averaged", 4, 2.0): "c5ebf05495652b76",
    ("table", "least-squares", 2, "auto"): "42212ef462f2ae31",
    ("table", "least-squares", 2, 2.0): "623b28e18bfffdf3",
    ("table", "least-squares", 4, "auto"): "9416c7018edf5faa",
    ("table", "least-squares", 4, 2.0): "f0b2bf74670dc714",
    ("table", "discriminant", 2, "auto"): "32059e942feb92a2",
    ("table", "discriminant", 2, 2.0): "9a2b2e740acb24a6",
    ("table", "discriminant", 4, "auto"): "30e1d7188701125d",
    ("table", "discriminant", 4, 2.0): "3b3a449e0e9afa29",
    ("table", "averaged", 2, "auto"): "c6013f75cb747d75",
    ("table", "averaged", 2, 2.0): "417b1f2cdada2fb3",
    ("table", "averaged", 4, "auto"): "dee902d89251a82e",
    ("table", "averaged", 4, 2.0): "4cd8000d3eb23218",
    "priors": "5e5852a8daab6a9b",
}
SCORES = {
    ("linear", "quadratic"): [-0.6364, -3.4343, -6.5716, -7.3593],
    ("linear", "averaged"): [-0.6364, -3.4343, -6.5716, -7.3593],
    ("random-features", "quadratic"): [-1.9611, -5.6678, -8.1973, -8.3788],
    ("random-features", "averaged"): [5.5556, -0.2579, -2.2674, -3.0302],
}


def draw(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Features from 0 to 1, and labels that follow from them but for one in nine; no generator."""
    place = np.arange(SAMPLES * FEATURES).reshape(SAMPLES, FEATURES)
    features = (place * place * 37 + place * 11) % 1009 / 1009
    labels = (features[:, 0] + features[:, 1] * features[:, 2]) * classes // 2
    labels[::9] = np.arange(len(labels[::9])) % classes
    return features, np.minimum(labels, classes - 1).astype(np.int64)


def made(kind: str, classes: int, **settings):
    """An encoder of a kind, and the statistics of the samples."""
    features, labels = draw(classes)
    columns = declared_range(0, 1, feature_dim=FEATURES)
    if kind == "table":
        numbers = [Column(f"c{place}", 0, 1) for place in range(FEATURES - 1)]
        columns = of_schema(Schema((*numbers, Column("level", levels=("a", "b", "c")))))
        features[:, -1] = np.arange(SAMPLES) % 3
        features[::7, 1] = np.nan
    encoder = make_encoder(columns, kind, **(SETTINGS[kind] | settings))
    return encoder, features, count(encoder, features, labels)


def digest(model: Model) -> str:
    """Of all that predictions depend on beside the encoder."""
    temperature = np.float64(model.temperature or 0.0)
    parts = (model.codes, model.weights, model.intercept, temperature, np.float64(model.ridge))
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("head", ["least-squares", "discriminant", "averaged"])
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_linear_head_has_the_weights_that_it_had(kind, head, classes):
    encoder, _, statistics = made(kind, classes)
    for ridge in ("auto", 2.0):
        model = Model.of(encoder, solve(statistics, head=head, ridge=ridge))
        assert digest(model) == FROZEN[kind, head, classes, ridge]


@pytest.mark.parametrize("kind", ["linear", "random-features"])
@pytest.mark.parametrize("head", ["quadratic", "averaged"])
def test_a_quadratic_head_has_the_scores_that_it_had(kind, head):
    encoder, features, statistics = made(kind, 4, by_class=True)
    model = Model.of(encoder, solve(statistics, head=head))
    scores = model.decision_function(features[:1]) / model.temperature
    assert scores.ravel() == pytest.approx(SCORES[kind, head], rel=1e-3, abs=1e-3)


def test_priors_move_the_intercept_as_they_did():
    encoder, _, statistics = made("linear", 4)
    model = Model.of(encoder, solve(statistics, priors="uniform"))
    assert digest(model) == FROZEN["priors"]
