"""What a sum gives away together with sums that were opened before, in any round.

An opened sum is a row of numbers over the clients. Several sums, each added or subtracted any
number of times, give the span of their rows over the rationals. If a row of that span holds fewer
than ``least_clients`` clients, these few are given away.

Whether two rounds count the same data is unknown. They are judged as if they did.

Clients who are together in all rows share a column. A small row needs most columns to be zero, so
the search goes through the columns, largest first: each is left in, or is made zero, which takes
one of the sums out of the equations. All numbers are exact.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from safle.basics import Row
from safle.errors import FederationError
from safle_private.messages import Request

MOST_STEPS = 5_000
"""Of one search: seconds. Chains of sums that grow by enough clients need a few."""
Rows = NDArray[np.object_]
"""Fractions: the asked sum, then each earlier one; a column for each group of clients."""


def describe(request: Request) -> Row:
    """The set of clients that a request would open, as a row of a keyholder's history.

    ``members`` are the clients with the files that they sent, ``clients`` their names by key.
    """
    private_round = request.private_round
    return {
        "round": private_round.digest,
        "request": request.digest,
        "members": sorted(request.members),
        "clients": {private_round.clients[name].signing: name for name in request.heads},
        "least": private_round.least_clients,
    }


def check_sets(sets: Iterable[Collection[str]], least_clients: int) -> None:
    """Refuse sets whose sums, added and subtracted in any way, give a sum of few clients.

    Of any two sets, the larger must hold the smaller and ``least_clients`` more. From such a chain
    of sums follow only sums over whole steps of it. Every keyholder must answer every request, so
    one honest keyholder is enough to judge all of them.
    """
    chain = sorted(map(frozenset, sets), key=len)
    for smaller, larger in pairwise([frozenset[str](), *chain]):
        removed = smaller - larger
        added = larger - smaller
        fewest = min(len(removed) or least_clients, len(added))
        clients = "1 client" if fewest == 1 else f"{fewest} clients"
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


def check_despite(exposed: dict[str, frozenset[str]], despite: Collection[str]) -> None:
    """Refuse what gives clients away, unless each of them is named, and nobody else."""
    named = {name for names in exposed.values() for name in names & {*despite}}
    if others := sorted({*despite} - named):
        raise FederationError(
            f"--despite-difference {others[0]}: this sum does not give {others[0]} away; name "
            f"exactly those whom it does: {', '.join(exposed) or 'nobody'}"
        )
    if all(names & {*despite} for names in exposed.values()):
        return
    options = " ".join(f"--despite-difference {shlex.quote(name)}" for name in exposed)
    raise FederationError(
        f"with the sums opened before, this would give away {', '.join(exposed)}, alone or as a "
        "group of fewer clients than the round's least, if the clients count the same data in all "
        "rounds: ask for a sum of the same clients as before; if you know that nobody has kept an "
        f"earlier sum, or that other data are counted, answer with {options}"
    )


def find_exposed(asked: Row, before: Sequence[Row]) -> dict[str, frozenset[str]]:
    """Clients who are given away once the asked sum is open, and were not before.

    A key under two names is one person, and so is a name under two keys. But a new key may also
    be somebody else's: each person with several keys is judged as several, too.

    Returns
    -------
    All names of each of them, by the one that the request says, or an earlier sum.
    """
    sets = [asked, *reversed(before)]
    person_of = _find_persons(sets)
    with_several_keys = [who for who, keys in Counter(person_of.values()).items() if keys > 1]
    exposed: set[str] = set()
    for divided in (None, *with_several_keys):
        view = {key: key if who == divided else who for key, who in person_of.items()}
        exposed |= {person_of.get(one, one) for one in _find_in_view(asked, before, view)}
    names: dict[str, list[str]] = {}
    for one in sets:
        for key, name in one["clients"].items():
            names.setdefault(person_of[key], []).append(name)
    return dict(sorted((names[who][0], frozenset(names[who])) for who in exposed))


def _find_persons(sets: Sequence[Row]) -> dict[str, str]:
    """The person of each key: all keys of one name, and all names of one key, are one person's."""
    parents: dict[tuple[str, str], tuple[str, str]] = {}

    def root_of(node: tuple[str, str]) -> tuple[str, str]:
        while parents.setdefault(node, node) != node:
            node = parents[node]
        return node

    pairs = [pair for one in sets for pair in one["clients"].items()]
    for key, name in pairs:
        parents[root_of(("key", key))] = root_of(("name", name))
    return {key: " ".join(root_of(("key", key))) for key, _ in pairs}


