"""A whole private round in one process, with keys of its own: for demonstrations and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safle.private.gathering import Gathering, KeyholderAnswer, MaskedSum, Request
from safle.private.history import History
from safle.private.keyholder import answer_request
from safle.private.keys import PrivateKey
from safle.private.masked import Masked, mask
from safle.private.round import PrivateRound, declare_round
from safle.private.vector import Space


@dataclass(frozen=True)
class Parties:
    """Everybody who takes part in a round, with fresh private keys: never for a real one.

    Examples
    --------
    >>> from safle.private import HistogramSpace
    >>> from safle.encoders.histogram import Grid
    >>> space = HistogramSpace(Grid(0, 1, bins=4), 2, most_total_samples=1000)
    >>> parties = Parties.of(space, ["hospital-a", "hospital-b"])
    >>> [key.name for key in parties.keyholders]
    ['keyholder-1', 'keyholder-2']
    """

    private_round: PrivateRound
    operator: PrivateKey
    clients: list[PrivateKey]
    keyholders: list[PrivateKey]

    @staticmethod
    def of(
        space: Space,
        clients: Iterable[str],
        *,
        keyholders: int = 2,
        least: int = 2,
        least_share: float = 0.5,
    ) -> Parties:
        """A round of these clients; see `declare_round`."""
        operator, parties = PrivateKey.new("operator"), [PrivateKey.new(name) for name in clients]
        holders = [PrivateKey.new(f"keyholder-{number + 1}") for number in range(keyholders)]
        private_round = declare_round(
            operator,
            space,
            clients=[key.public for key in parties],
            keyholders=[key.public for key in holders],
            least=least,
            least_share=least_share,
        )
        return Parties(private_round, operator, parties, holders)

    def gather(self, values: Iterable[Any]) -> MaskedSum:
        """The masked sum of the clients' values, every file written and read again."""
        gathering = Gathering(self.private_round)
        for key, value in zip(self.clients, values, strict=True):
            data = mask(self.private_round, key, value).to_bytes()
            gathering.add(Masked.from_bytes(data, self.private_round))
        return gathering.finish()

    def answers(self, total: MaskedSum) -> list[KeyholderAnswer]:
        """The answers of all keyholders, who have opened nothing before."""
        asked, answers = total.request.to_bytes(), []
        for key in self.keyholders:
            with TemporaryDirectory() as folder, History(Path(folder) / "history") as history:
                request = Request.from_bytes(asked, self.private_round)
                data = answer_request(request, key, history).to_bytes(key)
            answers.append(KeyholderAnswer.from_bytes(data, self.private_round))
        return answers


def add_privately(space: Space, values: Mapping[str, Callable[[], Any]]) -> Any:
    """Add up clients' values as a private round does, every file written and read again.

    Parameters
    ----------
    values : of each client, by name; made when it is that client's turn

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> from safle.private import statistics_space
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> parts = [count(encoder, [[x]], ["ill"]) for x in (0.1, 0.5, 0.9)]
    >>> space = statistics_space(encoder, ["ill", "well"], most_total_samples=100)
    >>> clients = {f"client-{at}": lambda part=part: part for at, part in enumerate(parts)}
    >>> add_privately(space, clients) == parts[0] + parts[1] + parts[2]
    True
    """
    parties = Parties.of(space, values)
    total = parties.gather(values[key.name]() for key in parties.clients)
    return total.open(parties.answers(total))
