"""The airlock: a site answers what its inbox asks, by its own rules, and nothing else leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import safle as library
from private_support.private_rounds import make_parties
from safle import Statistics, decode
from safle.errors import FederationError, WireError
from safle.site.log import read_log
from safle_flower.airlock import Airlock, Question, Refused, command_for
from safle_flower.airlock_cli import airlock as command
from safle_private import Gathering, History, Masked
from support.data_sets import fixed_data
from support.tables import write_table

DATA = fixed_data("linear", 60)
COUNT = Question(
    "count",
    {"encoder.safetensors": DATA.encoder.to_bytes()},
    {"fingerprint": DATA.encoder.fingerprint},
)


@pytest.fixture
def airlock(tmp_path: Path) -> Airlock:
    made = Airlock(tmp_path / "inbox", tmp_path / "outbox")
    made.inbox.mkdir()
    made.outbox.mkdir()
    return made


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    write_table(tmp_path / "own/visits.npz", DATA.features, DATA.labels)
    return tmp_path / "own/visits.npz"


@pytest.fixture
def answer(safle, airlock):
    """``answer(question, ...)``: ask, let the site's command run once; the answer."""

    def ask(question, *options):
        airlock.ask(question)
        safle("airlock", airlock.inbox, airlock.outbox, *options)
        return airlock.find_answer(question)

    return ask


def test_a_count_is_that_of_the_command(answer, airlock, table, safle, tmp_path):
    data = answer(COUNT, table)
    safle("count", table, "--encoder", _saved(tmp_path), "-o", tmp_path / "own/a.stats")
    assert data == (tmp_path / "own/a.stats").read_bytes()
    # Asked again, it is there, and nothing is counted.
    written = airlock.answer_path(COUNT).stat()
    assert answer(COUNT, table) == data
    assert airlock.answer_path(COUNT).stat() == written


def _saved(folder: Path) -> Path:
    DATA.encoder.save(folder / "own/encoder.safetensors")
    return folder / "own/encoder.safetensors"


def test_sheets_are_the_owners_alone_and_the_log_says_what_left(
    answer, airlock, table, tmp_path, monkeypatch
):
    monkeypatch.setenv("SAFLE_LOG", str(tmp_path / "own/log.jsonl"))
    answer(COUNT, table)
    modes = {path.suffix: path.stat().st_mode & 0o777 for path in airlock.outbox.iterdir()}
    assert modes[".txt"] == modes[".json"] == 0o600
    assert modes[".stats"] & 0o044
    events = [event["event"] for event in read_log(tmp_path / "own/log.jsonl")]
    assert events == ["sent", "accepted"]


def test_airlock_refusal_names_only_the_policy_rule(answer, airlock, table, tmp_path):
    (tmp_path / "policy.toml").write_text("least_samples = 61")
    with pytest.raises(Refused, match=r"^its policy refuses: least_samples$"):
        answer(COUNT, table, "--policy", tmp_path / "policy.toml")
    assert [path.suffix for path in airlock.outbox.iterdir()] == [".refused"]
    # A policy that cannot be read lets nothing out.
    (tmp_path / "policy.toml").write_text("least_sample = 1")
    with pytest.raises(Refused, match=r"^SettingsError; its own log says more$"):
        answer(COUNT, table, "--policy", tmp_path / "policy.toml")
    # Once the site has changed its rules, the same question is answered when it comes again.
    (tmp_path / "policy.toml").write_text("least_samples = 60")
    data = answer(COUNT, table, "--policy", tmp_path / "policy.toml")
    assert decode(data).sample_count == 60


def test_a_second_encoder_waits_for_a_person(answer, table):
    answer(COUNT, table)
    other = fixed_data("embedding").encoder
    again = Question(
        "count", {"encoder.safetensors": other.to_bytes()}, {"fingerprint": other.fingerprint}
    )
    with pytest.raises(Refused, match="has answered 1 questions of this kind"):
        answer(again, table)
    assert decode(answer(again, table, "--most", 2)).fingerprint == other.fingerprint


