"""Shared by all tests: data sets of every encoder kind, and the paper's formulas in plain Python.

The reference shares no code with safle but the permutation, which the paper leaves open.
Strategies and helpers are session fixtures, so that Hypothesis tests can use them.
"""

from __future__ import annotations

import math
import runpy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_digits

from safle.encoders import (
    EmbeddingEncoder,
    Encoder,
    HybridEncoder,
    LinearEncoder,
    RandomFeatureEncoder,
)
from safle.encoders.bucketing import BinaryOverlap, Bucketing, Integer, OneHot
from safle.encoders.shuffle import permutation
from safle.model import Model
from safle.solver import solve
from safle.statistics import Statistics, count


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


# --- The paper's formulas, one value at a time ---------------------------------------


def reference_digits(bucketing: Bucketing, thresholds: list[float], value: float) -> list[int]:
    """B_1(x)..B_L(x) of one value."""
    if isinstance(bucketing, BinaryOverlap):
        return [int(value > threshold) for threshold in thresholds]
    borders = [-np.inf, *thresholds, np.inf]
    inside = [int(low < value <= high) for low, high in pairwise(borders)]
    return [inside.index(1)] if isinstance(bucketing, Integer) else inside


def reference_symbols(encoder: EmbeddingEncoder, row: np.ndarray) -> list[int]:
    """idx_1..idx_E of one sample."""
    bucketing, columns = encoder.bucketing, encoder.thresholds.T.tolist()
    k = bucketing.buckets if isinstance(bucketing, Integer) else 2
    digits = [
        digit
        for value, thresholds in zip(row.tolist(), columns, strict=True)
        for digit in reference_digits(bucketing, thresholds, value)
    ]
    shuffled = [digits[place] for place in permutation(len(digits), encoder.seed)]
    size = encoder.group_size
    groups = [shuffled[at : at + size] for at in range(0, len(shuffled), size)]
    return [sum(digit * k**i for i, digit in enumerate(group)) for group in groups]


def reference_fixed_point(encoder: LinearEncoder, row: np.ndarray) -> list[int]:
    """Standardised values times 2^b, rounded half to even, and the constant 1 times 2^b."""
    scale = 2**encoder.fraction_bits
    values = row.tolist()
    if encoder.transform == "square-root":
        values = [math.copysign(math.sqrt(abs(value)), value) for value in values]
    standardised = [
        (value - mean) / deviation
        for value, mean, deviation in zip(
            values, encoder.mean.tolist(), encoder.deviation.tolist(), strict=True
        )
    ]
    return [max(-32_767, min(32_767, round(scale * z))) for z in standardised] + [scale]


def reference_hash(position: int, seed: int) -> int:
    """SplitMix64 of the position after ``seed``."""
    mask = 2**64 - 1
    state = (seed + 0x9E3779B97F4A7C15 * (position + 1)) & mask
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
    return state ^ (state >> 31)


def reference_random(encoder: RandomFeatureEncoder, row: np.ndarray) -> list[int]:
    """Rectified signed sums of the features with the smallest hashes, in few bits."""
    fixed, dim = reference_fixed_point(encoder.linear, row)[:-1], encoder.feature_dim
    root = round(math.log2(math.sqrt(encoder.terms)))
    step = Fraction(4 * 2 ** (encoder.linear.fraction_bits + root), 2**encoder.bits)
    codes = []
    for unit in range(encoder.count):
        keys = [reference_hash(unit * dim + f, encoder.seed) for f in range(dim)]
        chosen = sorted(range(dim), key=keys.__getitem__)[: encoder.terms]
        total = sum(-fixed[f] if keys[f] % 2 else fixed[f] for f in chosen)
        rounded = math.floor(max(0, total) / step + Fraction(1, 2))
        codes.append(min(2**encoder.bits - 1, rounded))
    return [*codes, 2 ** (encoder.bits - 1)]


