"""A whole private round in one process, with keys of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from tempfile import TemporaryDirectory
from typing import Any

from safle import Summable
from safle_private import (
    Gathering,
    History,
    KeyholderAnswer,
    Masked,
    PrivateKey,
    Request,
    answer_request,
    declare_round,
    mask,
)


def add_privately(
    zero: Summable, most_total_samples: int, values: Mapping[str, Callable[[], Any]]
) -> Any:
    """Add up clients' values as a private round does, every file written and read again.

    Parameters
    ----------
    zero, most_total_samples : see `safle_private.declare_round`
    values : for each client, by name, a function that makes its value when its turn comes

    Examples
    --------
    >>> from safle import LinearEncoder, Statistics, count, declared_range
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> parts = [count(encoder, [[x]], ["ill"]) for x in (0.1, 0.5, 0.9)]
    >>> zero = Statistics.empty(encoder.space, ["ill", "well"])
    >>> clients = {f"client-{at}": lambda part=part: part for at, part in enumerate(parts)}
    >>> add_privately(zero, 100, clients) == parts[0] + parts[1] + parts[2]
    True
    """
    operator = PrivateKey.new("operator")
    clients = {name: PrivateKey.new(name) for name in values}
    keyholders = [PrivateKey.new(name) for name in ("keyholder-0", "keyholder-1")]
    private_round = declare_round(
        operator,
        zero,
        most_total_samples,
        clients=[key.public for key in clients.values()],
        keyholders=[key.public for key in keyholders],
        least_clients=2,
    )
    gathering = Gathering(private_round)
    for name, make in values.items():
        sent = mask(private_round, clients[name], make()).to_bytes()
        gathering.add(Masked.from_bytes(sent, private_round))
    total = gathering.finish()
    request = Request.from_bytes(total.request.to_bytes(), private_round)
    answers = []
    for key in keyholders:
        with TemporaryDirectory() as folder:
            history = History(f"{folder}/history", new=True)
            data = answer_request(request, key, history).to_bytes(key)
        answers.append(KeyholderAnswer.from_bytes(data, private_round))
    return total.open(answers)
