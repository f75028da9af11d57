"""Encoders and data sets of every kind in the registry: strategies, and fixed ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from safle import HEADS, Contract, Encoder, Model, Statistics, count, kinds, make_encoder, solve
from safle.basics.settings import Setting, describe
from safle.encoders.calibration import Calibration
from safle.encoders.registry import kind_named
from safle.errors import SettingsError
from safle.statistics.gram import Triangle

LINEAR_HEADS = [name for name in HEADS if name != "quadratic"]
"""Heads whose model is weights alone."""
KINDS = [*kinds()]
"""Every kind there is, the default first."""
COUNTED = " by class"
BY_CLASS = [
    name + COUNTED for name, kind in kinds().items() if "by_class" in describe(kind.settings_type)
]
"""Names that `fixed_encoder` takes for encoders that count by class."""

VALUES = st.integers(-8, 8).map(lambda quarter: quarter / 4)
"""Few distinct values, so that thresholds are met exactly and codes repeat."""

VALUES_AND_GAPS = st.one_of(VALUES, VALUES, VALUES, st.just(np.nan))

LARGEST = {"buckets": 5, "group_size": 8, "terms": 4}
MOST_COLUMNS = 1_000
"""Limits of encoders that are drawn: examples stay small."""

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
NAMES = st.one_of(
    st.lists(st.integers(-3, 10**12), min_size=1, max_size=4, unique=True),
    st.lists(WORDS, min_size=1, max_size=4, unique=True),
)


@dataclass(frozen=True)
class DataSet:
    """Labelled features and the encoder that counts them."""

    encoder: Encoder
    features: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.features)

    def part(self, chosen: Any) -> DataSet:
        return DataSet(self.encoder, self.features[chosen], self.labels[chosen])

    def count(self) -> Statistics:
        return count(self.encoder, self.features, self.labels)


def random_calibration(feature_dim: int, seed: int) -> Calibration:
    """Thresholds that `VALUES` meet exactly, and deviations of all magnitudes."""

    def thresholds(count: int) -> np.ndarray:
        generator = np.random.default_rng(seed)
        return np.sort(generator.integers(-8, 9, (count, feature_dim)) / 4, axis=0)

    generator = np.random.default_rng(seed + 1)
    mean = generator.integers(-8, 9, feature_dim) / 4
    deviation = generator.choice([0.001, 0.3, 1.0, 7.0], feature_dim)
    sample = mean + deviation * generator.integers(-8, 9, (9, feature_dim)) / 4
    return Calibration(Contract(feature_dim), thresholds, mean, deviation, sample=sample)


def fixed_calibration(feature_dim: int) -> Calibration:
    """For values around 0, a little different for every feature."""

    def thresholds(count: int) -> np.ndarray:
        return np.linspace(-1, 1, count)[:, None] + np.linspace(-0.2, 0.2, feature_dim)

    mean, deviation = np.linspace(-0.1, 0.1, feature_dim), np.full(feature_dim, 1.25)
    sample = np.random.default_rng(1).standard_normal((60, feature_dim)) * deviation + mean
    return Calibration(Contract(feature_dim), thresholds, mean, deviation, sample=sample)


def suiting_features(feature_dim: int, samples: int, generator: np.random.Generator) -> np.ndarray:
    """Gaussian features with the moments of `fixed_calibration`."""
    suiting = fixed_calibration(feature_dim)
    gaussian = generator.standard_normal((samples, feature_dim))
    return gaussian * suiting.deviation + suiting.mean


@st.composite
def encoders(draw: Any, kind: str | None = None) -> Encoder:
    """Small encoders of one kind, or of every kind."""
    seed, feature_dim = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 4))
    chosen = draw(st.sampled_from([*kinds()])) if kind is None else kind
    return draw_encoder(chosen, random_calibration(feature_dim, seed), np.random.default_rng(seed))


def draw_encoder(kind: str, calibration: Calibration, generator: np.random.Generator) -> Encoder:
    """A small encoder with settings at random: such as do not go together are drawn again."""
    declared = describe(kind_named(kind).settings_type)
    while True:
        drawn = {name: draw_value(setting, generator) for name, setting in declared.items()}
        try:
            encoder = make_encoder(calibration, kind, **drawn)
        except SettingsError:
            continue
        if encoder.layout.dim <= MOST_COLUMNS:
            return encoder


def draw_value(setting: Setting, generator: np.random.Generator) -> Any:
    """One of the choices, or a small number."""
    if setting.choices:
        return setting.choices[generator.integers(len(setting.choices))]
    if setting.type is bool:
        return bool(generator.integers(2))
    least, largest = setting.minimum or 0, LARGEST.get(setting.name, setting.maximum)
    if setting.name == "seed":
        return int(generator.integers(largest))
    return int(generator.integers(least, least + 1 + min(12, (largest or least + 12) - least)))


@st.composite
def data_sets(draw: Any, least: int = 0, most: int = 24, kind: str | None = None) -> DataSet:
    """Data sets of ``least`` to ``most`` samples."""
    encoder = draw(encoders(kind))
    size = draw(st.integers(least, most))
    features = draw(arrays(np.float64, (size, encoder.feature_dim), elements=VALUES))
    names = draw(NAMES)
    labels = draw(st.lists(st.sampled_from(names), min_size=size, max_size=size))
    return DataSet(encoder, features, np.array(labels, np.array(names).dtype))


def declared_settings(kind: str, **wanted: Any) -> dict[str, Any]:
    """Those of ``wanted`` that a kind has."""
    declared = describe(kind_named(kind).settings_type)
    return {name: value for name, value in wanted.items() if name in declared}


def fixed_encoder(
    kind: str, feature_dim: int = 6, *, buckets: int = 3, group_size: int = 4
) -> Encoder:
    """A small encoder of a kind, always the same."""
    kind, by_class, _ = kind.partition(COUNTED)
    small = {"buckets": buckets, "group_size": group_size, "units": 9, "products": 9, "seed": 7}
    small |= {"by_class": True} if by_class else {}
    return make_encoder(fixed_calibration(feature_dim), kind, **declared_settings(kind, **small))


def publishable_encoder(kind: str, calibration: Calibration) -> Encoder:
    """A very small encoder of a kind, whose sums may be published with noise."""
    small = {"buckets": 2, "group_size": 1, "units": 9, "products": 9, "norm_clip": 1}
    return make_encoder(calibration, kind, **declared_settings(kind, **small))


TABLE_KINDS = [kind for kind in KINDS if fixed_encoder(kind).layout.experts]
"""The kinds that have experts."""


def fixed_data(kind: str = KINDS[0], samples: int = 120, **settings: Any) -> DataSet:
    """Gaussian classes, always the same."""
    encoder = fixed_encoder(kind, **settings)
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 3, samples)
    centres = generator.normal(size=(3, encoder.feature_dim))
    noise = generator.normal(size=(samples, encoder.feature_dim))
    return DataSet(encoder, centres[labels] + noise, labels)


def repeated(statistics: Statistics, times: int) -> Statistics:
    """The statistics of a data set whose every sample occurs ``times`` as often."""

    entries = (statistics.gram.packed.astype(object) * times).astype(np.int64)
    return replace(
        statistics,
        gram=Triangle.narrow(entries, statistics.dim),
        cross=statistics.cross * times,
        class_counts=statistics.class_counts * times,
        by_class=tuple(repeated(part, times) for part in statistics.by_class),
    )


def model_bytes(encoder: Encoder, statistics: Statistics, **options: Any) -> bytes:
    """The saved model that statistics lead to."""
    return Model.of(encoder, solve(statistics, **options)).to_bytes()
