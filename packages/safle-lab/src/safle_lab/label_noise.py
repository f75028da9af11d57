"""Label noise: some labels are wrong, at a declared rate, for experiments and tests."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from safle.errors import InvalidInput

NoiseKind = Literal["symmetric", "pair-flip", "client-dependent"]
KINDS = get_args(NoiseKind)
LEAST_NOISY_RATE = 0.5
"""Least rate of wrong labels at a noisy client, if noise is client-dependent."""


def with_noise(
    labels: NDArray[np.int64],
    *,
    kind: str,
    rate: float,
    class_count: int,
    generator: np.random.Generator,
    parts: Sequence[NDArray[np.int64]] = (),
) -> NDArray[np.int64]:
    """Labels, each of them wrong with probability ``rate`` or with that of its client.

    Parameters
    ----------
    labels : int64, (samples,), in 0..class_count-1
    kind : "symmetric": a wrong label is any of the others, equally likely; "pair-flip":
        it is the next class, after the last class the first; "client-dependent": symmetric,
        and every client has a rate of its own
    rate : rho, 0 to 1; for client-dependent noise, the probability that a client is noisy. The
        rate of a noisy client is drawn from `LEAST_NOISY_RATE` to 1, as in "FedCorr" (Xu, Chen,
        Quek, Chong, CVPR 2022)
    class_count : at least 2
    generator : the only source of randomness
    parts : sample numbers, one array per client; for client-dependent noise

    Returns
    -------
    noisy : int64, (samples,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> with_noise(np.arange(3), kind="pair-flip", rate=1.0, class_count=3, generator=rng).tolist()
    [1, 2, 0]
    """
    if kind not in KINDS:
        raise InvalidInput(f"label noise {kind!r}; expected one of {', '.join(KINDS)}")
    if not 0.0 <= rate <= 1.0:
        raise InvalidInput(f"a noise rate of {rate}; expected 0 to 1")
    if class_count < 2:
        raise InvalidInput("labels of a single class cannot be wrong; expected at least 2 classes")
    rates: float | NDArray[np.float64] = rate
    if kind == "client-dependent":
        rates = rates_of_samples(len(labels), parts, rate, generator)
    wrong = generator.random(len(labels)) < rates
    steps = generator.integers(1, class_count, len(labels)) if kind != "pair-flip" else 1
    return np.where(wrong, (labels + steps) % class_count, labels)


def rates_of_samples(
    sample_count: int,
    parts: Sequence[NDArray[np.int64]],
    noisy_share: float,
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    """Every sample's probability of a wrong label: its client's, 0 at clean clients."""
    placed = sum(len(part) for part in parts)
    if placed != sample_count:
        raise InvalidInput(
            f"client-dependent noise for {sample_count} labels, but clients hold {placed}; "
            "expected parts with every sample once"
        )
    noisy = generator.random(len(parts)) < noisy_share
    client_rates = np.where(noisy, generator.uniform(LEAST_NOISY_RATE, 1.0, len(parts)), 0.0)
    rates = np.zeros(sample_count)
    for part, rate in zip(parts, client_rates, strict=True):
        rates[part] = rate
    return rates