def reference_row(encoder: Encoder, row: np.ndarray) -> tuple[list[int], list[int]]:
    """One-hot columns and dense columns of Phi for one sample."""
    onehot: list[int] = []
    dense: list[int] = []
    for part in getattr(encoder, "parts", [encoder]):
        if isinstance(part, LinearEncoder):
            dense += reference_fixed_point(part, row)
            continue
        if isinstance(part, RandomFeatureEncoder):
            dense += reference_random(part, row)
            continue
        symbols = reference_symbols(part, row)
        k = part.bucketing.buckets if isinstance(part.bucketing, Integer) else 2
        functions = 1 if isinstance(part.bucketing, Integer) else part.bucketing.buckets
        digits = part.feature_dim * functions
        for expert, symbol in enumerate(symbols):
            size = k ** min(part.group_size, digits - expert * part.group_size)
            onehot += [int(symbol == value) for value in range(size)]
    return onehot, dense


def dense_phi(encoder: Encoder, features: np.ndarray) -> np.ndarray:
    """Phi over the whole code space, seen or not; int64, (samples, embedding_dim)."""
    rows = [[*onehot, *dense] for onehot, dense in (reference_row(encoder, x) for x in features)]
    return np.array(rows, np.int64).reshape(len(rows), -1 if rows else encoder.layout.embedding_dim)


# --- Strategies ------------------------------------------------------------------------

VALUES = st.integers(-8, 8).map(lambda quarter: quarter / 4)
"""Few distinct values, so that thresholds are met exactly and codes repeat."""

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
NAMES = st.one_of(
    st.lists(st.integers(-3, 10**12), min_size=1, max_size=4, unique=True),
    st.lists(WORDS, min_size=1, max_size=4, unique=True),
)


@st.composite
def embeddings(draw: Any, feature_dim: int) -> EmbeddingEncoder:
    kind = draw(st.sampled_from([Integer, OneHot, BinaryOverlap]))
    bucketing = kind(draw(st.integers(2, 5)))
    digits = feature_dim * bucketing.functions
    most = min(digits, 8 if bucketing.radix == 2 else 4)
    thresholds = draw(arrays(np.float64, (bucketing.threshold_count, feature_dim), elements=VALUES))
    return EmbeddingEncoder(
        np.sort(thresholds, axis=0),
        bucketing=bucketing,
        group_size=draw(st.integers(1, most)),
        seed=draw(st.integers(0, 2**64 - 1)),
    )


@st.composite
def linears(draw: Any, feature_dim: int) -> LinearEncoder:
    positive = st.sampled_from([0.001, 0.3, 1.0, 7.0])
    return LinearEncoder(
        draw(arrays(np.float64, feature_dim, elements=VALUES)),
        draw(arrays(np.float64, feature_dim, elements=positive)),
        fraction_bits=draw(st.integers(0, 12)),
        transform=draw(st.sampled_from(["none", "square-root"])),
    )


@st.composite
def randoms(draw: Any, feature_dim: int) -> RandomFeatureEncoder:
    linear = draw(linears(feature_dim))
    return RandomFeatureEncoder(
        linear,
        count=draw(st.integers(1, 6)),
        terms=draw(st.sampled_from([terms for terms in (1, 4) if terms <= feature_dim])),
        bits=draw(st.integers(2, min(8, 2 + linear.fraction_bits))),
        seed=draw(st.integers(0, 2**64 - 1)),
    )


@st.composite
def any_encoders(draw: Any) -> Encoder:
    feature_dim = draw(st.integers(1, 4))
    one = st.one_of(embeddings(feature_dim), linears(feature_dim), randoms(feature_dim))
    parts = draw(st.lists(one, min_size=1, max_size=3))
    return parts[0] if len(parts) == 1 else HybridEncoder(parts)


@st.composite
def any_data_sets(draw: Any, least: int = 0, most: int = 24) -> DataSet:
    encoder = draw(any_encoders())
    size = draw(st.integers(least, most))
    features = draw(arrays(np.float64, (size, encoder.feature_dim), elements=VALUES))
    names = draw(NAMES)
    labels = draw(st.lists(st.sampled_from(names), min_size=size, max_size=size))
    return DataSet(encoder, features, np.array(labels, np.array(names).dtype))


