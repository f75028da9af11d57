"""Partitions: ways to split a data set over clients.

Every sample is in exactly one part, and a client may hold none. The generator is the only source of
randomness. (flwr-datasets partitions too, but not as the code of the papers does.)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.errors import InvalidInput, SettingsError

Parts = list[NDArray[np.int64]]
POOLED = "pooled"
"""The scenario with one client, who holds everything."""
# Below the first, one client gets all of a class; above the second, shares are equal to the last
# bit, and numpy's sampler would overflow.
_LEAST_ALPHA, _MOST_ALPHA = 1e-100, 1e100


def partition(
    labels: ArrayLike, scenario: str, *, clients: int, generator: np.random.Generator
) -> Parts:
    """Split samples over clients: one sorted int64 array of sample numbers for each.

    Parameters
    ----------
    scenario : "alpha=A": latent Dirichlet allocation (below); "shards=S": the samples, sorted by
        label, are cut into equal shards, and each client gets S of them ("Non-IID-2", McMahan et
        al., 2017); "iid": equal parts at random; "pooled": one client

    Notes
    -----
    With "alpha=A" ("Non-IID-1"), class by class, in ascending order, p ~ Dirichlet(A, ..., A) says
    which share of the class goes to which client; a client that already holds sample_count /
    clients samples or more gets no samples of later classes. Hsu, Qi, Brown: "Measuring the Effects
    of Non-Identical Data Distribution for Federated Visual Classification", 2019. The balancing
    rule is that of Li, Diao, Chen, He: "Federated Learning on Non-IID Data Silos: An Experimental
    Study", 2022, whose code most later work took over; here no draw is rejected for a small client.

    Examples
    --------
    >>> parts = partition([0, 0, 1, 1], "shards=1", clients=2, generator=np.random.default_rng(0))
    >>> sorted(part.tolist() for part in parts)
    [[0, 1], [2, 3]]
    """
    count: Any = clients
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
        raise InvalidInput(f"clients is {clients!r}; expected an integer, at least 1")
    names, classes = _classes(labels)
    rule, _, number = scenario.partition("=")
    try:
        if rule == "alpha":
            return _dirichlet(len(names), classes, clients, float(number), generator)
        if rule == "shards":
            return _shards(classes, clients, int(number), generator)
    except ValueError as error:
        raise SettingsError(f"scenario {scenario!r}: {error}") from error
    if scenario == "iid":
        order = generator.permutation(len(classes)).astype(np.int64)
        return [np.sort(part) for part in np.array_split(order, clients)]
    if scenario == POOLED:
        return [np.arange(len(classes))]
    raise SettingsError(
        f"scenario {scenario!r}; expected alpha=NUMBER, shards=NUMBER, iid or pooled"
    )


def _dirichlet(
    class_count: int,
    classes: NDArray[np.int64],
    clients: int,
    alpha: float,
    generator: np.random.Generator,
) -> Parts:
    if not 0.0 < alpha < np.inf:
        raise ValueError("alpha is a positive finite number")
    concentration = min(max(alpha, _LEAST_ALPHA), _MOST_ALPHA)
    sample_counts = np.zeros(clients, dtype=np.int64)
    pieces: list[Parts] = [[np.empty(0, np.int64)] for _ in range(clients)]
    for number in range(class_count):
        # We draw over the clients with room only. The distribution is that of drawing over all,
        # setting the others to zero and renormalising, as a renormalised part of a Dirichlet
        # vector is Dirichlet again; but our draw cannot end in 0 / 0.
        members = np.flatnonzero(classes == number)
        (open_clients,) = np.nonzero(sample_counts * clients < len(classes))
        shares = generator.dirichlet(np.full(len(open_clients), concentration))
        cuts = (np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
        dealt = np.split(generator.permutation(members), cuts)
        for client, piece in zip(open_clients, dealt, strict=True):
            pieces[client].append(piece)
            sample_counts[client] += len(piece)
    return [np.sort(np.concatenate(piece)) for piece in pieces]


def _shards(
    classes: NDArray[np.int64], clients: int, per_client: int, generator: np.random.Generator
) -> Parts:
    if per_client < 1:
        raise ValueError("a client has at least 1 shard")
    by_label = np.argsort(classes, kind="stable").astype(np.int64)
    pieces = np.array_split(by_label, clients * per_client)
    deal = generator.permutation(len(pieces)).reshape(clients, per_client)
    return [np.sort(np.concatenate([pieces[piece] for piece in hand])) for hand in deal]


def class_mix(labels: ArrayLike, parts: Sequence[NDArray[np.integer[Any]]]) -> NDArray[np.int64]:
    """How many samples of each class each client holds, (clients, classes in ascending order).

    >>> class_mix(["a", "b", "b"], [np.array([0, 1]), np.array([2])]).tolist()
    [[1, 1], [0, 1]]
    """
    names, classes = _classes(labels)
    return np.array(
        [np.bincount(classes[part], minlength=len(names)) for part in parts], dtype=np.int64
    )


def _classes(labels: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The distinct labels and, for every sample, the position of its label among them."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise InvalidInput(f"labels have shape {array.shape}; expected one label per sample")
    names, classes = np.unique(array, return_inverse=True)
    return names, classes.astype(np.int64)
