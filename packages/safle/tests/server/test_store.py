"""A store gives the model of exactly the clients that are in, and refuses all the rest."""

from __future__ import annotations

import os
import resource
import shutil
import unicodedata
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from safle import Accumulator, Statistics, count, encode
from safle.basics.journal import append_event, read_rows
from safle.cli.options import take_limits
from safle.encoders.codes import CodeSpace
from safle.errors import (
    DuplicateContribution,
    EncoderMismatch,
    InvalidInput,
    InvariantError,
    LimitExceeded,
    SafleError,
    SafleWarning,
    SettingsError,
    StoreError,
)
from safle.server.folder import client_of, file_name_of
from safle.server.limits import Limits
from safle.server.store import Store
from safle.statistics.gram import Samples, Triangle
from safle.statistics.low_rank import LowRank
from support.data_sets import fixed_data, repeated


@pytest.fixture
def data():
    return fixed_data("embedding", 60)


@pytest.fixture
def parts(data):
    """Contributions of four clients, as bytes; the last has no samples."""
    borders = [0, 10, 30, 60, 60]
    return [encode(data.part(slice(a, b)).count()) for a, b in pairwise(borders)]


@pytest.fixture
def store(data, tmp_path):
    with Store.create(tmp_path / "store", data.encoder) as made:
        yield made


def total_bytes(store: Store) -> bytes:
    return encode(store.total().snapshot())


def test_store_sum_is_the_pooled_count_after_adding_and_removing(data, parts, store, tmp_path):
    assert store.total().snapshot() == Statistics.empty(data.encoder.space)
    store.declare(Limits(allow_empty=True))
    for name, part in zip("abcd", parts, strict=True):
        store.add(name, part)
    store.remove("b")
    store.add("b again", parts[1])
    assert total_bytes(store) == encode(data.count())
    store.remove("a")
    left = encode(data.part(slice(10, 60)).count())
    assert total_bytes(store) == left
    store.close()
    again = Store.open(tmp_path / "store")
    assert [*again.members] == ["c", "d", "b again"]
    assert again.sample_count == 50
    assert total_bytes(again) == left
    assert again.problems() == []


def test_adding_keeps_the_very_bytes_and_adds_to_a_total(parts, store):
    total = store.total()
    member = store.add("a", parts[0], total=total)
    assert (member.client, member.bytes) == ("a", len(parts[0]))
    assert encode(total.snapshot()) == parts[0]
    assert place_of(store, "a").read_bytes() == parts[0]


def test_store_list_is_what_its_files_say(data, parts, store):
    members = [store.add(name, part) for name, part in zip("ba", parts, strict=False)]
    assert [*Store.open(store.folder).members.values()] == members
    assert [member.samples for member in members] == [10, 20]
    assert members[0].classes == data.part(slice(0, 10)).count().class_names


def test_store_add_refuses_statistics_that_are_not_bytes(data, store):
    with pytest.raises(InvalidInput, match=r"Statistics; expected bytes.*encode"):
        store.add("a", data.count())


def test_a_removal_looks_at_no_other_member(parts, store, monkeypatch):
    for name, part in zip("abc", parts, strict=False):
        store.add(name, part)

    def look(_itself):
        raise AssertionError("a removal takes as long as there are members")

    monkeypatch.setattr(os, "scandir", look)
    store.remove("b")
    monkeypatch.undo()
    left = {path.read_bytes() for path in (store.folder / "contributions").iterdir()}
    assert left == {parts[0], parts[2]}
    # What the next one is held against is what a store that is opened now would find.
    with pytest.raises(DuplicateContribution):
        store.add("b", parts[0])
    store.add("b", parts[1])
    assert store.sample_count == Store.open(store.folder).sample_count