@pytest.fixture(scope="session")
def encoders() -> st.SearchStrategy[Encoder]:
    """Encoders of every kind."""
    return any_encoders()


@pytest.fixture(scope="session")
def data_sets() -> Callable[..., st.SearchStrategy[DataSet]]:
    """Data sets of every kind: ``data_sets(least, most)`` samples."""
    return any_data_sets


# --- Helpers ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def symbols_of() -> Callable[[EmbeddingEncoder, np.ndarray], list[int]]:
    return reference_symbols


@pytest.fixture(scope="session")
def phi() -> Callable[[Encoder, np.ndarray], np.ndarray]:
    return dense_phi


@pytest.fixture(scope="session")
def make_encoder() -> Callable[..., Encoder]:
    """``make_encoder(kind, feature_dim)``: a fixed encoder for values around 0."""

    def make(kind: str, feature_dim: int = 6, *, buckets: int = 3, group_size: int = 4) -> Encoder:
        levels = np.linspace(-1, 1, buckets)[:, None] + np.linspace(-0.2, 0.2, feature_dim)
        embedding = EmbeddingEncoder(
            levels, bucketing=BinaryOverlap(buckets), group_size=group_size, seed=7
        )
        linear = LinearEncoder(np.linspace(-0.1, 0.1, feature_dim), np.full(feature_dim, 1.25))
        hybrid = HybridEncoder([linear, embedding])
        units = RandomFeatureEncoder(linear, count=9, terms=4 if feature_dim >= 4 else 1)
        random = HybridEncoder([linear, units])
        kinds = {"embedding": embedding, "linear": linear, "hybrid": hybrid, "random": random}
        return kinds[kind]

    return make


@pytest.fixture(scope="session")
def make_data(make_encoder: Callable[..., Encoder]) -> Callable[..., DataSet]:
    """``make_data(kind, samples)``: Gaussian classes, seeded."""

    def make(kind: str = "embedding", samples: int = 120, **settings: Any) -> DataSet:
        encoder = make_encoder(kind, **settings)
        generator = np.random.default_rng(3)
        labels = generator.integers(0, 3, samples)
        centres = generator.normal(size=(3, encoder.feature_dim))
        noise = generator.normal(size=(samples, encoder.feature_dim))
        return DataSet(encoder, centres[labels] + noise, labels)

    return make


@pytest.fixture(scope="session")
def repeated() -> Callable[[Statistics, int], Statistics]:
    """The statistics of a data set whose every sample occurs ``times`` as often."""

    def repeat(statistics: Statistics, times: int) -> Statistics:
        return replace(
            statistics,
            gram=(statistics.gram.astype(object) * times).astype(statistics.gram.dtype),
            cross=statistics.cross * times,
            class_counts=statistics.class_counts * times,
        )

    return repeat


@pytest.fixture(scope="session")
def model_bytes() -> Callable[..., bytes]:
    """The saved model that statistics lead to."""

    def make(encoder: Encoder, statistics: Statistics, **options: Any) -> bytes:
        return Model(encoder, solve(statistics, **options)).to_bytes()

    return make


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's handwritten digits: features and labels."""
    features, labels = load_digits(return_X_y=True)
    return features, labels


@pytest.fixture(scope="session")
def tiny_onnx() -> Callable[..., Path]:
    """``tiny_onnx(path)``: a convolution, an activation and a mean, as an ONNX file.

    ``declared`` says how images are prepared; ``mixed`` adds the batch's mean to every image.
    """

    # By its path: tests cannot import each other.
    return runpy.run_path(str(Path(__file__).with_name("tiny_onnx.py")))["save_tiny_onnx"]


MOST_THREADS = min(2, numba.config.NUMBA_NUM_THREADS)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Tiny kernels on cores that parallel test runs share: waiting for a thread is 8x slower."""
    numba.set_num_threads(1)


@pytest.fixture(params=[1, MOST_THREADS])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """The test runs once for every number of kernel threads."""
    numba.set_num_threads(request.param)
    yield request.param
    numba.set_num_threads(1)
