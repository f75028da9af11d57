"""A keyholder: opens sums of enough clients, and never two that tell few clients apart.

The history names a sum, on the disk, before any mask is added up: a crash cannot lose it.

An opened sum is a row of zeros and ones over the clients. Whoever adds and subtracts several sums
reaches the span of their rows; a client is exposed if the row of that client alone is in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from safle.basics.places import StrPath
from safle.basics.sealed import SealedFile, now
from safle.errors import FederationError
from safle.private.keys import PrivateKey, SignedHead
from safle.private.messages import KeyholderAnswer, Request
from safle.private.round import PrivateRound
from safle.private.spaces import StatisticsSpace
from safle.private.vector import SEED_BYTES, add_masks, derive_key
from safle.publishing.ledger import Ledger
from safle.publishing.noise import epsilon_of
from safle.site.log import log_refusal, write_log

_TABLES = {
    "opened": ("round", "request", "members", "clients", "least", "time"),
    "answers": ("round", "request", "answer"),
}
_UNUSABLE = "{error}; without its history a keyholder must not answer"


@dataclass(frozen=True)
class Opened:
    """A set of clients whose sum was opened, or is about to be.

    Attributes
    ----------
    members : each client with the file that it sent
    clients : the clients' names, by their keys: in another round a name may be another client's
    least_clients : of the round
    """

    round_digest: str
    members: frozenset[str]
    clients: dict[str, str]
    least_clients: int

    @staticmethod
    def of(request: Request) -> Opened:
        """The set that a request would open."""
        private_round = request.private_round
        clients = {private_round.clients[name].signing: name for name in request.heads}
        return Opened(private_round.digest, request.members, clients, private_round.least_clients)


class History:
    """The sums that a keyholder has opened, in a sealed file, on the disk when a call returns.

    Attributes
    ----------
    ledger : the rounds with noise, in the same file
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
        """Check a request against all earlier ones, and note it."""
        asked = Opened.of(request)
        with self._file.transaction():
            before = [one.members for one in self.sets() if one.round_digest == asked.round_digest]
            if asked.members in before:
                return
            if before and request.private_round.space.privacy is not None:
                raise FederationError(
                    "a set of this round was opened before, and every sum that opens with noise "
                    "costs as much privacy as the first: declare a new round"
                )
            check_sets([*before, asked.members], request.private_round.least_clients)
            texts = json.dumps(sorted(asked.members)), json.dumps(asked.clients)
            row = asked.round_digest, request.digest, *texts, asked.least_clients, now()
            self._file.append("opened", *row)

    def keep_answer(self, request: Request, data: bytes) -> bytes:
        """Keep the first answer to a request, and return it: new noise could be averaged away."""
        with self._file.transaction():
            if (kept := self.find_answer(request)) is not None:
                return kept
            self._file.append("answers", request.private_round.digest, request.digest, data)
        return data

    def find_answer(self, request: Request) -> bytes | None:
        """The answer that was kept for a request; only answers with noise are kept."""
        digests = request.private_round.digest, request.digest
        rows: Iterator[tuple[Any, ...]] = self._file.rows("answers")
        return next((data for _, *known, data in rows if (*known,) == digests), None)


def check_sets(sets: Iterable[frozenset[str]], least_clients: int) -> None:
    """Refuse sets whose sums, added and subtracted in any way, come down to few clients.

    Of any two sets, the larger must hold the smaller and ``least_clients`` more. From such a chain
    of sums follow only sums over whole steps of it. Every keyholder must answer every request, so
    one honest keyholder is enough to judge all of them.
    """
    chain = sorted(sets, key=len)
    for smaller, larger in pairwise([frozenset[str](), *chain]):
        removed, added = smaller - larger, larger - smaller
        fewest = min(len(removed) or least_clients, len(added))
        clients = f"{fewest} client" + "s" * (fewest != 1)
        if fewest < least_clients and len(chain) == 1:
            raise FederationError(
                f"the sum of {clients}; at least {least_clients} are needed to open it"
            )
        if fewest < least_clients:
            raise FederationError(
                f"with the sums opened before, this would tell {clients} apart from the others; at "
                f"least {least_clients} must stay together: wait until more clients have come or "
                "gone"
            )
        if removed:
            raise FederationError(
                "this set, and one that was opened before, each hold clients that the other does "
                "not; expected one that holds all of the other, and at least "
                f"{least_clients} more: ask for all clients of both sets, or for fewer of those "
                "that are in both"
            )


def warnings_across_rounds(asked: Opened, before: Iterable[Opened]) -> list[str]:
    """Warnings of what this sum and those of other rounds give away, if clients count data again.

    They name every client who is exposed by all sums together, and the clients by whom two sums
    differ, if these are fewer than the larger ``least_clients`` of the two rounds. `check_sets`
    judges what sums of this round alone give away.
    """
    opened, asked_set = [*before], frozenset(asked.clients)
    others = [one for one in opened if one.round_digest != asked.round_digest]
    same_round = [frozenset(one.clients) for one in opened if one not in others]
    names = {key: name for other in (*opened, asked) for key, name in other.clients.items()}
    sets = [frozenset(other.clients) for other in opened]
    exposed = find_exposed([*sets, asked_set]) - find_exposed(sets)
    exposed -= find_exposed([*same_round, asked_set])
    warnings = []
    if exposed:
        warnings.append(
            "Beware: you have opened sums of other rounds too. If their clients count the same "
            "data in all, these sums and this one, added and subtracted, give away "
            f"{', '.join(sorted(names[key] for key in exposed))}."
        )
    for other in others:
        other_set = frozenset(other.clients)
        least_clients = max(other.least_clients, asked.least_clients)
        for difference in (asked_set - other_set, other_set - asked_set):
            if asked_set & other_set and 1 < len(difference) < least_clients:
                warnings.append(
                    f"Beware: you have opened a sum of round {other.round_digest[:12]}… too. If "
                    "the others count the same data in both, the difference of the two is the sum "
                    f"of few clients: {', '.join(sorted(names[key] for key in difference))}."
                )
    return warnings