def _find_in_view(asked: Row, before: Sequence[Row], view: Mapping[str, str]) -> set[str]:
    """Who is exposed, if each key is the person that ``view`` says."""
    wanted = Counter(view[key] for key in asked["clients"])
    rows = [(one["least"], Counter(view[key] for key in one["clients"])) for one in before]
    if _find_groups(wanted, [row for _, row in rows], 1):
        # It follows from the sums before: it adds nothing.
        return set()
    exposed: set[str] = set()
    tiers = {asked["least"], *(least for least, _ in rows if least > asked["least"])}
    for least in sorted(tiers):
        found = _find_groups(wanted, [row for own, row in rows if own <= least], least)
        if least > asked["least"]:
            # Clients have agreed to what rounds with a smaller least number give by themselves.
            found -= _find_groups(wanted, [row for own, row in rows if own < least], least)
        exposed.update(*found)
    return exposed


def _find_groups(
    wanted: Counter[str], rows: Sequence[Counter[str]], least: int
) -> set[frozenset[str]]:
    """The smallest groups, of fewer than ``least``, to which the wanted row can be reduced.

    Every group of persons for which the wanted row plus a combination of the other rows is nonzero
    on these persons alone, and on no part of them; an empty group if it can be zero.
    """
    together: dict[tuple[int, ...], list[str]] = {}
    distinct = [dict(row) for row in {frozenset(row.items()) for row in rows}]
    for person in {*wanted, *(person for row in distinct for person in row)}:
        pattern = (wanted[person], *(row.get(person, 0) for row in distinct))
        together.setdefault(pattern, []).append(person)
    ordered = sorted(together.items(), key=lambda item: (-len(item[1]), item[0]))
    numbers = np.array([[Fraction(one) for one in pattern] for pattern, _ in ordered], object)
    groups = [persons for _, persons in ordered]
    found = _find_supports(numbers.T, [len(group) for group in groups], least)
    return {frozenset(person for at in chosen for person in groups[at]) for chosen in found}


def _find_supports(rows: Rows, sizes: list[int], least: int) -> list[frozenset[int]]:
    """The smallest sets of columns such that the first row can be made zero on all others."""
    waiting = [(0, rows, frozenset[int]())]
    found: list[frozenset[int]] = []
    for _ in range(MOST_STEPS):
        if not waiting:
            return found
        at, rows, kept = waiting.pop()
        if any(one <= kept for one in found):
            continue
        if at == len(sizes):
            # Another row that is not used up could make a column of those that are kept zero.
            if not rows[1:].any():
                found.append(frozenset(np.flatnonzero(rows[0]).tolist()))
            continue
        column = rows[:, at]
        if column.any() and sizes[at] + sum(sizes[other] for other in kept) < least:
            waiting.append((at + 1, rows, kept | {at}))
        # The column is made zero first: what is found is then as small as can be.
        if column[1:].any():
            used = 1 + int(np.flatnonzero(column[1:])[0])
            waiting.append((at + 1, rows - np.outer(column / column[used], rows[used]), kept))
        elif not column[0]:
            waiting.append((at + 1, rows, kept))
    raise FederationError(
        "the sums that you have opened overlap in too many ways to judge what this one gives away "
        "with them: ask for the sum of clients that was opened before"
    )
