"""What an experiment runs on: a features file with train and test samples, or digits.

Hyper-parameters are chosen on `DataSet.held_out`, a part of the training samples.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.data.tables import open_table
from safle.encoders.features import as_features
from safle.errors import TableError

DIGITS_TEST_SAMPLES = 500
HELD_OUT_SEED = 20_240


@dataclass(frozen=True, eq=False)
class DataSet:
    """Features of training and test samples.

    Attributes
    ----------
    train, test : float32, (samples, feature_dim)
    train_labels, test_labels : int64, positions in class_names
    source : where they come from, in words
    """

    name: str
    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    source: str
    fingerprint: str

    @property
    def class_count(self) -> int:
        return len(self.class_names)

    def held_out(self, share: float) -> DataSet:
        """The training samples alone: ``share`` of every class takes the test set's place."""
        generator = np.random.default_rng(HELD_OUT_SEED)
        chosen = np.zeros(len(self.train), np.bool_)
        for number in range(self.class_count):
            members = generator.permutation(np.flatnonzero(self.train_labels == number))
            chosen[members[: max(1, round(share * len(members)))]] = True
        return replace(
            self,
            train=self.train[~chosen],
            train_labels=self.train_labels[~chosen],
            test=self.train[chosen],
            test_labels=self.train_labels[chosen],
        )

    def facts(self) -> dict[str, Any]:
        """What results say about their data."""
        return {
            "name": self.name,
            "source": self.source,
            "fingerprint": self.fingerprint,
            "train_samples": len(self.train),
            "test_samples": len(self.test),
            "features": int(self.train.shape[1]),
            "classes": list(self.class_names),
        }


def load_features(path: Path) -> DataSet:
    """A file with the splits ``train`` and ``test``, both labelled."""
    parts = {}
    for split in ("train", "test"):
        table = open_table(path, split=split)
        if table.labels is None:
            raise TableError(
                f"{path}: the split {split!r} has no labels; expected '{split}_labels' beside "
                f"'{split}_features'"
            )
        parts[split] = (as_features(np.asarray(table.features, np.float32)), table.labels)
    names = np.unique(parts["train"][1])
    unknown = np.setdiff1d(parts["test"][1], names)
    if len(unknown):
        raise TableError(
            f"{path}: test labels {unknown[:5].tolist()} occur in no training sample; expected "
            "the same classes in both splits"
        )
    return _data_set(
        path.stem,
        *(
            array
            for features, labels in parts.values()
            for array in (features, np.searchsorted(names, labels))
        ),
        names=tuple(str(name) for name in names),
        source=table.source or path.name,
    )


def load_digits() -> DataSet:
    """scikit-learn's handwritten digits, 64 pixels of 0 to 16."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    pixels, labels = load(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        pixels.astype(np.float32),
        labels.astype(np.int64),
        test_size=DIGITS_TEST_SAMPLES,
        random_state=0,
        stratify=labels,
    )
    return _data_set(
        "digits",
        train,
        train_labels,
        test,
        test_labels,
        names=tuple(str(digit) for digit in range(10)),
        source="scikit-learn's handwritten digits, 8 x 8 pixels",
    )


def pooled_digits() -> DataSet:
    """The digits at 4 x 4 pixels: a poorer "backbone" of the same images."""
    whole = load_digits()

    def pooled(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        return pixels.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(len(pixels), 16)

    return _data_set(
        "digits-4x4",
        pooled(whole.train),
        whole.train_labels,
        pooled(whole.test),
        whole.test_labels,
        names=whole.class_names,
        source="scikit-learn's handwritten digits, averaged to 4 x 4 pixels",
    )


def _data_set(name: str, *arrays: NDArray[Any], names: tuple[str, ...], source: str) -> DataSet:
    train, train_labels, test, test_labels = (np.ascontiguousarray(array) for array in arrays)
    digest = hashlib.sha256()
    for array in (train, train_labels.astype(np.int64), test, test_labels.astype(np.int64)):
        digest.update(f"{array.shape} {array.dtype}\n".encode())
        digest.update(array.tobytes())
    return DataSet(
        name,
        train,
        train_labels.astype(np.int64),
        test,
        test_labels.astype(np.int64),
        names,
        source,
        digest.hexdigest(),
    )
