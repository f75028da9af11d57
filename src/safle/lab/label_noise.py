"""Label noise: some labels are wrong, at a declared rate, for experiments and tests."""

import numpy as np
from numpy.typing import NDArray

from safle.errors import InvalidInput

KINDS = ("symmetric", "pair-flip")


def with_noise(
    labels: NDArray[np.int64],
    *,
    kind: str,
    rate: float,
    class_count: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Labels of which each is wrong with probability ``rate``.

    Parameters
    ----------
    labels : int64, (samples,), in 0..class_count-1
    kind : "symmetric": a wrong label is any of the others, equally likely; "pair-flip":
        it is the next class, the last one's being the first
    rate : rho, 0 to 1
    class_count : at least 2
    generator : the only source of randomness

    Returns
    -------
    noisy : int64, (samples,)
    """
    if kind not in KINDS:
        raise InvalidInput(f"label noise {kind!r}; expected one of {', '.join(KINDS)}")
    if not 0.0 <= rate <= 1.0:
        raise InvalidInput(f"a noise rate of {rate}; expected 0 to 1")
    if class_count < 2:
        raise InvalidInput("labels of a single class cannot be wrong; expected at least 2 classes")
    wrong = generator.random(len(labels)) < rate
    steps = generator.integers(1, class_count, len(labels)) if kind == "symmetric" else 1
    return np.where(wrong, (labels + steps) % class_count, labels)
