"""The data of an experiment: train and test samples, of features files (`loading`) or digits.

Hyper-parameters are chosen on `DataSet.held_out`, a part of the training samples.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import SettingsError
from safle_lab import digits

REAL = "real"
"""The scenario in which clients hold what they really hold."""
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
    clients : int64, the number of the client that really holds each training sample, if known
    client_names : the real clients' names, in the order of their numbers
    test_clients : int64, the number of the client from which each test sample is, if known
    """

    name: str
    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    source: str
    texts: NDArray[np.float32] | None = None
    clients: NDArray[np.int64] | None = None
    client_names: tuple[str, ...] = ()
    test_clients: NDArray[np.int64] | None = None

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
            clients=None if self.clients is None else self.clients[~chosen],
            test_clients=None,
        )

    def real_parts(self) -> list[NDArray[np.int64]]:
        """The training samples of each real client."""
        if self.clients is None:
            raise SettingsError(
                f"{self.name}: the scenario {REAL!r}, but nothing says which client holds what; "
                "expected --clients COLUMN, or a features file of each client"
            )
        return [np.flatnonzero(self.clients == number) for number in range(self.client_count)]

    @property
    def client_count(self) -> int:
        """How many real clients there are; 0 if that is not known."""
        return 0 if self.clients is None else int(self.clients.max()) + 1

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


def load_digits(*, pooled: bool = False) -> DataSet:
    """scikit-learn's handwritten digits, 64 pixels of 0 to 16.

    ``pooled``: averaged to 4 x 4 pixels, a poorer "backbone" of the same images.
    """
    split = digits.load_digits()
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
