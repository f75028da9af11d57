"""A store gives the model of exactly the clients that are in, and refuses all the rest."""

from __future__ import annotations

import json
import os
import resource
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from safle.basics.sealed import SealedFile
from safle.encoders.codes import CodeSpace
from safle.errors import (
    DuplicateContribution,
    EncoderMismatch,
    InvalidInput,
    InvariantError,
    LimitExceeded,
    SafleError,
    SettingsError,
    StoreError,
)
from safle.server.admission import Limits
from safle.server.folder import DATABASE, FORMAT
from safle.server.store import Store
from safle.site.log import read_log
from safle.statistics import Accumulator, Statistics, count
from safle.wire import encode
from safle.wire.contribution import Contribution
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


def test_the_sum_is_the_pooled_count_whatever_came_and_went(data, parts, store, tmp_path):
    assert store.total().snapshot() == Statistics.empty(data.encoder.space)
    store.declare(Limits(allow_empty=True))
    for name, part in zip("abcd", parts, strict=True):
        store.add(Contribution(name, part))
    store.remove("b")
    store.add(Contribution("b again", parts[1]))
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
    member = store.add(Contribution("a", parts[0]), total=total)
    assert (member.client, member.bytes) == ("a", len(parts[0]))
    assert encode(total.snapshot()) == parts[0]
    (path,) = (store.folder / "contributions").iterdir()
    assert path.read_bytes() == parts[0]
    assert path.stem == store.members["a"].digest


def test_statistics_without_a_client_are_refused_with_advice(data, store):
    with pytest.raises(
        InvalidInput, match="contribution is a Statistics; expected Contribution: Con"
    ):
        store.add(data.count())


def test_a_removal_looks_at_no_other_member(parts, store, monkeypatch):
    for name, part in zip("abc", parts, strict=False):
        store.add(Contribution(name, part))

    def look(_itself):
        raise AssertionError("a removal takes as long as there are members")

    monkeypatch.setattr(Path, "iterdir", look)
    store.remove("b")
    monkeypatch.undo()
    left = {path.read_bytes() for path in (store.folder / "contributions").iterdir()}
    assert left == {parts[0], parts[2]}
    # What the next one is held against is what a store that is opened now would find.
    with pytest.raises(DuplicateContribution):
        store.add(Contribution("b", parts[0]))
    store.add(Contribution("b", parts[1]))
    assert store.sample_count == Store.open(store.folder).sample_count


def test_the_same_counts_of_two_clients_only_if_allowed(data, parts, store):
    store.add(Contribution("a", parts[0]))
    with pytest.raises(DuplicateContribution, match="'a' already"):
        store.add(Contribution("b", parts[0]))
    store.add(Contribution("b", parts[0]), allow_duplicates=True)
    with pytest.raises(LimitExceeded, match="no samples"):
        store.add(Contribution("empty", parts[3]))
    store.declare(Limits(allow_empty=True))
    store.add(Contribution("empty", parts[3]))
    store.add(Contribution("empty too", parts[3]))
    store.remove("a")
    assert total_bytes(store) == parts[0]
    assert store.problems() == []


def test_a_client_contributes_once(parts, store):
    total = store.total()
    first = store.add(Contribution("a", parts[0]), total=total)
    # The same again is there already: nothing is added, to the sum neither.
    assert store.add(Contribution("a", parts[0]), total=total) == first
    assert encode(total.snapshot()) == parts[0]
    with pytest.raises(DuplicateContribution, match="another contribution"):
        store.add(Contribution("a", parts[1]), total=total)
    assert encode(total.snapshot()) == parts[0]
    assert [*store.members] == ["a"]


@pytest.mark.parametrize("name", ["", " a", "a\n", "x" * 201, None, 7, "\x1b[2J"])
def test_names_are_one_short_line(parts, store, name):
    with pytest.raises(InvalidInput, match="name"):
        store.add(Contribution(name, parts[0]))
    assert not store.members


@pytest.mark.parametrize("name", ["../../outside", "/etc/x", "index", ".."])
def test_no_name_reaches_the_file_system(parts, store, tmp_path, name):
    before = {path for path in tmp_path.rglob("*") if path.is_dir()}
    store.add(Contribution(name, parts[0]))
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert len(files) == len(before) + 6  # encoder, lock, database and log, one contribution
    assert {path for path in tmp_path.rglob("*") if path.is_dir()} == before


def test_what_does_not_belong_is_refused_and_nothing_is_kept(data, parts, store):
    store.add(Contribution("a", parts[0]))
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
            store.add(Contribution(name, content))
    assert [*store.members] == ["a"]
    assert len([*(store.folder / "contributions").iterdir()]) == 1
    assert total_bytes(store) == parts[0]


def test_the_log_has_what_came_and_also_what_failed_when_it_was_multiplied_out(
    parts, store, monkeypatch
):
    store.add(Contribution("first", parts[1]))

    def fail(*_arguments):
        raise InvariantError("no integers")

    monkeypatch.setattr(Statistics, "multiply_out", fail)
    monkeypatch.setattr(Accumulator, "add", fail)
    for total in (None, Accumulator(store.encoder)):
        with pytest.raises(InvariantError):
            store.add(Contribution("a", parts[0]), total=total)
    events = read_log(store.folder / DATABASE)
    assert [(event.event, event.who, event.note) for event in events] == [
        ("received", "first", ""),
        *[("refused", "a", "no integers")] * 2,
    ]
    assert [*store.members] == ["first"]


