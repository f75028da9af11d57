"""A scenario in words: "alpha=0.1", "shards=2", "iid", "pooled" -> who holds what."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safle.errors import SettingsError
from safle.lab.partitions import Parts, dirichlet, iid, shards

POOLED = "pooled"


def parts_of(text: str, labels: NDArray[np.int64], *, clients: int, seed: int) -> Parts:
    """The parts of a scenario.

    Parameters
    ----------
    text : "alpha=A" (Dirichlet), "shards=S" (sorted shards), "iid" or "pooled" (one client)
    labels : int64, (samples,)
    """
    kind, _, number = text.partition("=")
    generator = np.random.default_rng([seed, 1])
    try:
        if kind == "alpha":
            return dirichlet(labels, clients=clients, alpha=float(number), generator=generator)
        if kind == "shards":
            return shards(
                labels, clients=clients, shards_per_client=int(number), generator=generator
            )
    except ValueError as error:
        raise SettingsError(f"scenario {text!r}: {error}") from error
    if text == "iid":
        return iid(len(labels), clients=clients, generator=generator)
    if text == POOLED:
        return [np.arange(len(labels))]
    raise SettingsError(f"scenario {text!r}; expected alpha=NUMBER, shards=NUMBER, iid or pooled")


def in_words(text: str) -> str:
    """As the paper's tables write it."""
    kind, _, number = text.partition("=")
    return {"alpha": f"α = {number}", "shards": f"s = {number}", "iid": "IID"}.get(kind, text)
