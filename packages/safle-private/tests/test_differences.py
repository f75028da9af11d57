"""Sums of several rounds: one that gives few clients away opens on purpose only, by their names."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from private_support.private_rounds import make_parties
from safle import Statistics
from safle.errors import FederationError, SettingsError
from safle_private import History, KeyholderAnswer, PrivateKey
from safle_private.differences import find_exposed
from safle_private.keyholder import explain
from support.data_sets import fixed_data, fixed_encoder

DATA = fixed_data("linear", 60)
PARTS = [DATA.part(slice(10 * at, 10 * at + 10)).count() for at in range(6)]
ZERO = Statistics.empty(DATA.encoder.space, [0, 1, 2])


@pytest.fixture(scope="module")
def parties():
    return make_parties(ZERO, 6, least_clients=2)


@pytest.fixture
def history(tmp_path):
    return tmp_path / "history"


def total_of(parties, *chosen, **rules):
    """A round of its own, and the masked sum of some clients in it."""
    again = parties.again(ZERO, **rules)
    return again, again.gather([again.mask(at, PARTS[at]) for at in chosen])


def answer(parties, chosen, history, *, despite=(), **rules):
    again, total = total_of(parties, *chosen, **rules)
    return again.answer(0, total, history, despite=despite)


def renewed(parties, chosen, names=None):
    """The same parties, some of whose clients have new keys, or other names."""
    clients = [*parties.clients]
    for at in chosen:
        name = names or clients[at].name
        fresh = PrivateKey.new(name)
        clients[at] = msgspec.structs.replace(clients[at], name=name) if names else fresh
    return replace(parties, clients=clients)


def refused(parties, chosen, history, **rules):
    """The names that a refusal tells the keyholder to name."""
    with pytest.raises(FederationError, match="would give away") as error:
        answer(parties, chosen, history, **rules)
    return [name for name in str(error.value).split() if name.startswith("client-")][-1]


@pytest.mark.parametrize(
    ("before", "asked", "exposed"),
    [
        ([(0, 1, 2, 3)], (0, 1, 2), "client-03"),
        ([(0, 1, 2)], (0, 1, 2, 3), "client-03"),
        ([(0, 1, 2), (3, 4, 5)], (0, 1, 2, 3, 4), "client-05"),
        ([(0, 1, 2, 3), (2, 3, 4, 5)], (0, 1, 2, 3, 4), "client-04"),
        # {c, P, Q} + {c, R, S} - {P, R} - {Q, S} is 2c, where no two of them tell few apart.
        ([(0, 1, 2), (0, 3, 4), (1, 3)], (2, 4), "client-00"),
    ],
)
def test_a_round_that_gives_one_client_away_is_refused(parties, before, asked, exposed, history):
    for chosen in before:
        answer(parties, chosen, history)
    again, total = total_of(parties, *asked)
    for _ in range(2):
        with pytest.raises(FederationError, match=f"would give away {exposed}, alone or"):
            again.answer(0, total, history)
    kept = History(history)
    assert len(kept.sets()) == len(before)
    assert f"this one gives away {exposed}," in "\n".join(explain(total.request, kept))


def test_despite_difference_names_exactly_the_exposed_clients(history):
    parties = make_parties(ZERO, 6, least_clients=3)
    answer(parties, range(6), history, least_clients=3)
    again, total = total_of(parties, *range(4), least_clients=3)
    for wrong in (["client-04"], ["client-04", "client-05", "client-00"], ["nobody"], ["yes"]):
        with pytest.raises(FederationError, match="despite-difference"):
            again.answer(0, total, history, despite=wrong)
    assert [row["despite"] for row in History(history).sets()] == [[]]
    names = ["client-04", "client-05"]
    first = again.answer(0, total, history, despite=names)
    kept = {row["request"]: row["despite"] for row in History(history).sets()}
    assert kept[total.request.digest] == names
    # The same request again needs no name; a sum that gives nobody away takes none.
    assert again.answer(0, total, history) == first
    with pytest.raises(FederationError, match="those whom it does: nobody"):
        answer(parties, range(6), history, least_clients=3, despite=names)
    # What is known already is not given away once more.
    answer(parties, range(4), history, least_clients=3)


def test_the_rule_of_one_round_has_no_exception(parties, history):
    again, total = total_of(parties, *range(6))
    again.answer(0, total, history)
    heads = dict([*total.request.heads.items()][:5])
    fewer = replace(total, request=replace(total.request, heads=heads))
    with pytest.raises(FederationError, match="tell 1 client apart"):
        again.answer(0, fewer, history, despite=["client-05"])


def test_the_larger_least_of_two_rounds_counts(history):
    parties = make_parties(ZERO, 6, least_clients=3)
    answer(parties, range(6), history, least_clients=3)
    assert refused(parties, range(4), history) == "client-05"


def test_differences_ignore_rounds_with_a_smaller_least_number(history):
    """Its clients have agreed to its least: a sum of it opens beside a round of many."""
    parties = make_parties(ZERO, 6, least_clients=2)
    answer(parties, range(6), history, least_clients=4)
    answer(parties, range(2), history)


@pytest.mark.parametrize("kind", ["new keys", "a new name"])
def test_differences_join_a_person_with_two_names_or_keys(parties, kind, history):
    answer(parties, range(6), history)
    again = renewed(parties, range(5)) if kind == "new keys" else renewed(parties, [2], "client-xx")
    # All but the last: by names alone, or by keys alone, these would be other clients.
    assert refused(again, range(5), history) == "client-05"


def test_a_new_key_may_be_somebody_else(history):
    """The operator replaces a client by one of its own, and takes its sum off."""
    parties = make_parties(ZERO, 6, least_clients=3)
    answer(parties, range(6), history, least_clients=3)
    assert refused(renewed(parties, [3]), range(6), history, least_clients=3) == "client-03"
    # Also where all others have new keys as well.
    everybody = refused(renewed(parties, range(6)), range(6), history, least_clients=3)
    assert everybody == "client-05"
    answer(renewed(parties, [3]), range(6), history, least_clients=3, despite=["client-03"])


def test_differences_keep_other_clients_apart(parties, history):
    answer(parties, (0, 1, 2), history)
    answer(parties, (3, 4, 5), history)
    answer(parties, range(6), history)


def test_sums_that_overlap_too_much_to_be_judged_are_refused():
    g = np.random.default_rng(0)
    keys = [f"{at:064x}" for at in range(60)]
    sets = [
        {"clients": {key: key for key in keys if g.random() < 0.5}, "least": 20} for _ in range(12)
    ]
    began = time.monotonic()
    with pytest.raises(FederationError, match="in too many ways to judge"):
        find_exposed(sets[-1], sets[:-1])
    assert time.monotonic() - began < 60


def test_a_long_history_is_judged_quickly():
    """A round a week for ten years, with the same clients and with more of them each year."""
    keys = [f"{at:064x}" for at in range(200)]
    sets = [
        {"clients": {key: key for key in keys[: 20 * (1 + at // 52)]}, "least": 10}
        for at in range(520)
    ]
    began = time.monotonic()
    assert find_exposed(sets[-1], sets[:-1]) == {}
    assert time.monotonic() - began < 5


def test_an_empty_history_is_refused_until_it_is_begun(parties, history):
    with pytest.raises(FederationError, match="this history is empty"):
        History(history)
    assert not history.exists()
    History(history, new=True)
    assert History(history).sets() == []


def test_a_new_history_is_not_for_every_day(parties, history):
    """A keyholder who always says that its history is new would not notice that it is gone."""
    answer(parties, range(6), history)
    _, total = total_of(parties, *range(6))
    kept = History(history, new=True)
    with pytest.raises(FederationError, match="leave --new-history out"):
        kept.check(total.request, "keyholder-0")


def test_an_older_copy_of_a_history_is_refused(parties, history, tmp_path):
    older = tmp_path / "older"
    answer(parties, range(6), history)
    shutil.copytree(history, older)
    second = KeyholderAnswer.read_names(answer(parties, range(4), history))
    after = {second[0]: [second[1]]}
    with pytest.raises(FederationError, match="lacks 1 of the 1 sums"):
        answer(parties, range(6), older, after=after)
    answer(parties, range(6), history, after=after)
    again, total = total_of(parties, *range(6), after=after)
    # The other keyholder was not asked then; the first goes on if it says that its history is lost.
    again.answer(1, total, tmp_path / "other")
    assert History(older, new=True).check(total.request, "keyholder-0")
    with pytest.raises(SettingsError, match="not a keyholder of this round"):
        parties.again(ZERO, after={"client-00": [second[1]]})


@pytest.fixture
def board(safle, tmp_path, monkeypatch):
    """Files of two rounds of four clients, the second one without the last client."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAFLE_LOG", "log.jsonl")
    fixed_encoder("linear").save("encoder.safetensors")
    for name in ("operator", "a", "b", "c", "d", "board"):
        safle("private", "keys", name, "-o", f"{name}.key")
    for name in "abcd":
        np.savez(f"{name}.npz", features=DATA.features[:10], labels=DATA.labels[:10])
    return safle


