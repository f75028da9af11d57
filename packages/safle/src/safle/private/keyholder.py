"""A keyholder: opens sums of enough clients, and never two that tell few clients apart.

What was opened is on the disk before any mask is added up, so a crash cannot make it forget.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from safle.basics.sqlite import SqliteFile
from safle.errors import FederationError
from safle.private.answer import KeyholderAnswer
from safle.private.gathering import Request
from safle.private.keys import PrivateKey
from safle.private.masked import open_mask_key
from safle.private.masks import add_masks
from safle.private.noisy_space import NoisySpace
from safle.private.vector import new_vector
from safle.publishing.ledger import Ledger
from safle.publishing.publishing import epsilon_of
from safle.site.log import log_refusal, write_log

_TABLES = """
CREATE TABLE IF NOT EXISTS opened (
    round TEXT NOT NULL, request TEXT NOT NULL, members TEXT NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (round, request));
CREATE TABLE IF NOT EXISTS answers (
    round TEXT NOT NULL, request TEXT NOT NULL, answer BLOB NOT NULL,
    PRIMARY KEY (round, request));
"""
_UNUSABLE = "{error}; without its history a keyholder must not answer"


class History:
    """Which sets of clients a keyholder has opened, in SQLite; flushed at every commit.

    Attributes
    ----------
    ledger : the rounds with noise among them, in the same file
    """

    def __init__(self, path: Path) -> None:
        self.ledger = Ledger(path)
        self._base = SqliteFile(path, _TABLES, message=_UNUSABLE)

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def opened(self, round_digest: str) -> list[frozenset[str]]:
        """The sets that were opened in a round, or are about to be."""
        rows = self._base.run("SELECT members FROM opened WHERE round = ?", round_digest)
        with self._base.naming():
            return [frozenset(json.loads(members)) for (members,) in rows]

    @property
    def empty(self) -> bool:
        """Whether it remembers nothing, of any round."""
        return not self._base.run("SELECT 1 FROM opened LIMIT 1")

    def elsewhere(self, request: Request) -> Iterator[tuple[str, frozenset[str]]]:
        """Other rounds, and the names of clients whose sum the two would come down to.

        That is so if all the others count the same data in both.
        """
        asked = frozenset(request.heads)
        others = "SELECT round, members FROM opened WHERE round != ?"
        rows = self._base.run(others, request.private_round.digest)
        with self._base.naming():
            for digest, members in rows:
                names = frozenset(member.split(" ", 1)[1] for member in json.loads(members))
                for few in (asked - names, names - asked):
                    if asked & names and 0 < len(few) < request.private_round.least:
                        yield digest, few

    def add(self, request: Request) -> None:
        """Check a request against all before it, and note it; on the disk when this returns."""
        with self._base.transaction():
            before = self.opened(request.private_round.digest)
            if request.members in before:
                return
            if before and isinstance(request.private_round.space, NoisySpace):
                raise FederationError(
                    "a set of this round was opened before, and every sum that opens with noise "
                    "costs as much privacy as the first: declare a new round"
                )
            check_apart([*before, request.members], request.private_round.fewest)
            members, now = json.dumps(sorted(request.members)), datetime.now(UTC).isoformat()
            row = (request.private_round.digest, request.digest, members, now)
            self._base.run("INSERT INTO opened VALUES (?, ?, ?, ?)", *row)

    def keep(self, request: Request, data: bytes) -> bytes:
        """The first answer that was made to a request; the disk has it when this returns.

        Noise that is drawn twice could be averaged away.
        """
        row = request.private_round.digest, request.digest, data
        with self._base.transaction():
            self._base.run("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", *row)
        kept = self.kept(request)
        assert kept is not None, "it was just noted"
        return kept

    def kept(self, request: Request) -> bytes | None:
        """The answer to a request that was made before, where it has noise."""
        found = self._base.run(
            "SELECT answer FROM answers WHERE round = ? AND request = ?",
            *(request.private_round.digest, request.digest),
        )
        return found[0][0] if found else None


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


def explain(request: Request, history: History) -> list[str]:
    """What a keyholder is asked to open, in sentences for the person who decides."""
    private_round, clients = request.private_round, request.heads
    before = history.opened(private_round.digest)
    already = f"Sets of this round that you have opened before: {len(before)}."
    if request.members in before:
        already = "You have opened this very set before: the answer will be the same."
    if history.empty:
        already = "Your history is empty: if you have answered before, stop, and name the old file."
    noise = ""
    if isinstance(private_round.space, NoisySpace):
        noise = f" You add noise: {private_round.space.privacy.promise}, whatever the others do."
        if not before and (spent := history.ledger.releases()):
            rho = sum((release.rho for release in spent), private_round.space.privacy.rho)
            together = epsilon_of(rho, private_round.space.delta)
            noise += (
                f" Rounds with noise that you have opened before: {len(spent)}; all together, of "
                f"the same people, they make epsilon {together:.3g}."
            )
    text = f"""
{private_round.operator.name} asks you to open the sum of {len(clients)} of \
{len(private_round.clients)} clients of round {private_round.digest[:12]}…: {", ".join(clients)}.
The round opens sums of at least {private_round.fewest} clients, if all keyholders answer: \
{", ".join(private_round.keyholders)}.
{already}
What opens is the sum of all these clients, and of none of them alone.{noise}"""
    return text.strip().splitlines() + [
        f"Beware: you have opened a sum of round {digest[:12]}… too. If the others count the same "
        f"data in both, the difference of the two gives away {', '.join(sorted(few))}."
        for digest, few in history.elsewhere(request)
    ]


def answer_on_record(
    request: Request, key: PrivateKey, history: History, *, place: Path | None = None
) -> KeyholderAnswer:
    """`answer`, with a row in a log, this site's by default, before anybody else has it."""
    about: dict[str, Any] = {"who": key.name, "digest": request.digest, "place": place}
    with log_refusal(**about):
        made = answer(request, key, history)
    write_log("opened", note=f"a sum of {len(request.heads)} clients", **about)
    return made


def answer(request: Request, key: PrivateKey, history: History) -> KeyholderAnswer:
    """The sum of a keyholder's masks of a request's clients; the same request has the same answer.

    Raises
    ------
    FederationError
        Too few clients, a box that is not this keyholder's, or a set that differs by too few
        clients from one that was opened before.
    """
    private_round = request.private_round
    if key.name not in private_round.keyholders or private_round.keyholders[key.name] != key.public:
        raise FederationError(f"{key.name}'s key is not a keyholder's of this round")
    mask_keys = [open_mask_key(head, private_round, key) for head in request.heads.values()]
    history.add(request)
    if kept := history.kept(request):
        return KeyholderAnswer.from_bytes(kept, private_round)
    masks = new_vector(private_round.space.blocks)
    add_masks(private_round.space.blocks, masks, mask_keys)
    made = KeyholderAnswer(key.name, private_round.digest, request.digest, masks)
    if not isinstance(private_round.space, NoisySpace):
        return made
    space = private_round.space
    history.ledger.spend(space, space.epsilon, space.delta)
    space.hide(masks)
    return KeyholderAnswer.from_bytes(history.keep(request, made.to_bytes(key)), private_round)
