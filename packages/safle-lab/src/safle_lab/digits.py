"""The handwritten digits of scikit-learn: the data of the demo and of experiments without files."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TEST_SAMPLES = 500


class Digits(NamedTuple):
    """Images of 8 x 8 pixels from 0 to 16, (samples, 64), and the digits that they show.

    >>> isinstance(load_digits(), Digits)
    True
    """

    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]


def load_digits(*, seed: int = 0) -> Digits:
    """The digits, with the same share of every class in both splits.

    >>> load_digits().train.shape, load_digits().test.shape
    ((1297, 64), (500, 64))
    """
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    pixels, labels = load(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        pixels.astype(np.float32),
        labels,
        test_size=TEST_SAMPLES,
        random_state=seed,
        stratify=labels,
    )
    return Digits(train, train_labels, test, test_labels)
