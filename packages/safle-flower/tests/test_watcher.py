"""A watcher that nobody can stop: the real command, beside whatever an inbox can hold.

Fast tests have one process for a whole matrix of faults.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
import tracemalloc
from pathlib import Path

import psutil
import pytest

from flower_support.inboxes import FAULTS, MOST_PEAK, SAFLE, THREE_GB, watching
from flower_support.network import eventually
from private_support.private_rounds import make_parties
from safle import Statistics
from safle.errors import FederationError, WireError
from safle_flower.airlock import Airlock, Question, Refused
from safle_flower.watcher import Watcher
from support.data_sets import fixed_data
from support.tables import write_table

DATA = fixed_data("linear", 60)
ENCODER = DATA.encoder.to_bytes()
KINDS = {
    "count": ["encoder.safetensors"],
    "mask": ["encoder.safetensors", "round.private"],
    "evaluate": ["model.safetensors"],
    "open": ["request.ask", "round.private"],
}
HOLDERS = {
    "question.json": "count",
    "asked": "count",
    "encoder.safetensors": "count",
    "round.private": "mask",
    "model.safetensors": "evaluate",
    "request.ask": "open",
}
"""Every file of a question, and a kind of question that has it."""


def question(kind: str = "count", mark: str = DATA.encoder.fingerprint) -> Question:
    """One of many: the mark makes its name differ."""
    return Question(kind, dict.fromkeys(KINDS[kind], ENCODER), {"fingerprint": mark})


GOOD = question()


def another(number: int) -> Question:
    """Other good questions: the fingerprint is right, and something else is asked for, too."""
    expects = {"fingerprint": DATA.encoder.fingerprint, "features": f"{number}"}
    return Question("count", GOOD.files, expects)


@pytest.fixture
def folders(tmp_path: Path) -> Airlock:
    made = Airlock(tmp_path / "inbox", tmp_path / "outbox")
    made.inbox.mkdir()
    made.outbox.mkdir()
    return made


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    """The words of a site that answers every kind of question."""
    own = tmp_path / "own"
    own.mkdir()
    write_table(own / "visits.npz", DATA.features, DATA.labels)
    parties = make_parties(Statistics.empty(DATA.encoder.space, [0, 1, 2]), 3)
    parties.operator.public.save(own / "operator.pub")
    parties.keyholders[0].save(own / "own.key")
    (own / "policy.toml").write_text('mode = "plain"')
    table = own / "visits.npz"
    papers = ["--operator", own / "operator.pub", "--key", own / "own.key"]
    papers += ["--history", own / "opened.history", "--policy", own / "policy.toml"]
    return [table, "--test", table, "--most", 100, *papers]


def put(folders: Airlock, name: str, texts: dict[str, bytes]) -> Path:
    place = folders.inbox / name
    place.mkdir()
    for file, text in {"asked": b"0" * 32, **texts}.items():
        (place / file).write_bytes(text)
    return place


def name_for(kind: str, text: bytes, files: dict[str, bytes]) -> str:
    """The right name for any text, as docs and `Question.name` say it."""
    digest = hashlib.sha256(text)
    for name, data in sorted(files.items()):
        digest.update(f"\n{name} {len(data)}\n".encode() + hashlib.sha256(data).digest())
    return f"{kind}-{digest.hexdigest()[:32]}"


def spoil_every_file(folders: Airlock) -> dict[str, str]:
    """A question for every file and fault, by name; what is wrong with it."""
    spoiled = {}
    for file, kind in HOLDERS.items():
        for fault, spoil in FAULTS.items():
            asked = question(kind, f"{file} {fault}")
            folders.ask(asked)
            spoil(folders.inbox / asked.name / file)
            spoiled[asked.name] = f"{file} {fault}"
    return spoiled


TOKENS = ("missing", "folder", "pipe", "not-utf8", "sparse")


def test_watcher_survives_what_ended_it_once(folders, words):
    """Right names without the files, and tokens that nobody can repeat in a refusal."""
    names = []
    for kind in ("count", "evaluate"):
        text = question(kind, "nothing").to_json()
        names.append(name_for(kind, text, {}))
        put(folders, names[-1], {"question.json": text})
    for fault in TOKENS:
        # A site without keys refuses it, whatever its token.
        asked = question("open", fault)
        folders.ask(asked)
        FAULTS[fault](folders.inbox / asked.name / "asked")
        names.append(asked.name)
    for started in (GOOD, another(1)):
        # Again after a restart.
        folders.ask(started)
        with watching(folders, *words[:3], "--most", 2) as watcher:
            eventually(lambda: watcher.has_answered(started), explain=watcher.said)  # noqa: B023
            eventually(lambda: all(map(watcher.has_refused, names)), explain=watcher.said)


def test_every_fault_of_every_file_is_refused_and_the_good_is_answered(folders, words):
    spoiled = spoil_every_file(folders)
    folders.ask(GOOD)
    with watching(folders, *words) as watcher:
        eventually(lambda: watcher.has_answered(GOOD), explain=watcher.said)
        for name, what in spoiled.items():
            eventually(lambda: watcher.has_refused(name), explain=lambda: what + watcher.said())  # noqa: B023
        said = watcher.said()
        assert watcher.peak() < MOST_PEAK
        assert "Traceback" not in said
        assert "unexpected" not in said
        assert watcher.end() == 143
    for name, what in spoiled.items():
        assert said.count(f"{name}: asked") == 1, what
        reason = (folders.outbox / f"{name}.refused").read_text().split("\n")[1]
        assert what.split()[0] in reason or "the digest of its files" in reason, what

    # After a restart none of them is read again; what was repaired is, and a new one is answered.
    repaired = question("count", "encoder.safetensors missing")
    folders.inbox.joinpath(repaired.name, "encoder.safetensors").write_bytes(ENCODER)
    folders.ask(another(1))
    with watching(folders, *words) as watcher:
        eventually(lambda: watcher.has_answered(another(1)), explain=watcher.said)
        eventually(lambda: watcher.has_answered(repaired), explain=watcher.said)
        assert watcher.said().count(": asked") == 2


def test_the_asker_learns_the_reason(folders, words):
    """Its token is whole, so that the refusal is an answer to this asking."""
    folders.ask(GOOD)
    (folders.inbox / GOOD.name / "encoder.safetensors").unlink()
    with watching(folders, *words) as watcher:
        eventually(lambda: watcher.has_refused(GOOD.name), explain=watcher.said)
        with pytest.raises(Refused, match=r"^encoder\.safetensors is missing$"):
            folders.find_answer(GOOD)
        # Whole again and asked again.
        shutil.rmtree(folders.inbox / GOOD.name)
        folders.ask(GOOD)
        eventually(lambda: folders.find_answer(GOOD), explain=watcher.said)


TEXTS = {
    "deep": b"[" * 4000,
    "deep in a field": b'{"expects":{"a":' + b"[" * 4000,
    "nothing": b"{}",
    "a list": b'["count"]',
    "a kind that is a list": b'{"expects":{},"kind":["count"]}',
    "no such kind": b'{"expects":{},"kind":"steal"}',
    "expects a number": b'{"expects":7,"kind":"count"}',
    "another kind": b'{"expects":{},"kind":"open"}',
    "not UTF-8": b'{"expects":{"a":"\xff"},"kind":"count"}',
    "half a surrogate": b'{"expects":{"a":"\\ud800"},"kind":"count"}',
    "a long number": b'{"expects":{"a":' + b"9" * 4000 + b'},"kind":"count"}',
    "null": b"null",
}
"""Texts of questions whose names are right."""


def test_watcher_refuses_invalid_names_and_texts(folders, words, tmp_path):
    """Right names of wrong texts and files, wrong names, and entries that are no folders."""
    refused = []
    for text in TEXTS.values():
        files = {"encoder.safetensors": ENCODER}
        name = name_for("count", text, files)
        put(folders, name, {"question.json": text, **files})
        refused.append(name)
    # What only the site's own command finds: a header longer than the file.
    rubbish = (1 << 62).to_bytes(8, "little") + b"{" * 99
    for kind, names in KINDS.items():
        asked = Question(kind, dict.fromkeys(names, rubbish), {"fingerprint": "x"})
        folders.ask(asked)
        refused.append(asked.name)
    names = [f"{kind}-{at:032x}" for at, kind in enumerate(KINDS)]
    put(folders, names[0], {"question.json": GOOD.to_json(), **GOOD.files})
    (folders.inbox / names[1]).write_bytes(b"a file")
    os.mkfifo(folders.inbox / names[2])
    (folders.inbox / names[3]).symlink_to(folders.inbox / names[0])
    refused += names
    crowded = folders.inbox / "count-" / "inside"
    crowded.mkdir(parents=True)
    for at in range(2000):
        (crowded / f"{at}").touch()
    shutil.copytree(crowded, folders.inbox / names[0] / "more")
    odd = [b"count-\xff\xfe", b"count-\n\x1b[31m", b"open-" + b"a" * 200, b"count"]
    odd += ["\N{BOMB}".encode()]
    for name in odd:
        (folders.inbox / os.fsdecode(name)).mkdir()
    folders.ask(GOOD)
    with watching(folders, *words) as watcher:
        eventually(lambda: watcher.has_answered(GOOD), explain=watcher.said)
        for name in refused:
            eventually(lambda: watcher.has_refused(name), explain=lambda: name + watcher.said())  # noqa: B023
        eventually(lambda: watcher.said().count("is not a kind and a digest") == 6)
        folders.ask(another(1))
        eventually(lambda: watcher.has_answered(another(1)), explain=watcher.said)
        said = watcher.said()
        assert watcher.peak() < MOST_PEAK
    assert said.count("is not a kind and a digest") == 6
    assert "\x1b" not in said
    suffixes = {path.suffix for path in folders.outbox.iterdir()}
    assert suffixes == {".refused", ".stats", ".txt", ".json"}


@pytest.mark.slow
def test_a_flood_of_questions(folders, words):
    """Two thousand bad ones that came before the good one."""
    text = json.dumps({"kind": "count"}).encode()
    for at in range(2000):
        place = folders.inbox / f"count-{at:032x}"
        place.mkdir()
        (place / "question.json").write_bytes(text)
    folders.ask(GOOD)
    with watching(folders, *words, "--quiet") as watcher:
        eventually(lambda: watcher.has_answered(GOOD), explain=watcher.said)
        assert watcher.peak() < MOST_PEAK
    assert len([*folders.outbox.glob("*.refused")]) == 2000


def test_watcher_ignores_entries_other_than_questions(folders, monkeypatch):
    """However many there are: more than the watcher remembers would be looked at for ever."""
    monkeypatch.setattr("safle_flower.watcher.MOST_STRANGERS", 5)
    monkeypatch.setattr("safle_flower.watcher.MOST_REMEMBERED", 5)
    monkeypatch.setattr("safle_flower.watcher.MOST_AT_ONCE", 4)
    for at in range(50):
        (folders.inbox / f"stranger-{at}").touch()
    folders.ask(GOOD)
    watcher = Watcher(folders)
    met = []
    for _ in range(30):
        for waiting in watcher.find_waiting():
            met.append(waiting.name)
            watcher.refuse(waiting, "no")
    assert met.count(GOOD.name) == 1
    assert len(met) <= 6


@pytest.mark.parametrize("log", ["full", "gone"])
def test_a_log_that_cannot_be_written_ends_no_watcher(folders, words, log):
    if log == "full" and not Path("/dev/full").exists():
        pytest.skip("needs a device that is always full")
    end, own_end = os.pipe()
    os.close(end)
    place = os.open("/dev/full", os.O_WRONLY) if log == "full" else own_end
    (folders.inbox / "no question").mkdir()
    folders.ask(GOOD)
    command = [SAFLE, "airlock", folders.inbox, folders.outbox, *words[:3], "--watch"]
    watcher = subprocess.Popen([*map(str, command)], stderr=place)
    try:
        eventually(folders.answer_path(GOOD).exists)
        assert watcher.poll() is None
        # A line that cannot be written keeps no signal from ending it, either.
        watcher.terminate()
        assert watcher.wait(60) == 143
    finally:
        watcher.kill()
        os.close(own_end)


def test_an_outbox_that_cannot_be_written(folders, words, tmp_path):
    """Nothing is refused for good meanwhile, and a line says what is wrong."""
    with watching(folders, *words) as watcher:
        folders.ask(another(1))
        eventually(lambda: watcher.has_answered(another(1)), explain=watcher.said)
        folders.outbox.rename(tmp_path / "away")
        eventually(lambda: "until it can be used" in watcher.said(), explain=watcher.said)
        folders.ask(GOOD)
        (tmp_path / "away").rename(folders.outbox)
        eventually(lambda: watcher.has_answered(GOOD), explain=watcher.said)
        folders.inbox.rename(tmp_path / "away")
        eventually(lambda: watcher.said().count("until it can be used") == 2)
        (tmp_path / "away").rename(folders.inbox)
        # One refusal that cannot be written: a line, and the question is left alone.
        bad = question("open", "bad").name
        (folders.outbox / f"{bad}.refused").mkdir()
        folders.ask(question("open", "bad"))
        eventually(lambda: "its refusal cannot be written" in watcher.said())
        folders.ask(another(2))
        eventually(lambda: watcher.has_answered(another(2)), explain=watcher.said)
        assert watcher.said().count(f"{bad}: asked") == 1


def test_questions_that_move_while_they_are_read(folders, words):
    asked = Question("count", {"encoder.safetensors": ENCODER + b"x" * (64 << 20)}, {"a": "b"})
    place, stopped = folders.inbox / asked.name, threading.Event()

    def move() -> None:
        at = 0
        while not stopped.wait(0.003):
            at += 1
            shutil.rmtree(place, ignore_errors=True)
            put(folders, asked.name, {"question.json": asked.to_json()})
            with (place / "encoder.safetensors").open("wb") as file:
                file.truncate((64 << 20) + at)
            if at % 2:
                aside = place.rename(folders.inbox / f".aside-{at}")
                shutil.rmtree(aside)
                (folders.inbox / asked.name).touch()
                (folders.inbox / asked.name).unlink()

    mover = threading.Thread(target=move)
    with watching(folders, *words) as watcher:
        mover.start()
        try:
            eventually(lambda: watcher.said().count(f"{asked.name}: asked") > 3)
            folders.ask(GOOD)
            eventually(lambda: watcher.has_answered(GOOD), explain=watcher.said)
            assert watcher.peak() < MOST_PEAK
        finally:
            stopped.set()
            mover.join()


def test_a_command_that_hangs_or_is_killed_is_a_refusal(folders, words):
    counts = [words[0], "--most", 100]
    with watching(folders, *counts, "--seconds", 8) as watcher:
        folders.ask(GOOD)
        process = psutil.Process(watcher.process.pid)
        (child,) = eventually(process.children, explain=watcher.said)
        child.suspend()
        eventually(lambda: watcher.has_refused(GOOD.name), explain=watcher.said)
        with pytest.raises(Refused, match="took longer than 8 seconds"):
            folders.find_answer(GOOD)
    with watching(folders, *counts) as watcher:
        folders.ask(another(1))
        process = psutil.Process(watcher.process.pid)
        (child,) = eventually(process.children, explain=watcher.said)
        child.kill()
        eventually(lambda: watcher.has_refused(another(1).name), explain=watcher.said)
        with pytest.raises(Refused, match="ended with code -9"):
            folders.find_answer(another(1))
        # A signal ends the watcher, and the command with it.
        folders.ask(another(2))
        (child,) = eventually(process.children, explain=watcher.said)
        assert watcher.end() == 143
        assert psutil.wait_procs([child], 10)[1] == []
    with watching(folders, *words) as watcher:
        folders.ask(GOOD)
        eventually(lambda: watcher.has_answered(GOOD), explain=watcher.said)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "missing"])
@pytest.mark.parametrize("place", ["answer", "refusal"])
def test_an_asker_reads_regular_files_of_bounded_size(folders, fault, place, tmp_path):
    folders.ask(GOOD)
    (tmp_path / "outbox/deeper").mkdir()
    outbox = Airlock(folders.inbox, tmp_path / "outbox/deeper")
    path = outbox.answer_path(GOOD)
    if place == "refusal":
        path = outbox.outbox / f"{GOOD.name}.refused"
    path.write_bytes(b"0123456789abcdef0123456789abcdef\nno\n")
    FAULTS[fault](path)
    tracemalloc.start()
    try:
        if place == "refusal" and fault in ("empty", "one-byte", "not-utf8"):
            # Without the token of this asking it is not an answer to it.
            assert outbox.find_answer(GOOD) is None
        else:
            with pytest.raises(WireError, match=r"regular|bytes|safle file|read"):
                outbox.find_answer(GOOD)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_a_large_answer_costs_no_reading(folders):
    """Below the limit of 2 GB, but not a file of ours."""
    folders.ask(GOOD)
    folders.answer_path(GOOD).touch()
    os.truncate(folders.answer_path(GOOD), (1 << 31) - 1)
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="not a safle file"):
            folders.find_answer(GOOD)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_a_question_is_of_bounded_size_and_has_its_files():
    with pytest.raises(FederationError, match=r"round\.private"):
        Question("mask", {"encoder.safetensors": b""}, {})
    with pytest.raises(FederationError, match="at most 4,194,304"):
        Question("mask", {"encoder.safetensors": b"", "round.private": bytes((4 << 20) + 1)}, {})
    assert THREE_GB > 1 << 31