def test_more_samples_than_the_integers_count_are_refused(data, parts, store):
    most = data.encoder.layout.most_samples
    many = repeated(data.part(slice(0, 10)).count(), most // 10)
    store.declare(Limits(most_samples=most))
    store.add(Contribution("many", encode(many)))
    with pytest.raises(SafleError, match="exceed"):
        store.add(Contribution("one too many", parts[1]))
    assert [*store.members] == ["many"]


def test_one_writer_at_a_time_and_readers_any_time(data, parts, store):
    store.add(Contribution("a", parts[0]))
    with pytest.raises(StoreError, match="another process"):
        Store.open(store.folder, writing=True, seconds=0.1)
    reader = Store.open(store.folder)
    assert [*reader.members] == ["a"]
    with pytest.raises(StoreError, match="reading only"):
        reader.add(Contribution("b", parts[1]))
    store.close()
    with Store.open(store.folder, writing=True) as writer:
        writer.add(Contribution("b", parts[1]))


@pytest.mark.parametrize("lock", ["a folder", "other things"])
def test_a_lock_that_cannot_be_locked_is_not_somebody_at_work(store, lock):
    store.close()
    place = store.folder / "lock"
    place.unlink()
    place.mkdir() if lock == "a folder" else place.write_text(lock * 99)
    with pytest.raises(StoreError, match="'lock' cannot be locked; you must be allowed to write"):
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


def test_missing_and_damaged_contributions_are_named(parts, store):
    for name, part in zip("abc", parts, strict=False):
        store.add(Contribution(name, part))
    paths = [
        store.folder / "contributions" / f"{member.digest}.stats"
        for member in store.members.values()
    ]
    paths[0].unlink()
    paths[1].write_bytes(parts[1][:-1] + b"\0")
    paths[2].write_bytes(parts[0])
    missing, damaged, swapped = store.problems()
    assert "'a' is missing" in missing
    assert "'b' is damaged" in damaged
    assert "'c' is damaged" in swapped
    with pytest.raises(StoreError, match="'a' is missing"):
        store.total()


def test_a_changed_byte_of_the_database_is_damage_or_without_effect(parts, store):
    store.add(Contribution("a", parts[0]))
    store.add(Contribution("b", parts[1]))
    store.remove("b")
    store.close()
    path = store.folder / "store.sqlite"
    whole, members = path.read_bytes(), dict(Store.open(store.folder).members)
    seen = 0
    for at in range(0, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            assert dict(Store.open(store.folder).members) == members
        except StoreError:
            seen += 1
    assert seen
    name = whole.index(b'"client":"a"') + len(b'"client":"')
    path.write_bytes(whole[:name] + b"z" + whole[name + 1 :])
    with pytest.raises(StoreError, match="row 1 of contributions is not what was written"):
        Store.open(store.folder)


ROW = {"client": "x", "digest": "0" * 64, "samples": 1, "bytes": 1, "classes": []}


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "../../x"},
        {"digest": 5},
        {"samples": -1},
        {"samples": True},
        {"client": ""},
        {"classes": [2, 1]},
        {"more": 1},
    ],
)
def test_a_sealed_row_that_is_no_contribution_is_refused(store, change):
    store.close()
    text = json.dumps(ROW | change)
    tables = {"contributions": ("entry", "received")}
    with SealedFile(store.folder / "store.sqlite", tables) as file, file.transaction():
        file.append("contributions", text, "today")
    with pytest.raises(StoreError, match="row 1 is damaged"):
        Store.open(store.folder)


@pytest.mark.parametrize(
    ("form", "limits", "said"),
    [
        (FORMAT, "{}", "bring it back"),
        (FORMAT, '{"most": 1}', "the limits are damaged: unknown setting 'most'"),
        (FORMAT, "[", "the limits are damaged"),
        ("safle-store-9", "{}", "safle-store-9"),
    ],
)
def test_a_store_of_which_something_else_is_true_is_refused(store, form, limits, said):
    store.close()
    tables = {"declarations": ("format", "fingerprint", "limits")}
    with SealedFile(store.folder / "store.sqlite", tables) as file, file.transaction():
        file.append("declarations", form, "0" * 64, limits)
    with pytest.raises(StoreError, match=said):
        Store.open(store.folder)


def test_a_file_that_is_no_database_is_refused(store):
    store.close()
    path = store.folder / "store.sqlite"
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        Store.open(store.folder)
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="interrupted"):
        Store.open(store.folder)


