"""Accuracy under differential privacy: which encoder for which epsilon, on held-out samples.

The encoder is calibrated by public samples that are not counted; all others are counted, noise
is added to the sum, and the model is solved from that alone. `accuracy` has OpenDP's noise; the
comparison of encoders has rounded normal noise of the same scales, which is drawn a hundred
times faster and, at these scales, hardly differs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.report import Bar, Outcome, note
from benchmarks.settings import Settings
from safle import (
    Encoder,
    LinearEncoder,
    Model,
    Statistics,
    count,
    make_encoder,
    public_sample,
    solve,
)
from safle_private.noise import Draw, draw_discrete_gaussian, plan_noise, publish

EPSILONS, DELTA = (1, 3, 8), 1e-5
BARS = {"1": 67.0, "3": 69.0, "8": 69.7}
PUBLIC, QUICK_PUBLIC = 1_000, 100
RUNS = 3


def run(settings: Settings) -> Outcome:
    """Every encoder at every epsilon."""
    dataset = data.load(settings)
    found = accuracy(settings, dataset)
    public = _public(settings, dataset)
    rows = []
    for name, encoder in _encoders(public).items():
        note(f"private_accuracy: {name} ...")
        total = _count(encoder, dataset, len(public))
        figures = [_measure(encoder, total, dataset, e, normal_noise(e)) for e in EPSILONS]
        exact = 100 * dataset.accuracy(Model.of(encoder, solve(total)))
        rows.append([name, *(f"{figure:.1f}" for figure in (exact, *figures))])
    table = [["encoder", "exact", *(f"epsilon {epsilon}" for epsilon in EPSILONS)], *rows]
    return Outcome(
        figures={"accuracy": found},
        data=dataset.source,
        compared="nothing: noise differs from run to run",
        bars=bars(found),
        tables={"Accuracy in percent, delta 1e-5": table},
    )


def accuracy(settings: Settings, dataset: data.Dataset) -> dict[str, float]:
    """Percent of test samples by epsilon, of the encoder that is made to be published."""
    public = _public(settings, dataset)
    encoder = LinearEncoder.publishable(public_sample(public))
    total = _count(encoder, dataset, len(public))
    runs = 1 if settings.quick else RUNS
    found = {}
    for epsilon in EPSILONS:
        note(f"privacy: accuracy at epsilon {epsilon} ...")
        draws = [
            _measure(encoder, total, dataset, epsilon, draw_discrete_gaussian) for _ in range(runs)
        ]
        found[str(epsilon)] = float(np.mean(draws))
    return found


def bars(found: dict[str, float]) -> list[Bar]:
    """What `accuracy` must reach on the CIFAR-10 features."""
    return [Bar(f"privacy: accuracy at epsilon {e}", found[e], bar) for e, bar in BARS.items()]


def normal_noise(seed: int) -> Draw:
    """Rounded normal noise."""
    generator = np.random.default_rng(seed)
    return lambda size, scale: np.rint(generator.normal(0, scale, size)).astype(np.int64)


def _public(settings: Settings, dataset: data.Dataset) -> NDArray[np.float32]:
    return dataset.train[: QUICK_PUBLIC if settings.quick else PUBLIC]


def _encoders(public: NDArray[np.float32]) -> dict[str, Encoder]:
    sample = public_sample(public)
    clip = LinearEncoder.publishable(sample).settings.norm_clip
    return {
        "linear, square roots, clipped (--publishable)": LinearEncoder.publishable(sample),
        "linear, clipped": LinearEncoder.publishable(sample, transform="none"),
        "random features, 512 units, clipped": make_encoder(sample, units=512, norm_clip=clip),
        "embedding, 2 buckets": make_encoder(sample, "embedding", buckets=2, group_size=1),
    }


def _count(encoder: Encoder, dataset: data.Dataset, public: int) -> Statistics:
    return count(encoder, dataset.train[public:], dataset.train_labels[public:])


def _measure(
    encoder: Encoder, total: Statistics, dataset: data.Dataset, epsilon: float, draw: Draw
) -> float:
    classes = sorted({*dataset.train_labels.tolist()})
    noisy = publish(total, plan_noise(encoder.layout, epsilon, DELTA), classes, draw=draw)
    return 100 * dataset.accuracy(Model.of(encoder, solve(noisy)))
