"""The server's side: add masked vectors up, ask keyholders, and open the total."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from safle.basics.places import BESIDE, StrPath, find_files, naming
from safle.errors import DuplicateContribution, FederationError, SafleError, WireError
from safle.private.answer import KeyholderAnswer
from safle.private.masked import LARGEST_HEAD, Masked, check_head
from safle.private.round import PrivateRound
from safle.private.signed import SignedHead
from safle.private.vector import Bytes, unpack
from safle.site.log import log_refusal, write_log
from safle.wire import container


@dataclass(frozen=True)
class Request:
    """What keyholders are asked to open: the heads of the files that were added up.

    Attributes
    ----------
    heads : by client, in ascending order; each checked against the round

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> from safle.private import Parties, Gathering, mask, statistics_space
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> parties = Parties.of(statistics_space(encoder, ["ill"], 100), ["a", "b"])
    >>> parts = [count(encoder, [[x]], ["ill"]) for x in (0.1, 0.5)]
    >>> gathering = Gathering(parties.private_round)
    >>> for key, part in zip(parties.clients, parts):
    ...     gathering.add(mask(parties.private_round, key, part))
    >>> asked = Request.from_bytes(gathering.finish().request.to_bytes(), parties.private_round)
    >>> [*asked.heads]
    ['a', 'b']
    """

    private_round: PrivateRound
    heads: dict[str, SignedHead]

    @property
    def members(self) -> frozenset[str]:
        """Each client with what it sent: another file of the same client is another member."""
        return frozenset(f"{head.payload_digest} {name}" for name, head in self.heads.items())

    @property
    def digest(self) -> str:
        """Identity of the set: the same clients with the same files."""
        text = "\n".join([self.private_round.digest, *sorted(self.members)])
        return hashlib.sha256(text.encode()).hexdigest()

    def to_bytes(self) -> bytes:
        """The bytes of the request's file."""
        return self._to_bytes(container.REQUEST, {})

    def _to_bytes(self, kind: int, sections: dict[str, bytes]) -> bytes:
        heads = container.canonical([head.to_json() for head in self.heads.values()])
        header = {"round": self.private_round.digest}
        return container.to_bytes(kind, header, {"heads": heads, **sections})

    @staticmethod
    def from_bytes(data: bytes, private_round: PrivateRound) -> Request:
        """Read a request; a `SafleError` unless every head is of this round and its roster."""
        opened = container.from_bytes(data, kind=container.REQUEST)
        request = Request._read(opened, private_round)
        opened.finish()
        return request

    @staticmethod
    def _read(opened: container.Container, private_round: PrivateRound) -> Request:
        if set(opened.header) != {"round"} or "heads" not in opened.frames:
            raise WireError("not a request: expected a round and the heads of its clients")
        private_round.require(opened.header["round"])
        size, most = opened.frames["heads"][1], LARGEST_HEAD * len(private_round.clients)
        if size > most:
            raise WireError(f"heads of {size} bytes; those of all clients have at most {most}")
        try:
            content = json.loads(opened.section("heads", size))
            heads = [SignedHead.from_json(head) for head in content]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            if isinstance(error, SafleError):
                raise
            raise WireError(f"the heads of the clients are not valid: {error}") from error
        found = {check_head(head, private_round): head for head in heads}
        if [*found] != sorted(found) or len(found) != len(heads):
            raise WireError("the clients are not in ascending order, each of them once")
        return Request(private_round, found)


