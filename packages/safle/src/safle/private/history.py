"""A keyholder's history: which sets of clients it has opened, and whom that tells apart.

A sum that was opened is a row of zeros and ones over the clients. What follows from several sums,
added and subtracted in any way, is what these rows span; a client is told apart if the row of
that client alone is among it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from safle.basics.places import StrPath
from safle.basics.sealed import SealedFile, now
from safle.errors import FederationError
from safle.private.gathering import Request
from safle.private.spaces import NoisySpace
from safle.publishing.ledger import Ledger

_TABLES = {
    "opened": ("round", "request", "members", "clients", "least", "time"),
    "answers": ("round", "request", "answer"),
}
_UNUSABLE = "{error}; without its history a keyholder must not answer"


@dataclass(frozen=True)
class Opened:
    """A set of clients that was opened, or is about to be.

    Attributes
    ----------
    members : each client with the file that it sent
    clients : the clients' names, by their keys: a name may be another's in another round
    least : of the round
    """

    round_digest: str
    members: frozenset[str]
    clients: dict[str, str]
    least: int

    @staticmethod
    def of(request: Request) -> Opened:
        """What a request would open."""
        roster = request.private_round.clients
        clients = {roster[name].signing.hex(): name for name in request.heads}
        private_round = request.private_round
        return Opened(private_round.digest, request.members, clients, private_round.least)


class History:
    """What a keyholder has opened, in a sealed file: on the disk when a call returns.

    Attributes
    ----------
    ledger : the rounds with noise among them, in the same file

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, History(f"{folder}/history.sqlite") as history:
    ...     history.sets()
    []
    """

    def __init__(self, path: StrPath) -> None:
        self._file = SealedFile(path, _TABLES, message=_UNUSABLE)
        self.ledger = Ledger(path)

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def sets(self) -> list[Opened]:
        """The sets that were opened, or were about to be, in all rounds."""
        with self._file.naming():
            return [
                Opened(digest, frozenset(json.loads(members)), json.loads(clients), least)
                for _, digest, _, members, clients, least, _ in self._file.rows("opened")
            ]

    def add(self, request: Request) -> None:
        """Check a request against all before it, and note it."""
        asked = Opened.of(request)
        with self._file.transaction():
            before = [one.members for one in self.sets() if one.round_digest == asked.round_digest]
            if asked.members in before:
                return
            if before and isinstance(request.private_round.space, NoisySpace):
                raise FederationError(
                    "a set of this round was opened before, and every sum that opens with noise "
                    "costs as much privacy as the first: declare a new round"
                )
            check_apart([*before, asked.members], request.private_round.fewest)
            texts = json.dumps(sorted(asked.members)), json.dumps(asked.clients)
            row = asked.round_digest, request.digest, *texts, asked.least, now()
            self._file.append("opened", *row)

    def keep(self, request: Request, data: bytes) -> bytes:
        """The first answer that was made to a request: noise drawn twice could be averaged away."""
        with self._file.transaction():
            if (kept := self.kept(request)) is not None:
                return kept
            self._file.append("answers", request.private_round.digest, request.digest, data)
        return data

    def kept(self, request: Request) -> bytes | None:
        """The answer to a request that was made before, where it has noise."""
        asked = request.private_round.digest, request.digest
        rows: Iterator[tuple[Any, ...]] = self._file.rows("answers")
        return next((data for _, *known, data in rows if (*known,) == asked), None)


def check_apart(sets: Iterable[frozenset[str]], least: int) -> None:
    """Refuse sets whose sums, added and subtracted in any way, come down to few clients.

    Of any two, one holds the other and ``least`` clients more: what follows from such a chain of
    sums are sums of whole steps of it. Every keyholder answers every request, so that one honest
    keyholder judges all of them.

    Examples
    --------
    >>> check_apart([frozenset("abc"), frozenset("abcdef")], least=3)
    >>> check_apart([frozenset("abc"), frozenset("abcd")], least=3)
    Traceback (most recent call last):
    safle.errors.FederationError: with what was opened before, this would tell 1 client apart \
from the others, at least 3 must stay together: wait until more have come or gone
    """
    chain = sorted(sets, key=len)
    for smaller, larger in pairwise([frozenset[str](), *chain]):
        left_out, more = smaller - larger, larger - smaller
        fewest = min(len(left_out) or least, len(more))
        clients = f"{fewest} client" + "s" * (fewest != 1)
        if fewest < least and len(chain) == 1:
            raise FederationError(f"the sum of {clients}; at least {least} are needed to open it")
        if fewest < least:
            raise FederationError(
                f"with what was opened before, this would tell {clients} apart from the others, at "
                f"least {least} must stay together: wait until more have come or gone"
            )
        if left_out:
            raise FederationError(
                "of two sets of a round that are opened, one holds all clients of the other, and "
                f"at least {least} more; here each has some that the other has not: ask for "
                "everybody in both, or for some of those in both"
            )


def warnings_across_rounds(asked: Opened, before: Iterable[Opened]) -> list[str]:
    """What a sum gives away with those of other rounds, should clients count the same data again.

    That is every client who is told apart by all sums together, and the clients by whom two sums
    differ, where these are fewer than the larger ``least`` of their rounds. Nothing else is
    warned of.
    """
    opened, mine = [*before], frozenset(asked.clients)
    names = {key: name for one in (*opened, asked) for key, name in one.clients.items()}
    sets = [frozenset(one.clients) for one in opened]
    alone = told_apart([*sets, mine]) - told_apart(sets)
    told = []
    if opened and alone:
        told.append(
            "Beware: you have opened sums of other rounds too. If their clients count the same "
            "data in all, these sums and this one, added and subtracted, give away "
            f"{', '.join(sorted(names[key] for key in alone))}."
        )
    for one, theirs in zip(opened, sets, strict=True):
        for few in (mine - theirs, theirs - mine):
            if mine & theirs and 1 < len(few) < max(one.least, asked.least):
                told.append(
                    f"Beware: you have opened a sum of round {one.round_digest[:12]}… too. If "
                    "the others count the same data in both, the difference of the two is that "
                    f"of few: {', '.join(sorted(names[key] for key in few))}."
                )
    return told


def told_apart(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """The members of sets whose own values follow from the sums over all of these sets.

    Examples
    --------
    >>> sorted(told_apart([frozenset("cPQ"), frozenset("cRS"), frozenset("PR"), frozenset("QS")]))
    ['c']
    """
    chosen = [*dict.fromkeys(sets)]
    alike: dict[tuple[bool, ...], list[str]] = {}
    for member in frozenset[str]().union(*chosen):
        alike.setdefault(tuple(member in one for one in chosen), []).append(member)
    # Those who are in the same sets stay together whatever is done: a column for all of them.
    rows = [[Fraction(pattern[at]) for pattern in alike] for at in range(len(chosen))]
    reduced = _reduce(rows)
    single = {row.index(Fraction(1)) for row in reduced if sum(map(bool, row)) == 1}
    return frozenset(
        members[0] for at, members in enumerate(alike.values()) if at in single and not members[1:]
    )


def _reduce(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """The reduced echelon form: a unit row is in the span if and only if it is one of its rows."""
    done: list[list[Fraction]] = []
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((row for row in rows if row[column]), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        unit = [value / pivot[column] for value in pivot]
        done = [_without(row, unit, column) for row in done]
        rows = [_without(row, unit, column) for row in rows]
        done.append(unit)
    return done


def _without(row: list[Fraction], unit: list[Fraction], column: int) -> list[Fraction]:
    factor = row[column]
    return [a - factor * b for a, b in zip(row, unit, strict=True)] if factor else row
