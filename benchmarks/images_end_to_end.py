"""End to end: JPEG files -> features -> 100 clients -> one round -> test accuracy.

Every client holds its own share of the training images, by a Dirichlet partition over
classes. Thresholds come from the sum of the clients' histograms, so no image is public. The
federation's statistics must equal those of all images in one place, byte for byte.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import pictures
from benchmarks.report import Disagreement, Outcome, note
from benchmarks.settings import Settings
from safle import (
    EmbeddingEncoder,
    Grid,
    Histogram,
    LinearEncoder,
    Model,
    Statistics,
    count,
    solve,
    sum_statistics,
)
from safle.demo import dirichlet
from safle.encoders import Encoder
from safle.tables import open_table
from safle.wire import decode_statistics, encode_statistics
from safle_images.backbones import DEFAULT, load_backbone, write_features
from safle_images.readers import open_images

CLIENTS, ALPHA, SEED = 100, 0.1, 0
QUICK_CLIENTS, QUICK_TRAIN, QUICK_TEST = 4, 40, 20
GRID = Grid(0.0, 6.0, 600)
"""The backbone's last activation clips at 6, and so do means of it."""
HEADS = ("least-squares", "discriminant")


@dataclass(frozen=True)
class Split:
    """Features, float32, (samples, feature_dim), and the names of their classes."""

    features: NDArray[np.float32]
    labels: NDArray[Any]
    source: str


def run(settings: Settings) -> Outcome:
    """Accuracy of every encoder and head, over the same features and clients."""
    clients = QUICK_CLIENTS if settings.quick else CLIENTS
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        found = pictures.find(place, train=QUICK_TRAIN, test=QUICK_TEST, real=not settings.quick)
        begun = time.perf_counter()
        train, test = (_features(found.path, split, place) for split in ("train", "test"))
        seconds = time.perf_counter() - begun
    generator = np.random.default_rng(SEED)
    parts = dirichlet(train.labels, clients=clients, alpha=ALPHA, generator=generator)
    rows = [["encoder", "columns", *HEADS, "kB per client"]]
    figures: dict[str, Any] = {"backbone": DEFAULT, "clients": clients, "alpha": ALPHA}
    figures |= {"train": len(train.labels), "test": len(test.labels), "feature_seconds": seconds}
    for name, encoder in _encoders(train, parts).items():
        note(f"{name} ...")
        accuracies, size = _federate(encoder, train, test, parts)
        figures[name] = {**accuracies, "bytes_a_client": size}
        shown = [f"{accuracies[head]:.4f}" for head in HEADS]
        rows.append([name, f"{encoder.layout.embedding_dim:,}", *shown, f"{size / 1e3:.0f}"])
    compared = "the federation's statistics and those of all images in one place"
    title = f"{clients} clients, one round, {len(test.labels)} test images"
    return Outcome(figures, found.source, compared, tables={title: rows})


def _features(images: Path, split: str, folder: Path) -> Split:
    note(f"features of {split} ...")
    output = folder / f"{split}.safetensors"
    write_features(open_images(images, split=split), load_backbone(DEFAULT), output)
    table = open_table(output)
    assert table.labels is not None, "class folders name their images' classes"
    return Split(np.asarray(table.features), table.labels, table.source)


def _encoders(train: Split, parts: list[NDArray[np.int64]]) -> dict[str, Encoder]:
    histograms = [Histogram.of(train.features[part], GRID) for part in parts]
    total = sum(histograms[1:], histograms[0])
    linear = LinearEncoder.calibrated(total)
    pairs = EmbeddingEncoder.calibrated(total, buckets=4, group_size=2)
    fours = EmbeddingEncoder.calibrated(total, buckets=2, group_size=4)
    plain: dict[str, Encoder] = {
        "linear (AFL)": linear,
        "SAFLe L=4 G=2": pairs,
        "SAFLe L=2 G=4": fours,
    }
    return {name: encoder.with_source(train.source) for name, encoder in plain.items()}


def _federate(
    encoder: Encoder, train: Split, test: Split, parts: list[NDArray[np.int64]]
) -> tuple[dict[str, float], float]:
    """Accuracy by head, and the mean bytes that a client sends."""
    sizes: list[int] = []

    def received() -> Any:
        for part in parts:
            data = encode_statistics(count(encoder, train.features[part], train.labels[part]))
            sizes.append(len(data))
            yield decode_statistics(data, space=encoder.space)

    total: Statistics = sum_statistics(received())
    if total != count(encoder, train.features, train.labels):
        raise Disagreement("images_end_to_end: the sum differs from all images in one place")
    accuracies = {}
    for head in HEADS:
        solution = solve(total, head=head)
        predicted = Model(encoder, solution).predict(test.features)
        accuracies[head] = float((predicted == test.labels).mean())
    return accuracies, float(np.mean(sizes))
