"""A server that works with every keyholder but one learns sums of enough clients, nothing else."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest

from private_support.private_rounds import make_parties
from safle import Statistics, sum_statistics
from safle.errors import FederationError
from safle_private.differences import check_sets
from support.data_sets import fixed_data
from support.rationals import rank_of

DATA = fixed_data("linear", 40)
PARTS = [DATA.part(slice(10 * at, 10 * at + 10)).count() for at in range(4)]
ZERO = Statistics.empty(DATA.encoder.space, [0, 1, 2])


@pytest.mark.parametrize("keyholders", [2, 3])
def test_keyholders_open_no_difference_without_comparing(keyholders, tmp_path):
    """The server asks one for {0, 1, 2}, another for all, and the last helps with both."""
    parties = make_parties(ZERO, 4, keyholders=keyholders, least_clients=2)
    files = [parties.mask(at, part) for at, part in enumerate(PARTS)]
    few, all_of_them = parties.gather(files[:3]), parties.gather(files)
    asked = [few, all_of_them]
    given = {few.request.digest: {}, all_of_them.request.digest: {}}
    for at in range(keyholders):
        colludes = at == keyholders - 1
        # Each keyholder is asked for the other set first, and then for what is still missing.
        for number, total in enumerate(asked if at % 2 == 0 else asked[::-1]):
            history = tmp_path / f"{at}-{number if colludes else 'only'}"
            if colludes or number == 0:
                given[total.request.digest][at] = parties.answer(at, total, history)
            else:
                with pytest.raises(FederationError, match="would tell 1 client apart"):
                    parties.answer(at, total, history)
    opened = []
    for total in asked:
        answers = [*given[total.request.digest].values()]
        if len(answers) == keyholders:
            opened.append(parties.open(total, answers))
        else:
            with pytest.raises(FederationError, match="no answer of"):
                parties.open(total, answers)
    # With an honest keyholder alone only the set that it was asked first; with two of them, who
    # were asked differently, none.
    assert opened == ([sum_statistics(PARTS[:3])] if keyholders == 2 else [])


@pytest.mark.parametrize(
    ("clients", "least"),
    [(2, 2), (3, 2), (4, 2), (4, 3), (5, 3), pytest.param(5, 2, marks=pytest.mark.slow)],
)
def test_keyholders_tell_nobody_apart_for_any_requests(clients, least):
    """Every set of requests over up to five clients, with the honest keyholder's rule applied.

    A refused request leaves no trace, so that all sequences of requests lead to the histories
    that are walked through here.
    """
    requests = [
        frozenset(chosen)
        for size in range(1, clients + 1)
        for chosen in combinations(range(clients), size)
    ]
    seen, waiting = {frozenset()}, [frozenset()]
    while waiting:
        opened = waiting.pop()
        for request in requests:
            more = opened | {request}
            if more not in seen and accepted(more, least):
                seen.add(more)
                waiting.append(more)
                assert fewest_derived(more, clients) >= least
    assert max(map(len, seen)) == clients // least
    # The oracle sees what the rule prevents: any two sets that differ by one client.
    if clients > 2:
        everybody = frozenset(range(clients))
        assert fewest_derived({everybody, everybody - {0}}, clients) == 1


def accepted(opened, least):
    try:
        check_sets(opened, least)
    except FederationError:
        return False
    return True


def fewest_derived(opened, clients):
    """The fewest clients whose sum the server can work out, by elimination over fractions.

    Unknowns are every client's value x and its mask m of the honest keyholder: all other masks
    are known. The server has x + m of every client, and of the honest keyholder the sum of m over
    every set that was opened. A group of clients can be worked out if the sum of its x is in the
    span of these.
    """
    places = range(2 * clients)
    sent = [[Fraction(at % clients == client) for at in places] for client in range(clients)]
    answered = [
        [Fraction(at >= clients and at - clients in chosen) for at in places] for chosen in opened
    ]
    rank = rank_of(sent + answered)
    for size in range(1, clients + 1):
        for group in combinations(range(clients), size):
            wanted = [Fraction(at in group) for at in places]
            if rank_of([*sent, *answered, wanted]) == rank:
                return size
    return clients + 1