def find_exposed(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """The members of sets whose own values follow from the sums over all of these sets."""
    distinct = [*dict.fromkeys(sets)]
    # Members of the same sets always stay together: they share a column.
    columns: dict[tuple[bool, ...], list[str]] = {}
    for member in frozenset[str]().union(*distinct):
        columns.setdefault(tuple(member in one for one in distinct), []).append(member)
    rows = [[Fraction(pattern[row]) for pattern in columns] for row in range(len(distinct))]
    reduced = _reduce(rows)
    single = {row.index(Fraction(1)) for row in reduced if sum(map(bool, row)) == 1}
    return frozenset(
        members[0]
        for column, members in enumerate(columns.values())
        if column in single and len(members) == 1
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
        done, rows = (
            [[a - row[column] * b for a, b in zip(row, unit, strict=True)] for row in part]
            for part in (done, rows)
        )
        done.append(unit)
    return done


def explain(request: Request, history: History) -> list[str]:
    """Say what a keyholder is asked to open, in sentences for the person who decides."""
    private_round, clients = request.private_round, request.heads
    opened = history.sets()
    before = [one.members for one in opened if one.round_digest == private_round.digest]
    past = f"Sets of this round that you have opened before: {len(before)}."
    if request.members in before:
        past = "You have opened this very set before: the answer will be the same."
    if not opened:
        past = "Your history is empty: if you have answered before, stop, and name its old file."
    noise, promised = "", private_round.space.privacy
    if promised is not None:
        noise = f" You add noise: {promised.promise}, whatever the others do."
        if not before and (spent := history.ledger.releases()):
            rho = sum((release.rho for release in spent), promised.rho)
            together = epsilon_of(rho, promised.delta)
            noise += (
                f" Rounds with noise that you have opened before: {len(spent)}; all together, for "
                f"the same people, they make epsilon {together:.3g}."
            )
    text = f"""
{private_round.operator.name} asks you to open the sum of {len(clients)} of \
{len(private_round.clients)} clients of round {private_round.digest[:12]}…: {", ".join(clients)}.
The round opens sums of at least {private_round.least_clients} clients, if all keyholders answer: \
{", ".join(private_round.keyholders)}.
{past}
You open the sum of all these clients, and the value of none of them alone.{noise}"""
    return [*text.strip().splitlines(), *warnings_across_rounds(Opened.of(request), opened)]


def answer_request(
    request: Request, key: PrivateKey, history: History, *, log: Path | None = None
) -> KeyholderAnswer:
    """Add up a keyholder's masks of a request's clients; the same request gets the same answer.

    Parameters
    ----------
    log : file in which this call notes that it has answered, or why it refused, before it returns

    Raises
    ------
    FederationError
        Too few clients, a box that is not this keyholder's, or a set that differs by too few
        clients from one that was opened before.
    """
    if log is None:
        return _answer(request, key, history)
    about: dict[str, Any] = {"who": key.name, "digest": request.digest, "place": log}
    with log_refusal(**about):
        answer = _answer(request, key, history)
    write_log("opened", note=f"a sum of {len(request.heads)} clients", **about)
    return answer


def require_keyholder(private_round: PrivateRound, key: PrivateKey) -> None:
    """`FederationError` unless the key is one of the round's keyholders'."""
    if private_round.keyholders.get(key.name) != key.public:
        raise FederationError(
            f"{key.name}'s key is not a keyholder's of this round; use a key that the round lists"
        )


def _answer(request: Request, key: PrivateKey, history: History) -> KeyholderAnswer:
    private_round, space = request.private_round, request.private_round.space
    require_keyholder(private_round, key)
    mask_keys = [_open_mask_key(head, private_round, key) for head in request.heads.values()]
    history.add(request)
    if kept := history.find_answer(request):
        return KeyholderAnswer.from_bytes(kept, private_round)
    masks = private_round.sizes.zeros()
    add_masks(private_round.sizes, masks, mask_keys)
    answer = KeyholderAnswer(key.name, private_round.digest, request.digest, masks)
    if not isinstance(space, StatisticsSpace) or space.privacy is None:
        return answer
    history.ledger.spend(space.space, space.privacy.epsilon, space.privacy.delta)
    space.hide(masks)
    return KeyholderAnswer.from_bytes(
        history.keep_answer(request, answer.to_bytes(key)), private_round
    )


def _open_mask_key(head: SignedHead, private_round: PrivateRound, key: PrivateKey) -> bytes:
    """The key of the mask that a client has given to a keyholder; errors name the client."""
    client = str(head.fields["client"])
    try:
        box = bytes.fromhex(head.fields["boxes"][key.name])
        seed = key.open_box(box, private_round.bound_to(client, head.payload_digest, key.name))
        if len(seed) != SEED_BYTES:
            raise FederationError(f"its box holds {len(seed)} bytes; expected {SEED_BYTES}")
    except (FederationError, ValueError) as error:
        raise FederationError(f"{client}: {error}; ask for a sum without {client}") from error
    return derive_key(seed, private_round.digest, client, key.name)
