"""A whole private round in one process, with keys of its own: for demonstrations and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safle.basics.places import StrPath
from safle.private.keyholder import History, answer_request
from safle.private.keys import PrivateKey
from safle.private.messages import Gathering, KeyholderAnswer, Masked, MaskedSum, Request, mask
from safle.private.round import PrivateRound, declare_round
from safle.private.vector import Space


@dataclass(frozen=True)
class Parties:
    """Everybody who takes part in a round, with fresh private keys: never for a real one."""

    private_round: PrivateRound
    operator: PrivateKey
    clients: list[PrivateKey]
    keyholders: list[PrivateKey]

    @staticmethod
    def of(space: Space, clients: Iterable[str], *, keyholders: int = 2, **rules: Any) -> Parties:
        """A round of these clients; ``rules`` are those of `declare_round`."""
        holders = [f"keyholder-{number}" for number in range(keyholders)]
        keys = [[PrivateKey.new(name) for name in names] for names in (clients, holders)]
        return Parties._declare(space, PrivateKey.new("operator"), *keys, **rules)

    def again(self, space: Space, **rules: Any) -> Parties:
        """Another round of the same people."""
        return Parties._declare(space, self.operator, self.clients, self.keyholders, **rules)

    @staticmethod
    def _declare(
        space: Space,
        operator: PrivateKey,
        clients: list[PrivateKey],
        keyholders: list[PrivateKey],
        *,
        least: int = 2,
        **rules: Any,
    ) -> Parties:
        rosters = [[key.public for key in keys] for keys in (clients, keyholders)]
        rules |= {"clients": rosters[0], "keyholders": rosters[1], "least": least}
        private_round = declare_round(operator, space, **rules)
        return Parties(private_round, operator, clients, keyholders)

    def mask(self, number: int, value: Any) -> bytes:
        """The file of a client."""
        return mask(self.private_round, self.clients[number], value).to_bytes()

    def gather(self, files: Iterable[bytes]) -> MaskedSum:
        """The masked sum of clients' files."""
        gathering = Gathering(self.private_round)
        for data in files:
            gathering.add(Masked.from_bytes(data, self.private_round))
        return gathering.finish()

    def add_up(self, values: Iterable[Any]) -> MaskedSum:
        """The masked sum of the values of the first clients."""
        return self.gather(self.mask(number, value) for number, value in enumerate(values))

    def answer(self, number: int, total: MaskedSum, history: StrPath | None = None) -> bytes:
        """The file of a keyholder, who has opened nothing before unless there is a history."""
        request = Request.from_bytes(total.request.to_bytes(), self.private_round)
        key = self.keyholders[number]
        with TemporaryDirectory() as folder, History(history or Path(folder) / "new") as opened:
            return answer_request(request, key, opened).to_bytes(key)

    def open(self, total: MaskedSum, files: Iterable[bytes] | None = None) -> Any:
        """The sum, opened by the keyholders' files; by default by those of all of them."""
        given = files or [self.answer(number, total) for number in range(len(self.keyholders))]
        return total.open(KeyholderAnswer.from_bytes(data, self.private_round) for data in given)


def add_privately(space: Space, values: Mapping[str, Callable[[], Any]]) -> Any:
    """Add up clients' values as a private round does, every file written and read again.

    Parameters
    ----------
    values : of each client, by name; made when it is that client's turn

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> from safle.private import StatisticsSpace
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> parts = [count(encoder, [[x]], ["ill"]) for x in (0.1, 0.5, 0.9)]
    >>> space = StatisticsSpace.of(encoder, ["ill", "well"], most_total_samples=100)
    >>> clients = {f"client-{at}": lambda part=part: part for at, part in enumerate(parts)}
    >>> add_privately(space, clients) == parts[0] + parts[1] + parts[2]
    True
    """
    parties = Parties.of(space, values)
    return parties.open(parties.add_up(make() for make in values.values()))