def test_store_refuses_equal_counts_of_two_clients_unless_allowed(data, parts, store):
    store.add("a", parts[0])
    with pytest.raises(DuplicateContribution, match="'a' already"):
        store.add("b", parts[0])
    store.add("b", parts[0], allow_duplicates=True)
    with pytest.raises(LimitExceeded, match="no samples"):
        store.add("empty", parts[3])
    store.declare(Limits(allow_empty=True))
    store.add("empty", parts[3])
    store.add("empty too", parts[3])
    store.remove("a")
    assert total_bytes(store) == parts[0]
    assert store.problems() == []


def test_a_client_contributes_once(parts, store):
    total = store.total()
    first = store.add("a", parts[0], total=total)
    # The same again is there already: nothing is added, to the sum neither.
    assert store.add("a", parts[0], total=total) == first
    assert encode(total.snapshot()) == parts[0]
    with pytest.raises(DuplicateContribution, match="another contribution"):
        store.add("a", parts[1], total=total)
    assert encode(total.snapshot()) == parts[0]
    assert [*store.members] == ["a"]


@pytest.mark.parametrize("name", ["", " a", "a\n", "x" * 241, "ß" * 118, None, 7, "\x1b[2J"])
def test_names_are_one_line_that_a_file_name_can_hold(parts, store, name):
    with pytest.raises(InvalidInput, match="name"):
        store.add(name, parts[0])
    assert not store.members


NAMES = {
    "hospital-a": "hospital-a",
    "Klinik Süd_2": "Klinik Süd_2",
    "病院": "病院",
    "a.b": "a.b",
    "..": "%2E%2E",
    ".hidden": "%2Ehidden",
    "end.": "end%2E",
    "../../outside": "%2E.%2F..%2Foutside",
    "/etc/x": "%2Fetc%2Fx",
    "100%": "100%25",
    "%2E": "%252E",
    "a:b*c?": "a%3Ab%2Ac%3F",
    "e\u0301": "e%CC%81",
    "\u212b": "%E2%84%AB",
    "\u1100\u1161": "%E1%84%80%E1%85%A1",
}


@pytest.mark.parametrize("client", NAMES)
def test_store_file_names_stay_inside_and_are_readable(parts, store, client):
    store.add(client, parts[0])
    (path,) = (store.folder / "contributions").iterdir()
    assert path.name == f"{NAMES[client]}.stats"
    assert unicodedata.normalize("NFC", path.name) == path.name
    assert client_of(path.name) == client
    assert [*Store.open(store.folder).members] == [client]
    store.remove(client)
    assert not path.exists()


def test_the_longest_name_can_be_written(parts, store):
    client = "ß" * 117
    assert len(file_name_of(client).encode()) == 240
    store.add(client, parts[0])
    assert [*Store.open(store.folder).members] == [client]


@pytest.mark.parametrize(
    "name", ["thesis.txt", "%61.stats", ".stats", "a", "%2e.stats", " a.stats"]
)
def test_another_spelling_is_nobodys_file(name):
    assert client_of(name) is None


def test_names_that_differ_in_case_only_are_refused(parts, store):
    store.add("Süd", parts[0])
    with pytest.raises(InvalidInput, match=r"'SÜD'.*'Süd' in case only"):
        store.add("SÜD", parts[1])
    store.remove("Süd")
    store.add("SÜD", parts[1])


def test_what_does_not_belong_is_refused_and_nothing_is_kept(data, parts, store):
    store.add("a", parts[0])
    other = fixed_data("embedding", 20, buckets=2)
    forged = data.part(slice(10, 30)).count()
    lying = replace(other.count(), space=CodeSpace(data.encoder.fingerprint, other.encoder.layout))
    words = count(data.encoder, data.features[:5], np.array(list("abcde")))
    wrong = {
        "other encoder": encode(other.count()),
        "other layout": encode(lying),
        "words among numbers": encode(words),
        "cut off": parts[1][:-1],
        "damaged": parts[1][:100] + b"\0" + parts[1][101:],
        "nothing": b"",
        "impossible": encode(forged)[::-1],
    }
    for name, content in wrong.items():
        with pytest.raises(SafleError):
            store.add(name, content)
    assert [*store.members] == ["a"]
    assert len([*(store.folder / "contributions").iterdir()]) == 1
    assert total_bytes(store) == parts[0]


