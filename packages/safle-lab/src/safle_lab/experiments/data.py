"""The data of an experiment: a features file with train and test samples, or digits.

Hyper-parameters are chosen on `DataSet.held_out`, a part of the training samples.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle import demo
from safle.encoders import as_features
from safle.errors import TableError
from safle.tables import open_table

HELD_OUT_SEED = 20_240
"""Fixed, so that all methods are tuned on the same samples."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Features of training and test samples.

    Attributes
    ----------
    train, test : float32, (samples, feature_dim)
    train_labels, test_labels : int64, positions in class_names
    source : where they come from, in words
    texts : embeddings of texts that describe the classes, (class_count, texts, feature_dim)
    """

    name: str
    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    source: str
    texts: NDArray[np.float32] | None = None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all samples and labels."""
        return digest_of(self.train, self.train_labels, self.test, self.test_labels)

    @property
    def class_count(self) -> int:
        return len(self.class_names)

    def held_out(self, share: float) -> DataSet:
        """The training samples alone, with ``share`` of every class as the test set."""
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
        """The facts about the data that results record."""
        return {
            "name": self.name,
            "source": self.source,
            "fingerprint": self.fingerprint,
            "train_samples": len(self.train),
            "test_samples": len(self.test),
            "features": int(self.train.shape[1]),
            "classes": list(self.class_names),
        }


def digest_of(*arrays: NDArray[Any]) -> str:
    """SHA-256 of arrays, their shapes and types, in hexadecimal."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def load_features(path: Path, test: Path | None = None) -> DataSet:
    """A file with the splits ``train`` and ``test``, both labelled, or a file for each."""
    arrays: list[NDArray[Any]] = []
    for split, file in (("train", path), ("test", test or path)):
        table = open_table(file, split=None if test else split)
        if table.labels is None:
            raise TableError(
                f"{file}: the split {split!r} has no labels; expected '{split}_labels' beside "
                f"'{split}_features'"
            )
        arrays += [as_features(np.asarray(table.features, np.float32)), table.labels]
    train, train_labels, test_features, test_labels = arrays
    names, train_numbers = np.unique(train_labels, return_inverse=True)
    unknown = np.setdiff1d(test_labels, names)
    if len(unknown):
        raise TableError(
            f"{path}: test labels {unknown[:5].tolist()} occur in no training sample; expected "
            "the same classes in both splits"
        )
    test_numbers = np.searchsorted(names, test_labels)
    return DataSet(
        path.stem,
        train,
        train_numbers,
        test_features,
        test_numbers,
        tuple(str(name) for name in names),
        table.source or path.name,
    )


def describe_classes(data: DataSet, path: Path) -> DataSet:
    """The data with texts that describe their classes.

    Parameters
    ----------
    path : a table of the texts' embeddings, each labelled with the class it describes; the
        plainest text of a class ("a photo of a dog") stands before its others
    """
    table = open_table(path)
    if table.labels is None:
        raise TableError(f"{path}: no labels; expected the class that each text describes")
    rows = as_features(np.asarray(table.features, np.float32))
    labels = table.labels.astype(str)
    texts = [rows[labels == name] for name in data.class_names]
    unknown = np.setdiff1d(labels, data.class_names)
    counts = sorted({len(class_texts) for class_texts in texts})
    if len(unknown) or len(counts) > 1 or 0 in counts or rows.shape[1] != data.train.shape[1]:
        others = f", and of {unknown[:5].tolist()}, which no sample has" if len(unknown) else ""
        raise TableError(
            f"{path}: {' or '.join(map(str, counts))} texts for a class, of {rows.shape[1]} "
            f"features{others}; expected equally many for each of the {data.class_count} classes, "
            f"of {data.train.shape[1]} features"
        )
    return replace(data, texts=np.stack(texts))


def load_digits(*, pooled: bool = False) -> DataSet:
    """scikit-learn's handwritten digits, 64 pixels of 0 to 16.

    ``pooled``: averaged to 4 x 4 pixels, a poorer "backbone" of the same images.
    """
    split = demo.load_digits()
    data = DataSet(
        "digits",
        split.train,
        split.train_labels,
        split.test,
        split.test_labels,
        tuple(str(digit) for digit in range(10)),
        "scikit-learn's handwritten digits, 8 x 8 pixels",
    )
    if not pooled:
        return data
    return replace(
        data,
        name="digits-4x4",
        train=_pool(data.train),
        test=_pool(data.test),
        source="scikit-learn's handwritten digits, averaged to 4 x 4 pixels",
    )


def _pool(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    return pixels.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