@dataclass(frozen=True)
class MaskedSum(Request):
    """The sum of masked vectors, still under the sum of their masks.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> from safle.private import Gathering, History, Parties
    >>> from safle.private import answer_request, mask, statistics_space
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> parties = Parties.of(statistics_space(encoder, ["ill"], 100), ["a", "b"])
    >>> parts = [count(encoder, [[x]], ["ill"]) for x in (0.1, 0.5)]
    >>> gathering = Gathering(parties.private_round)
    >>> for key, part in zip(parties.clients, parts):
    ...     gathering.add(mask(parties.private_round, key, part))
    >>> total, answers = gathering.finish(), []
    >>> for key in parties.keyholders:
    ...     with TemporaryDirectory() as folder, History(f"{folder}/history.sqlite") as history:
    ...         answers.append(answer_request(total.request, key, history))
    >>> total.open(answers) == parts[0] + parts[1]
    True
    """

    vector: Bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """The bytes of the server's own file."""
        return self._to_bytes(container.MASKED_SUM, {"sum": self.vector.tobytes()})

    @staticmethod
    def from_bytes(data: bytes, private_round: PrivateRound) -> MaskedSum:
        """Read the server's own file."""
        opened = container.from_bytes(data, kind=container.MASKED_SUM)
        request = Request._read(opened, private_round)
        vector = np.frombuffer(opened.section("sum", private_round.vector_bytes), np.uint8)
        opened.finish()
        return MaskedSum(private_round, request.heads, vector)

    @property
    def request(self) -> Request:
        """What the keyholders are asked."""
        return Request(self.private_round, self.heads)

    def open(self, answers: Iterable[KeyholderAnswer]) -> Any:
        """The value of the sum, verified: statistics, a histogram or evaluation counts."""
        given: dict[str, KeyholderAnswer] = {}
        for answer in answers:
            answer.require(self.private_round, self.digest)
            if answer.keyholder in given:
                raise FederationError(f"two answers of {answer.keyholder}; name one of them")
            given[answer.keyholder] = answer
        if missing := [name for name in self.private_round.keyholders if name not in given]:
            raise FederationError(
                f"no answer of {', '.join(missing)}; all {len(self.private_round.keyholders)} "
                "keyholders must answer, and if one is lost so is the round: begin a new one"
            )
        vector = self.vector.copy()
        for answer in given.values():
            self.private_round.sizes.add(vector, answer.masks, -1)
        return unpack(self.private_round.space, vector)


def gather_files(
    private_round: PrivateRound,
    places: Iterable[StrPath],
    progress: Callable[[float], None] = lambda _share: None,
) -> MaskedSum:
    """Add up masked files, or folders of them, one in memory at a time; errors name the file."""
    gathering = Gathering(private_round)
    sources = find_files(places, except_for=BESIDE)
    for done, source in enumerate(sources, start=1):
        with naming(source):
            gathering.add(gathering.receive(container.read_limited(source)))
        progress(done / len(sources))
    return gathering.finish()


class Gathering:
    """Adds up masked contributions, one in memory at a time; none of a client twice.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count
    >>> from safle.private import Parties, mask, statistics_space
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> parties = Parties.of(statistics_space(encoder, ["ill"], 100), ["a", "b"])
    >>> parts = [count(encoder, [[x]], ["ill"]) for x in (0.1, 0.5)]
    >>> gathering = Gathering(parties.private_round)
    >>> for key, part in zip(parties.clients, parts):
    ...     gathering.add(mask(parties.private_round, key, part))
    >>> gathering.clients
    ['a', 'b']
    """

    def __init__(self, private_round: PrivateRound) -> None:
        self.private_round = private_round
        self._heads: dict[str, SignedHead] = {}
        self._total = private_round.sizes.zeros()

    @property
    def clients(self) -> list[str]:
        """Who is in."""
        return [*self._heads]

    def check(self, masked: Masked) -> None:
        """Refuse a client that is in already."""
        if masked.client in self._heads:
            raise DuplicateContribution(
                f"{masked.client} is in already; leave one of its two files out"
            )

    def receive(self, data: bytes, *, client: str = "", place: Path | None = None) -> Masked:
        """A client's file, checked and in a log, this site's by default; it can be added.

        With ``client``, the file must be its own.
        """
        digest = hashlib.sha256(data).hexdigest()
        with log_refusal(who=client, digest=digest, place=place):
            masked = Masked.from_bytes(data, self.private_round)
            if client not in ("", masked.client):
                raise FederationError(f"{client} sent the contribution of {masked.client}")
            self.check(masked)
        note = f"masked, of round {self.private_round.digest[:12]}…"
        write_log("received", who=masked.client, digest=digest, note=note, place=place)
        return masked

    def add(self, masked: Masked) -> None:
        """Add a client's vector."""
        self.check(masked)
        self.private_round.sizes.add(self._total, masked.vector)
        self._heads[masked.client] = masked.head

    def finish(self) -> MaskedSum:
        """The sum; refused with fewer clients than the keyholders will open."""
        if len(self._heads) < self.private_round.fewest:
            raise FederationError(
                f"{len(self._heads)} clients are in; keyholders open the sum of at least "
                f"{self.private_round.fewest} of this round's {len(self.private_round.clients)}"
            )
        return MaskedSum(self.private_round, dict(sorted(self._heads.items())), self._total)
