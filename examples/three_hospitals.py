"""Three hospitals, nothing but files: each writes one, a server adds them up.

Every function runs on another machine; only the files named `.stats` travel.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_digits

import safle

features, labels = load_digits(return_X_y=True)
features, test = features[:1500], features[1500:]
labels, truth = labels[:1500], labels[1500:]


def agree(folder: Path) -> None:
    """Before the round: one encoder for everybody, from a range that all know."""
    encoder = safle.make_encoder(safle.declared_range(0, 16, feature_dim=64), units=256)
    encoder.save(folder / "encoder.safetensors")


def count_at(hospital: str, rows: np.ndarray, folder: Path) -> None:
    """At a hospital: its own samples become one file of counts."""
    encoder = safle.load_encoder(folder / "encoder.safetensors")
    counts = safle.count(encoder, features[rows], labels[rows])
    safle.write(folder / f"{hospital}.stats", counts)


def serve(folder: Path) -> safle.Model:
    """At the server: add, solve. It never sees a sample."""
    total = safle.sum_statistics(map(safle.read, sorted(folder.glob("*.stats"))))
    return safle.Model.of(safle.load_encoder(folder / "encoder.safetensors"), safle.solve(total))


def federate(shares: dict[str, np.ndarray]) -> safle.Model:
    """A whole round."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        agree(folder)
        for hospital, rows in shares.items():
            count_at(hospital, rows, folder)
            size = (folder / f"{hospital}.stats").stat().st_size
            print(f"  {hospital}: {len(rows)} samples, {size:,} bytes")
        return serve(folder)


# By digit, so that no hospital has seen what the others have.
by_digit = {
    name: np.flatnonzero(labels // 4 == i) for i, name in enumerate(("north", "east", "west"))
}
print("three hospitals, each with other digits:")
federated = federate(by_digit)
print("the same samples in one place:")
pooled = federate({"all": np.arange(len(labels))})
print(f"accuracy {(federated.predict(test) == truth).mean():.1%}")
print(f"digests  {federated.digest[:16]} and {pooled.digest[:16]}: the same model")
assert federated.digest == pooled.digest