def test_a_full_disk_refuses_and_leaves_the_store_whole(parts, store):
    store.add(Contribution("a", parts[0]))
    for _ in range(10):
        store.declare(Limits())
    log = store.folder / "store.sqlite-wal"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, before[1]))
    try:
        with pytest.raises(StoreError, match=r"disk|full|I/O"):
            store.add(Contribution("b", parts[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [*store.members] == ["a"]
    store.add(Contribution("b", parts[1]))
    store.close()
    assert [*Store.open(store.folder).members] == ["a", "b"]


def test_a_read_only_copy_can_be_read(parts, store):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    store.add(Contribution("a", parts[0]))
    store.close()
    store.folder.chmod(0o555)
    try:
        assert [*Store.open(store.folder).members] == ["a"]
    finally:
        store.folder.chmod(0o755)


# --- What is not the store's own -----------------------------------------------------------


def test_the_sweep_takes_our_own_files_and_nobody_elses(parts, store, tmp_path):
    store.add(Contribution("a", parts[0]))
    place, outside = store.folder / "contributions", tmp_path / "outside"
    outside.write_bytes(b"mine")
    leftovers = [place / f"{'0' * 64}.stats", place / f".{'1' * 64}.stats.abcd_123.part"]
    strangers = [place / name for name in ("thesis.txt", "a.stats", "0.part", f"{'A' * 64}.stats")]
    for path in leftovers + strangers:
        path.write_bytes(b"?")
    (place / "folder").mkdir()
    (place / f"{'2' * 64}.stats").mkdir()
    (place / f"{'3' * 64}.stats").symlink_to(outside)
    (place / f"{'4' * 64}.stats").symlink_to(tmp_path / "nowhere")
    kept = sorted(path for path in place.iterdir() if path not in leftovers)
    assert len(store.problems()) == len(leftovers)
    store.close()
    with Store.open(store.folder, writing=True) as again:
        assert sorted(place.iterdir()) == kept
        assert again.problems() == []
        assert len(again.files.find_foreign()) == len(strangers) + 4
        again.remove("a")
        assert len([*place.iterdir()]) == len(kept) - 1
    assert outside.read_bytes() == b"mine"


@pytest.mark.parametrize("as_link", [False, True])
def test_a_folder_with_contributions_of_somebody_is_refused(data, tmp_path, as_link):
    place, theirs = tmp_path / "new", tmp_path / "theirs"
    theirs.mkdir()
    (theirs / f"{'0' * 64}.stats").write_bytes(b"mine")
    place.mkdir()
    if as_link:
        (place / "contributions").symlink_to(theirs)
    else:
        theirs = theirs.rename(place / "contributions")
    with pytest.raises(StoreError, match="is a link or not empty"):
        Store.create(place, data.encoder)
    assert (theirs / f"{'0' * 64}.stats").read_bytes() == b"mine"
    assert [path.name for path in place.iterdir()] == ["contributions"]


def test_contributions_that_became_a_link_are_not_followed(parts, store, tmp_path):
    store.add(Contribution("a", parts[0]))
    store.close()
    moved = (store.folder / "contributions").rename(tmp_path / "moved")
    (moved / f"{'0' * 64}.stats").write_bytes(b"mine")
    (store.folder / "contributions").symlink_to(moved)
    with pytest.raises(StoreError, match="is missing or a link"):
        Store.open(store.folder, writing=True)
    assert len([*moved.iterdir()]) == 2


# --- Limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [
        Limits(class_type="int"),
        Limits(classes=(0, 1, 2)),
        Limits(classes=("0", "1", "2"), class_type="int"),
    ],
)
def test_with_declared_classes_the_first_comer_cannot_shut_out_the_rest(data, parts, store, limits):
    store.declare(limits)
    words = count(data.encoder, data.features[:5], np.array(list("abcde")))
    with pytest.raises(LimitExceeded, match="class 'a'"):
        store.add(Contribution("first", encode(words)))
    store.add(Contribution("a", parts[0]))
    store.close()
    again = Store.open(store.folder)
    assert again.limits == limits
    assert [*again.members] == ["a"]


def test_without_a_declared_type_the_error_says_how_to_declare_it(data, parts, store):
    words = encode(count(data.encoder, data.features[:5], np.array(list("abcde"))))
    store.add(Contribution("words", words))
    with pytest.raises(LimitExceeded, match="class_type"):
        store.add(Contribution("a", parts[0]))
    with pytest.raises(StoreError, match="client 'words'"):
        store.declare(Limits(class_type="int"))
    store.remove("words")
    store.declare(Limits(class_type="int"))
    store.add(Contribution("a", parts[0]))


def test_the_number_of_classes_is_limited_over_all_clients(data, store):
    store.declare(Limits(most_classes=4))
    for name, labels in {"a": [1, 2, 3], "b": [3, 4, 4]}.items():
        part = count(data.encoder, data.features[:3], np.array(labels))
        store.add(Contribution(name, encode(part)))
    part = count(data.encoder, data.features[3:4], np.array([5]))
    with pytest.raises(LimitExceeded, match="5 classes in all"):
        store.add(Contribution("c", encode(part)))


@pytest.mark.parametrize(
    "wrong",
    [{"most_samples": 0}, {"most_classes": 1.5}, {"class_type": "float"}, {"classes": (1, "a")}],
)
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises((SettingsError, InvalidInput)):
        Limits(**wrong)