def ask(safle, name, clients, *options):
    """A round of these clients, up to the request: ``NAME.ask`` and ``NAME.masked``."""
    everybody = [word for client in "abcd" for word in ("--client", f"{client}.pub")]
    what = ("--encoder", "encoder.safetensors", "--classes", "0,1,2", "--most-total-samples", 99)
    who = (*everybody, "--keyholder", "board.pub", "--key", "operator.key", *options)
    safle("private", "round", *what, *who, "-o", f"{name}.private")
    papers = ("--round", f"{name}.private", "--operator", "operator.pub")
    for client in clients:
        own = ("--encoder", "encoder.safetensors", *papers, "--key", f"{client}.key")
        safle("count", f"{client}.npz", *own, "-o", f"{name}-{client}.masked")
    files = [f"{name}-{client}.masked" for client in clients]
    safle("private", "sum", *files, *papers, "--request", f"{name}.ask", "-o", f"{name}.masked")
    own = ("--key", "board.key", "--history", "board.history", "--yes")
    return ("private", "answer", f"{name}.ask", *papers, *own, "-o", f"{name}.answer")


def test_yes_does_not_open_a_second_round_without_one_client(board):
    first, second = ask(board, "first", "abcd"), ask(board, "second", "abc")
    assert "say --new-history" in board(*first, code=1)
    assert not Path("board.history").exists()
    board(*first, "--new-history")
    said = board(*second, code=1)
    assert "error: with the sums opened before, this would give away d, alone or" in said
    assert said.rstrip().endswith("are counted, answer with --despite-difference d")
    assert not Path("second.answer").exists()
    assert "does not give c away" in board(*second, "--despite-difference", "c", code=1)
    board(*second, "--despite-difference", "d")
    assert Path("second.answer").exists()
    assert [row["despite"] for row in History("board.history").sets()] == [[], ["d"]]
    assert "which gives away d" in board("log")


def test_a_round_names_the_answers_that_a_history_must_hold(board):
    first = ask(board, "first", "abcd")
    board("private", "keys", "again", "-o", "again.key", "--new-history", "board.history")
    shutil.copytree("board.history", "older")
    board(*first)
    second = ask(board, "second", "abcd", "--after", "first.answer")
    ask(board, "third", "abcd", "--after", ".")
    assert "after sums of" in board("inspect", "third.private")
    assert "after sums of" in board("inspect", "second.private")
    shutil.move("board.history", "right")
    shutil.copytree("older", "board.history")
    assert "it is an older copy, or another's" in board(*second, code=1)
    shutil.rmtree("board.history")
    shutil.move("right", "board.history")
    board(*second)
    taken = ("private", "keys", "more", "-o", "more.key", "--new-history", "board.history")
    assert "it exists" in board(*taken, code=2)
    assert not Path("more.key").exists()
