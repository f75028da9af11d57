"""Features to run on: CIFAR-10 through ResNet-18 where the file is there, else generated.

Generated features have the same shape, type and signs, and a similar correlation: a
few dozen strong latent directions, class means among them, and noise; pooled ReLU
outputs are positive and skewed, so a softplus follows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from benchmarks.settings import Settings
from safle import EmbeddingEncoder, Encoder, Model, make_encoder, public_sample

PUBLIC_SAMPLES = 5_000
"""Samples whose quantiles make the thresholds."""
CLASSES, CLASS_SPREAD, LATENT, LATENT_DECAY = 10, 0.5, 256, 0.33
QUICK_SHAPE, FULL_SHAPE = (600, 200, 64), (50_000, 10_000, 512)


@dataclass(frozen=True)
class Dataset:
    """Features and labels.

    Attributes
    ----------
    train, test : float32, (samples, feature_dim)
    train_labels, test_labels : int64, (samples,)
    source : "cifar10" or "generated"
    """

    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    source: str

    def head(self, samples: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The first training samples and their labels."""
        return self.train[:samples], self.train_labels[:samples]

    def accuracy(self, model: Model) -> float:
        """Share of the test samples that the model gets right."""
        return float((model.predict(self.test) == self.test_labels).mean())


def load(settings: Settings) -> Dataset:
    """The real features if their file exists, else generated ones; tiny ones for quick runs."""
    if settings.quick:
        return generated(*QUICK_SHAPE)
    if not settings.features.exists():
        return generated(*FULL_SHAPE)
    with safe_open(settings.features, framework="numpy") as file:
        return Dataset(
            file.get_tensor("train_features").astype(np.float32),
            file.get_tensor("train_labels").astype(np.int64),
            file.get_tensor("test_features").astype(np.float32),
            file.get_tensor("test_labels").astype(np.int64),
            "cifar10",
        )


def generated(train: int, test: int, feature_dim: int) -> Dataset:
    """The same data on every machine: the seed is fixed."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, CLASSES, train + test)
    latent = min(LATENT, feature_dim)
    strength = np.arange(1, latent + 1, dtype=np.float32) ** -LATENT_DECAY
    means = CLASS_SPREAD * generator.standard_normal((CLASSES, latent), np.float32)
    hidden = generator.standard_normal((train + test, latent), np.float32)
    hidden = (hidden + means[labels]) * (strength / np.linalg.norm(strength))
    mixing = generator.standard_normal((latent, feature_dim), np.float32)
    noise = generator.standard_normal((train + test, feature_dim), np.float32)
    # float16 and back: the real file holds float16, and ties are part of its nature.
    rounded = np.logaddexp(0.0, hidden @ mixing + 0.5 * noise).astype(np.float16)
    features = rounded.astype(np.float32)
    return Dataset(features[:train], labels[:train], features[train:], labels[train:], "generated")


def embedding(
    features: NDArray[np.float32], *, buckets: int = 4, group_size: int = 4
) -> EmbeddingEncoder:
    """A thermometer encoder; the defaults make E=512, V=16 of 512 features."""
    return EmbeddingEncoder.calibrated(
        public_sample(features[:PUBLIC_SAMPLES]),
        buckets=buckets,
        group_size=group_size,
    )


def default(features: NDArray[np.float32], *, samples: int | None = PUBLIC_SAMPLES) -> Encoder:
    """The default encoder, with thresholds from the first ``samples``."""
    return make_encoder(public_sample(features[:samples]))