def test_a_key_without_a_policy_answers_private_rounds_only(answer, table, tmp_path):
    parties = make_parties(Statistics.empty(DATA.encoder.space, [0, 1, 2]), 3)
    parties.operator.public.save(tmp_path / "operator.pub")
    parties.clients[0].save(tmp_path / "a.key")
    papers = ["--operator", tmp_path / "operator.pub", "--key", tmp_path / "a.key"]
    plain = Question("evaluate", {"model.safetensors": b"x"}, {})
    for question in (COUNT, plain):
        with pytest.raises(Refused, match="answers private rounds only"):
            answer(question, table, "--test", table, *papers)
    files = {"round.private": parties.private_round.data, **COUNT.files}
    masked = answer(
        Question("mask", files, {"round": parties.private_round.digest}), table, *papers
    )
    gathering = Gathering(parties.private_round)
    gathering.add(Masked.from_bytes(masked, parties.private_round))
    assert gathering.clients == ["client-00"]
    (tmp_path / "policy.toml").write_text('mode = "plain"')
    assert answer(COUNT, table, *papers, "--policy", tmp_path / "policy.toml")


def test_a_keyholder_opens_and_says_why_it_does_not(answer, tmp_path):
    parties = make_parties(Statistics.empty(DATA.encoder.space, [0, 1, 2]), 3, least_clients=3)
    parties.operator.public.save(tmp_path / "operator.pub")
    parties.keyholders[0].save(tmp_path / "k.key")
    parts = [DATA.part(np.arange(60) % 3 == at).count() for at in range(3)]
    total = parties.gather([parties.mask(at, part) for at, part in enumerate(parts)])
    files = {"request.ask": total.request.to_bytes(), "round.private": parties.private_round.data}
    expects = {"round": parties.private_round.digest, "request": total.request.digest}
    papers = ["--operator", tmp_path / "operator.pub", "--key", tmp_path / "k.key"]
    with pytest.raises(Refused, match="no history"):
        answer(Question("open", files, expects), *papers)
    papers += ["--history", tmp_path / "opened.history"]
    with pytest.raises(Refused, match="this history is empty"):
        answer(Question("open", files, expects), *papers)
    History(tmp_path / "opened.history", new=True)
    assert answer(Question("open", files, expects), *papers)
    few = replace(total.request, heads=dict([*total.request.heads.items()][:2]))
    files["request.ask"] = few.to_bytes()
    expects["request"] = few.digest
    with pytest.raises(Refused, match="client"):
        answer(Question("open", files, expects), *papers)


def test_an_answer_to_another_question_is_not_sent(airlock):
    other = fixed_data("embedding", 60)
    data = library.encode(other.count())
    airlock.ask(COUNT)
    airlock.answer_path(COUNT).write_bytes(data)
    with pytest.raises(FederationError, match="another fingerprint"):
        airlock.find_answer(COUNT)
    airlock.answer_path(COUNT).write_bytes(data[:-1])
    with pytest.raises(WireError, match="checksum"):
        airlock.find_answer(COUNT)


def test_a_keyholder_never_opens_a_sum_despite_a_difference():
    """The command of a watcher, to the word; and the airlock has no option to add to it."""
    files = {"request.ask": "r.ask", "round.private": "r.private"}
    words = command_for("open", files, "DATA", "out.answer", yes=True)
    expected = ["private", "answer", "r.ask", "--round", "r.private", "-o", "out.answer", "--yes"]
    assert words == expected
    assert not [option for option in command.params if "despite" in str(option.name)]


def test_airlock_names_both_answering_commands(airlock):
    waiting, one, own = airlock.explain(COUNT)
    assert str(airlock.answer_path(COUNT)) in waiting
    assert one.endswith(f"safle airlock {airlock.inbox} {airlock.outbox} DATA")
    encoder = airlock.inbox / COUNT.name / "encoder.safetensors"
    assert own.endswith(f"safle count DATA --encoder {encoder} -o {airlock.answer_path(COUNT)}")
