"""Whatever was opened, in whatever rounds: no sums of it come down to few clients.

The oracle tries every small group of clients, and every way in which a name with two keys may be
one client or two; it counts ranks over the rationals.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from fractions import Fraction
from itertools import combinations, product
from tempfile import TemporaryDirectory

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from safle import Statistics
from safle.errors import FederationError
from safle_private import PrivateKey, Request, declare_round
from safle_private.differences import find_exposed
from safle_private.keyholder import History
from safle_private.keys import SignedHeader
from support.data_sets import fixed_encoder
from support.rationals import rank_of

ZERO = Statistics.empty(fixed_encoder("linear").space, [0, 1])
NAMES = "abcdef"
OPERATOR = PrivateKey.new("operator")
BOARD = PrivateKey.new("board")
KEYS = {name: [PrivateKey.new(name) for _ in range(2)] for name in NAMES}
SETS = st.frozensets(st.sampled_from(NAMES), min_size=2)
REKEYED = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 1), min_size=2)
"""Clients of a sum, each with one of two keys."""


def dimension_on(group, rows):
    """Of the part of the rows' span that is zero outside of a group."""
    everybody = sorted({person for row in rows for person in row})
    full = [[Fraction(row[person]) for person in everybody] for row in rows]
    outside = [[Fraction(row[who]) for who in everybody if who not in group] for row in rows]
    return rank_of(full) - rank_of(outside)


def groups_below(least, persons):
    return [
        frozenset(group)
        for size in range(1, least)
        for group in combinations(sorted(persons), size)
    ]


def tells_few_apart(rows, least):
    persons = {person for row in rows for person in row}
    return any(dimension_on(group, rows) for group in groups_below(least, persons))


def newly_exposed(asked, before, least):
    """The smallest groups to which the asked row comes down with the others."""
    everybody = sorted({person for row in (asked, *before) for person in row})

    def follows(outside):
        rows = [[Fraction(row[who]) for who in outside] for row in before]
        return rank_of([*rows, [Fraction(asked[who]) for who in outside]]) == rank_of(rows)

    if follows(everybody):
        return set()
    found = [
        group
        for group in groups_below(least, everybody)
        if follows([who for who in everybody if who not in group])
    ]
    return {group for group in found if not any(other < group for other in found)}


def opened(clients, least):
    """A sum of clients with keys, as the history knows it."""
    keys = {KEYS[name][which].public.signing: name for name, which in clients.items()}
    return {"clients": keys, "least": least}


def request_of(clients, least):
    """A request in a round of its own; nobody has to open its boxes."""
    chosen = [KEYS[name][which].public for name, which in sorted(clients.items())]
    board = [BOARD.public]
    private_round = declare_round(
        OPERATOR, ZERO, 1000, clients=chosen, keyholders=board, least_clients=least
    )
    return Request(
        private_round, {key.name: SignedHeader({"payload": "0" * 64}, b"") for key in chosen}
    )


@settings(max_examples=60)
@given(st.lists(REKEYED, min_size=1, max_size=5), st.integers(2, 4))
def test_private_answers_tell_no_few_clients_apart(asked, least):
    """By a history on the disk, and however names and keys belong together."""
    answered = []
    with TemporaryDirectory() as folder:
        history = History(f"{folder}/history", new=True)
        for clients in asked:
            if len(clients) < least:
                continue
            with suppress(FederationError):
                history.add(request_of(clients, least), "board")
                answered.append(clients)
    for same in product([True, False], repeat=len(NAMES)):
        merged = dict(zip(NAMES, same, strict=True))
        rows = [
            Counter(name if merged[name] else f"{name}{which}" for name, which in clients.items())
            for clients in answered
        ]
        assert not tells_few_apart(rows, least)


@given(st.lists(SETS, max_size=5), SETS, st.integers(2, 4))
def test_despite_difference_must_name_exactly_the_exposed(before, asked, least):
    assume(len(asked) >= least)
    sets = [opened(dict.fromkeys(names, 0), least) for names in (*before, asked)]
    expected = newly_exposed(Counter(asked), [Counter(names) for names in before], least)
    assert {*find_exposed(sets[-1], sets[:-1])} == frozenset().union(*expected)


@given(st.lists(st.tuples(SETS, st.integers(2, 4)), max_size=4), SETS, st.integers(2, 4))
def test_the_larger_least_of_the_rounds_that_are_combined_counts(before, asked, least):
    assume(len(asked) >= least)
    sets = [opened(dict.fromkeys(names, 0), own) for names, own in before]
    expected = set()
    if newly_exposed(Counter(asked), [Counter(names) for names, _ in before], len(NAMES) + 1):
        for limit in range(least, 5):
            rows = [Counter(names) for names, own in before if own <= limit]
            found = newly_exposed(Counter(asked), rows, limit)
            if limit > least:
                smaller = [Counter(names) for names, own in before if own < limit]
                found -= newly_exposed(Counter(asked), smaller, limit)
            expected |= found
    assert {*find_exposed(opened(dict.fromkeys(asked, 0), least), sets)} == frozenset().union(
        *expected
    )