def events(store):
    rows = read_rows(store.folder / "log.jsonl")
    return [(row["event"], row["who"], row["note"]) for row in rows]


def test_the_log_has_what_came_and_also_what_failed_when_it_was_multiplied_out(
    parts, store, monkeypatch
):
    store.add("first", parts[1])

    def fail(*_arguments):
        raise InvariantError("no integers")

    with monkeypatch.context() as patched:
        patched.setattr(Samples, "require_integers", fail)
        patched.setattr(Triangle, "require_integers", fail)
        patched.setattr(LowRank, "require_integers", fail)
        patched.setattr(Accumulator, "add", fail)
        for total in (None, Accumulator(store.encoder)):
            with pytest.raises(InvariantError):
                store.add("a", parts[0], total=total)
    store.remove("first")
    assert events(store) == [
        ("receiving", "first", ""),
        ("received", "first", ""),
        *[("refused", "a", "no integers")] * 2,
        ("removed", "first", ""),
    ]
    assert not store.members


def test_store_logs_add_and_remove_first(parts, store, monkeypatch):
    store.add("a", parts[0])
    seen = []
    replace, unlink = Path.replace, Path.unlink

    def note(*arguments):
        seen.append(events(store)[-1][:2])

    monkeypatch.setattr(Path, "replace", lambda *a: (note(), replace(*a))[1])
    monkeypatch.setattr(Path, "unlink", lambda *a, **o: (note(), unlink(*a, **o))[1])
    store.add("b", parts[1])
    store.remove("a")
    assert seen == [("receiving", "b"), ("removed", "a")]


