"""Journals: rows are added and never changed; a change, and a kill in the middle, show."""

import json
import multiprocessing

import pytest

from safle.basics import journal
from safle.basics.journal import append_event, append_row, locked, read_rows
from safle.errors import StoreError

ROWS = [
    {"who": "a", "value": 0.1},
    {"who": "Klinik Süd\n", "value": None},
    {"who": "\udcff", "value": [1, {"b": True}]},
]


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "log.jsonl"
    for row in ROWS:
        append_row(place, row)
    return place


def test_rows_come_back_as_they_were_added(path):
    assert read_rows(path) == ROWS
    lines = path.read_bytes().splitlines()
    assert [json.loads(line)["who"] for line in lines] == [row["who"] for row in ROWS]


def test_a_changed_byte_or_row_is_named_by_its_line(path):
    whole = path.read_bytes()
    ends = [at for at, byte in enumerate(whole) if byte == ord("\n")]
    for at in range(len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        line = 1 + sum(end < at for end in ends)
        with pytest.raises(StoreError, match=rf"log\.jsonl: line {line} is not what was written"):
            read_rows(path)


@pytest.mark.parametrize("line", ["", "{}", "[]", "1", '{"a":1}', '{"check":"0"}', "[" * 10_000])
def test_journal_names_an_invalid_line(path, line):
    path.write_bytes(line.encode() + b"\n" + path.read_bytes())
    with pytest.raises(StoreError, match="line 1 is not"):
        read_rows(path)


def test_half_a_line_is_passed_over_and_the_next_row_takes_its_place(path):
    whole = path.read_bytes()
    for end in (b"", b"{", whole.splitlines()[0]):
        path.write_bytes(whole + end)
        assert read_rows(path) == ROWS
        append_row(path, {"who": "next"})
        assert read_rows(path) == [*ROWS, {"who": "next"}]


def test_zeros_of_a_power_loss_are_passed_over(path):
    with path.open("ab") as file:
        file.write(bytes(100))
    append_row(path, {"who": "next"})
    assert read_rows(path) == [*ROWS, {"who": "next"}]


@pytest.mark.parametrize("before", [b"", b"{}\n"])
def test_a_file_of_another_program_is_not_cut(tmp_path, before):
    place = tmp_path / "notes"
    place.write_bytes(before + b"notes of somebody")
    with pytest.raises(StoreError, match=r"notes: line \d is not what was written"):
        read_rows(place)
    with pytest.raises(StoreError, match="does not end with a row"):
        append_row(place, {"who": "me"})
    assert place.read_bytes() == before + b"notes of somebody"


def test_a_row_that_cannot_be_flushed_is_not_there(path, monkeypatch):
    before = path.read_bytes()

    def fail(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal.os, "fsync", fail)
    with pytest.raises(StoreError, match=r"log\.jsonl: no row .*No space"):
        append_row(path, {"who": "next"})
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="float"):
        append_row(path, {"who": float("nan")})
    assert path.read_bytes() == before


def test_a_row_and_the_name_of_a_new_file_are_flushed(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(journal.os, "fsync", lambda _descriptor: flushed.append("row"))
    monkeypatch.setattr(journal, "flush", flushed.append)
    append_row(tmp_path / "new.jsonl", {"who": "a"})
    append_row(tmp_path / "new.jsonl", {"who": "b"})
    assert flushed == ["row", tmp_path, "row"]


def test_texts_of_an_event_are_one_short_line(tmp_path):
    append_event(tmp_path / "log", "refused", who="a\nb", note="x" * 999)
    (row,) = read_rows(tmp_path / "log")
    assert (row["who"], row["note"], row["event"]) == ("a b", "x" * 500, "refused")


def _append(path, who, times):
    for number in range(times):
        with locked(path):
            append_row(path, {"who": who, "number": number})


def test_processes_that_write_at_a_time_lose_nothing(tmp_path):
    place = tmp_path / "log.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_append, args=(place, who, 40)) for who in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    rows = read_rows(place)
    for who in range(4):
        assert [row["number"] for row in rows if row["who"] == who] == [*range(40)]


def test_a_lock_that_cannot_be_taken_names_the_file(tmp_path):
    (tmp_path / ".log.jsonl.lock").symlink_to("elsewhere")
    with (
        pytest.raises(StoreError, match=r"\.lock: cannot be locked"),
        locked(tmp_path / "log.jsonl"),
    ):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_journal_lock_held_too_long_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "SECONDS_TO_WAIT", 0.1)
    with (
        locked(tmp_path / "log"),
        pytest.raises(StoreError, match="another process"),
        locked(tmp_path / "log"),
    ):
        pass
