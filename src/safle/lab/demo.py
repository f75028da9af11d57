"""The main job on scikit-learn's digits: 100 clients, one round, through real files.

Every client's features lie in a file of its own; it is counted into a statistics file,
the files are summed, the sum is solved. A linear encoder (AFL), the paper's (SAFLe) and
our default go through the same steps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from safle._internal import atomic
from safle.data.tables import open_table, write_table
from safle.encoders import EmbeddingEncoder, Encoder, LinearEncoder
from safle.encoders.calibration import DeclaredRange
from safle.encoders.default import default_encoder
from safle.federation.files import sum_files
from safle.lab.partitions import class_mix, dirichlet
from safle.model import Model, pictures
from safle.solver import RidgeCurve, solve
from safle.solver.facade import Head
from safle.statistics import Accumulator
from safle.wire import read_statistics, write_statistics

TEST_SAMPLES = 500
INK = DeclaredRange(0, 16, 64)
"""A digit is 8 x 8 pixels of 0 to 16: a range everybody knows without seeing data."""

Progress = Callable[[float], None]
"""Called with the finished share, 0 to 1."""


@dataclass(frozen=True)
class Result:
    """One method's line of the table."""

    method: str
    accuracy: float
    rounds: int
    megabytes_per_client: float
    seconds: float
    ridge: float
    digest: str
    digests: dict[str, str]

    @property
    def same_model(self) -> bool:
        """Whether every way of splitting the data gave the same bytes."""
        return set(self.digests.values()) == {self.digest}


def run_demo(
    output: Path,
    *,
    clients: int = 100,
    alpha: float = 0.1,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Result]:
    """Run the demo; pictures, results and all files of the federation go to ``output``."""
    pixels, digits = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        pixels.astype(np.float32),
        digits,
        test_size=TEST_SAMPLES,
        random_state=seed,
        stratify=digits,
    )
    generator = np.random.default_rng(seed)
    parts = dirichlet(train_labels, clients=clients, alpha=alpha, generator=generator)
    folder = output / "federation"
    folder.mkdir(parents=True, exist_ok=True)
    tables = _write_clients(folder, train, train_labels, parts)
    everything = folder / "train.npz"
    write_table(everything, train, train_labels)
    write_table(folder / "test.npz", test, test_labels)

    results = []
    methods: list[tuple[str, Encoder, Head]] = [
        ("AFL (linear)", LinearEncoder.calibrated(INK), "least-squares"),
        ("SAFLe (the paper's)", EmbeddingEncoder.calibrated(INK), "least-squares"),
        ("safle's default", default_encoder(INK), "auto"),
    ]
    for method, encoder, head in methods:
        place = folder / encoder.kind
        place.mkdir(exist_ok=True)
        result, model, curve = _federate(method, encoder, head, place, tables, everything)
        predicted = model.predict(test)
        accuracy = float((predicted == test_labels).mean())
        results.append(Result(accuracy=accuracy, **result))
        if progress is not None:
            progress(len(results) / len(methods))
    names = [str(name) for name in model.class_names]
    pictures.class_mix(class_mix(train_labels, parts), output / "class-mix.png")
    pictures.ridge_curve(curve, output / "ridge-curve.png")
    pictures.confusion(confusion_matrix(test_labels, predicted), names, output / "confusion.png")
    settings = {"clients": clients, "alpha": alpha, "seed": seed, "test_samples": TEST_SAMPLES}
    content = {"settings": settings, "results": [asdict(result) for result in results]}
    atomic.write_text(output / "results.json", json.dumps(content, indent=2) + "\n")
    return results


def _write_clients(
    folder: Path,
    features: NDArray[Any],
    labels: NDArray[Any],
    parts: Sequence[NDArray[np.int64]],
) -> list[Path]:
    tables = []
    for client, part in enumerate(parts):
        path = folder / f"client-{client:03d}.npz"
        write_table(path, features[part], labels[part])
        tables.append(path)
    return tables


def _count_file(encoder: Encoder, table: Path, output: Path) -> Path:
    total = Accumulator(encoder)
    for features, labels in open_table(table).batches(1024):
        assert labels is not None, "the demo writes every table with its labels"
        total.add_samples(features, labels)
    write_statistics(output, total.snapshot())
    return output


def _federate(
    method: str,
    encoder: Encoder,
    head: Head,
    place: Path,
    tables: Sequence[Path],
    everything: Path,
) -> tuple[dict[str, Any], Model, RidgeCurve]:
    """One round of one method, and the same data split in other ways."""
    encoder.save(place / "encoder.safetensors")
    begin = time.perf_counter()
    sent = [_count_file(encoder, table, place / f"{table.stem}.stats") for table in tables]
    model, curve = _sum_and_solve(encoder, head, sent, place / "total")
    seconds = time.perf_counter() - begin
    alone = _count_file(encoder, everything, place / "train.stats")
    pooled, _ = _sum_and_solve(encoder, head, [alone], place / "pooled")
    shuffled = [sent[i] for i in np.random.default_rng(1).permutation(len(sent))]
    reordered, _ = _sum_and_solve(encoder, head, shuffled, place / "shuffled")
    fields = {
        "method": method,
        "rounds": 1,
        "megabytes_per_client": float(np.mean([path.stat().st_size for path in sent])) / 1e6,
        "seconds": seconds,
        "ridge": model.ridge,
        "digest": model.digest,
        "digests": {
            f"{len(sent)} clients": model.digest,
            "1 client": pooled.digest,
            f"{len(sent)} clients, shuffled": reordered.digest,
        },
    }
    return fields, model, curve


def _sum_and_solve(
    encoder: Encoder, head: Head, sent: Sequence[Path], base: Path
) -> tuple[Model, RidgeCurve]:
    total = base.with_suffix(".stats")
    sum_files(sent, total, fingerprint=encoder.fingerprint)
    statistics = read_statistics(total)
    solution = solve(statistics, head=head)
    model = Model(encoder, solution)
    model.save(base.with_suffix(".safetensors"))
    assert solution.curve is not None, "ridge='auto' keeps its curve"
    return model, solution.curve