def test_more_samples_than_the_integers_count_are_refused(data, parts, store):
    most = data.encoder.layout.most_samples
    many = repeated(data.part(slice(0, 10)).count(), most // 10)
    store.declare(Limits(most_samples=most))
    store.add("many", encode(many))
    with pytest.raises(SafleError, match="exceed"):
        store.add("one too many", parts[1])
    assert [*store.members] == ["many"]


def test_store_has_one_writer_and_any_readers(data, parts, store):
    store.add("a", parts[0])
    with pytest.raises(StoreError, match="another process"):
        Store.open(store.folder, writing=True, seconds=0.1)
    reader = Store.open(store.folder)
    assert [*reader.members] == ["a"]
    with pytest.raises(StoreError, match="reading only"):
        reader.add("b", parts[1])
    store.close()
    with Store.open(store.folder, writing=True) as writer:
        writer.add("b", parts[1])


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_a_lock_that_cannot_be_taken_is_not_somebody_at_work(store, make):
    store.close()
    place = store.folder / ".lock"
    place.unlink()
    make(place)
    with pytest.raises(StoreError, match=r"\.lock: cannot be locked"):
        Store.open(store.folder, writing=True, seconds=0)


def test_a_store_of_another_encoder_is_not_taken_over(store):
    store.close()
    with pytest.raises(EncoderMismatch, match="another store"):
        Store.create(store.folder, fixed_data("embedding", 5, buckets=2).encoder)


def test_a_folder_of_other_things_is_refused(data, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(StoreError, match="other files"):
        Store.create(tmp_path, data.encoder)
    with pytest.raises(StoreError, match="not a store"):
        Store.open(tmp_path)


def place_of(store, client):
    return store.folder / "contributions" / f"{client}.stats"


def test_missing_and_damaged_contributions_are_named_and_not_summed(parts, store):
    store.declare(Limits(allow_empty=True))
    for name, part in zip("abcd", parts, strict=True):
        store.add(name, part)
    store.close()
    place_of(store, "a").unlink()
    place_of(store, "b").write_bytes(parts[1][:-1] + b"\0")
    place_of(store, "c").write_bytes(parts[0])
    place_of(store, "d").write_bytes(b"PK")
    again = Store.open(store.folder, writing=True)
    problems = {path.split("'")[1]: path for path in again.problems()}
    assert "'a' is missing" in problems["a"]
    assert "'b' is damaged: its bytes are not those" in problems["b"]
    assert "'c' is damaged: its bytes are not those" in problems["c"]
    assert "'d' is damaged: " in problems["d"]
    assert [*again.members] == ["b", "c"]
    with pytest.raises(StoreError, match=r"'a' is missing.*'d' is damaged|'d'.*'a'"):
        again.total()
    # Other counts do not take the place of what is missing, the same bytes do.
    with pytest.raises(DuplicateContribution, match="remove the client first"):
        again.add("a", parts[1], allow_duplicates=True)
    again.add("a", parts[0], allow_duplicates=True)
    again.remove("d")
    with pytest.raises(StoreError, match="'b' is damaged"):
        again.total()
    for name, part in zip("bc", parts[1:], strict=False):
        again.remove(name)
        again.add(name, part)
    assert again.problems() == []
    assert total_bytes(again) == total_bytes(Store.open(store.folder))


def test_a_contribution_that_somebody_copies_into_the_folder_is_a_client(parts, store):
    store.add("a", parts[0])
    place_of(store, "copied").write_bytes(parts[1])
    again = Store.open(store.folder)
    assert [*again.members] == ["a", "copied"]
    assert total_bytes(again) == encode(fixed_data("embedding", 60).part(slice(0, 30)).count())
    assert again.problems() == []
    (remark,) = again.remarks()
    assert "copied.stats: the log does not list it" in remark
    place_of(store, "copied").write_bytes(parts[1][:-1] + b"\0")
    with pytest.raises(StoreError, match="'copied' is damaged"):
        Store.open(store.folder).total()


def test_store_names_contribution_of_another_encoder_damaged(parts, store):
    other = fixed_data("embedding", 20, buckets=2)
    place_of(store, "other").write_bytes(encode(other.count()))
    again = Store.open(store.folder)
    assert not again.members
    with pytest.raises(StoreError, match="'other' is damaged: counted with encoder"):
        again.total()


def test_a_changed_byte_of_the_log_is_named_and_half_a_line_is_cut(parts, store):
    store.add("a", parts[0])
    store.close()
    path = store.folder / "log.jsonl"
    whole = path.read_bytes()
    for at in range(0, len(whole) - 1, 41):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StoreError, match=r"log\.jsonl: line \d is not"):
            Store.open(store.folder)
    path.write_bytes(whole + b'{"time":"20')
    assert [*Store.open(store.folder).members] == ["a"]
    with Store.open(store.folder, writing=True) as again:
        again.add("b", parts[1])
        assert [event for event, *_ in events(again)] == ["receiving", "received"] * 2
    path.unlink()
    # The folder is the truth: without its log, a store lacks the times alone.
    assert [*Store.open(store.folder).members] == ["a", "b"]


@pytest.mark.parametrize(
    ("before", "file", "after"),
    [
        ("receiving", False, "interrupted"),
        ("receiving", True, "received"),
        ("received", True, None),
        ("removed", True, "still there"),
        ("removed", False, None),
        ("refused", False, None),
    ],
)
def test_the_next_writer_settles_what_a_kill_has_left(parts, store, before, file, after):
    store.add("other", parts[1])
    store.close()
    append_event(store.folder / "log.jsonl", before, who="a")
    if file:
        place_of(store, "a").write_bytes(parts[0])
    parts_left = [
        store.folder / "contributions" / ".a.stats.abcd_123.part",
        store.folder / ".limits.toml.abcd1234.part",
    ]
    for path in parts_left:
        path.write_bytes(b"?")
    seen = [*Store.open(store.folder).members]
    assert ("a" in seen) is file
    assert parts_left[0].exists()
    with Store.open(store.folder, writing=True) as again:
        assert sorted(again.members) == sorted(seen)
        assert not any(path.exists() for path in parts_left)
        assert events(again)[-1][0] == (after or before)
        assert again.problems() == []


def test_limits_are_a_file_that_a_person_can_write(data, parts, store):
    store.close()
    path = store.folder / "limits.toml"
    path.write_text("most_samples = 19\nclasses = [0, 1, 2]\n")
    with Store.open(store.folder, writing=True) as again:
        assert again.limits == Limits(most_samples=19, classes=(0, 1, 2))
        with pytest.raises(LimitExceeded, match="20 samples"):
            again.add("b", parts[1])
    for text, said in {"most = 1": "unknown setting 'most'", "[": "not a TOML file"}.items():
        path.write_text(text)
        with pytest.raises(SettingsError, match=said):
            Store.open(store.folder)


def test_a_full_disk_refuses_and_leaves_the_store_whole(parts, store):
    store.add("a", parts[0])
    total = store.total()
    for _ in range(3):
        with pytest.raises(DuplicateContribution):
            store.add("copy", parts[0])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = (store.folder / "log.jsonl").stat().st_size
    # First the file does not fit, then the log.
    for most, error in ((len(parts[1]) - 1, OSError), (log + 9, StoreError)):
        assert error is OSError or most > len(parts[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
        try:
            with pytest.raises(error, match=r"b\.stats|log\.jsonl"):
                store.add("b", parts[1], total=total)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert [*store.members] == ["a"]
        assert encode(total.snapshot()) == parts[0]
        assert [*(store.folder / "contributions").iterdir()] == [place_of(store, "a")]
    store.add("b", parts[1], total=total)
    assert [*Store.open(store.folder).members] == ["a", "b"]
    assert total_bytes(store) == encode(total.snapshot())


def test_a_client_that_only_the_log_could_not_note_is_in(parts, store, monkeypatch):
    note = Store._note

    def choke(store, event, *arguments):
        if event == "received":
            raise StoreError("the disk is full")
        return note(store, event, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "_note", choke)
        with pytest.warns(SafleWarning, match="'a' is in; the disk is full"):
            store.add("a", parts[0])
    assert [*store.members] == ["a"]
    store.close()
    with Store.open(store.folder, writing=True) as again:
        assert events(again)[-1][:2] == ("received", "a")


def test_a_read_only_copy_can_be_read(parts, store, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    store.add("a", parts[0])
    store.close()
    copy = shutil.copytree(store.folder, tmp_path / "copy")
    (copy / ".lock").unlink()
    copy.chmod(0o555)
    try:
        assert [*Store.open(copy).members] == ["a"]
        with pytest.raises(StoreError, match="cannot be locked"):
            Store.open(copy, writing=True)
    finally:
        copy.chmod(0o755)


def test_readers_write_nothing(parts, store):
    store.add("a", parts[0])
    (store.folder / "contributions" / ".b.stats.abcd_123.part").write_bytes(b"?")
    before = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*")}
    reader = Store.open(store.folder)
    reader.total()
    reader.problems()
    assert {path: path.stat().st_mtime_ns for path in store.folder.rglob("*")} == before


# --- What is not the store's own -----------------------------------------------------------


def test_foreign_files_are_named_and_never_touched(parts, store, tmp_path):
    store.add("a", parts[0])
    place, outside = store.folder / "contributions", tmp_path / "outside"
    outside.write_bytes(parts[1])
    strangers = [place / name for name in ("thesis.txt", "%61.stats", ".0.part", "%2e.stats")]
    for path in strangers:
        path.write_bytes(b"?")
    (place / "folder.stats").mkdir()
    (place / "link.stats").symlink_to(outside)
    (place / "dangling.stats").symlink_to(tmp_path / "nowhere")
    kept = sorted(place.iterdir())
    store.close()
    with Store.open(store.folder, writing=True) as again:
        assert sorted(place.iterdir()) == kept
        assert [*again.members] == ["a"]
        assert again.problems() == []
        assert len(again.remarks()) == len(strangers) + 3
        with pytest.raises(DuplicateContribution, match=r"link\.stats is not a file of the store"):
            again.add("link", parts[1])
        with pytest.raises(StoreError, match="no client 'link'"):
            again.remove("link")
        again.remove("a")
        assert len([*place.iterdir()]) == len(kept) - 1
    assert outside.read_bytes() == parts[1]


@pytest.mark.parametrize("as_link", [False, True])
def test_a_folder_with_contributions_of_somebody_is_refused(data, tmp_path, as_link):
    place, theirs = tmp_path / "new", tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "theirs.stats").write_bytes(b"mine")
    place.mkdir()
    if as_link:
        (place / "contributions").symlink_to(theirs)
    else:
        theirs = theirs.rename(place / "contributions")
    with pytest.raises(StoreError, match="is a link or not empty"):
        Store.create(place, data.encoder)
    assert (theirs / "theirs.stats").read_bytes() == b"mine"
    assert [path.name for path in place.iterdir()] == ["contributions"]


def test_contributions_that_became_a_link_are_not_followed(parts, store, tmp_path):
    store.add("a", parts[0])
    store.close()
    moved = (store.folder / "contributions").rename(tmp_path / "moved")
    (moved / "theirs.stats").write_bytes(b"mine")
    (store.folder / "contributions").symlink_to(moved)
    for writing in (False, True):
        with pytest.raises(StoreError, match="is missing or a link"):
            Store.open(store.folder, writing=writing)
    assert len([*moved.iterdir()]) == 2


# --- Limits ------------------------------------------------------------------------------------


def test_declared_classes_keep_the_first_client_from_shutting_out_others(data, parts, store):
    limits = Limits(classes=(0, 1, 2))
    store.declare(limits)
    words = count(data.encoder, data.features[:5], np.array(list("abcde")))
    with pytest.raises(LimitExceeded, match="class 'a'"):
        store.add("first", encode(words))
    store.add("a", parts[0])
    store.close()
    again = Store.open(store.folder)
    assert again.limits == limits
    assert [*again.members] == ["a"]


def test_without_declared_classes_the_error_says_how_to_declare_them(data, parts, store):
    words = encode(count(data.encoder, data.features[:5], np.array(list("abcde"))))
    store.add("words", words)
    with pytest.raises(LimitExceeded, match="declare the right ones"):
        store.add("a", parts[0])
    with pytest.raises(StoreError, match="client 'words'"):
        store.declare(Limits(classes=(0, 1, 2)))
    store.remove("words")
    store.declare(Limits(classes=(0, 1, 2)))
    store.add("a", parts[0])


@pytest.mark.parametrize(("text", "classes"), [("0, 1", (0, 1)), ("ill,well", ("ill", "well"))])
def test_classes_that_are_typed_have_the_type_of_labels_in_a_table(text, classes):
    assert take_limits({"only_classes": text}) == Limits(classes=classes)


def test_the_number_of_classes_is_limited_over_all_clients(data, store):
    store.declare(Limits(most_classes=4))
    for name, labels in {"a": [1, 2, 3], "b": [3, 4, 4]}.items():
        part = count(data.encoder, data.features[:3], np.array(labels))
        store.add(name, encode(part))
    part = count(data.encoder, data.features[3:4], np.array([5]))
    with pytest.raises(LimitExceeded, match="5 classes in all"):
        store.add("c", encode(part))


@pytest.mark.parametrize(
    "wrong",
    [{"most_samples": 0}, {"most_classes": 1.5}, {"classes": (1, "a")}],
)
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises((SettingsError, InvalidInput)):
        Limits(**wrong)
