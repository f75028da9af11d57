"""A store gives the model of exactly the clients that are in, and refuses all the rest."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from safle.errors import (
    DuplicateContribution,
    EncoderMismatch,
    InvalidInput,
    SafleError,
    StoreError,
    WireError,
)
from safle.federation.index import IndexWriter, read_index
from safle.federation.store import Store
from safle.statistics import Statistics, count
from safle.wire import encode_statistics


@pytest.fixture(params=["embedding", "hybrid"])
def data(request, make_data):
    return make_data(request.param, 60)


@pytest.fixture
def parts(data):
    """Contributions of four clients, as bytes; the last has no samples."""
    borders = [0, 10, 30, 60, 60]
    return [encode_statistics(data.part(slice(a, b)).count()) for a, b in pairwise(borders)]


@pytest.fixture
def store(data, tmp_path):
    with Store.create(tmp_path / "store", data.encoder) as made:
        yield made


def total_bytes(store: Store) -> bytes:
    return encode_statistics(store.total().snapshot())


def test_the_sum_is_the_pooled_count_whatever_came_and_went(data, parts, store, tmp_path):
    for name, part in zip("abcd", parts, strict=True):
        store.add(name, part)
    store.remove("b")
    store.add("b again", parts[1])
    assert total_bytes(store) == encode_statistics(data.count())
    store.remove("a")
    left = encode_statistics(data.part(slice(10, 60)).count())
    assert total_bytes(store) == left
    store.close()
    again = Store.open(tmp_path / "store")
    assert [*again.members] == ["c", "d", "b again"]
    assert again.sample_count == 50
    assert total_bytes(again) == left
    assert again.problems() == []


def test_adding_returns_the_verified_statistics_and_keeps_the_very_bytes(parts, store):
    statistics = store.add("a", parts[0])
    assert encode_statistics(statistics) == parts[0]
    (path,) = (store.folder / "contributions").iterdir()
    assert path.read_bytes() == parts[0]
    assert path.stem == store.members["a"].contribution.digest


def test_a_removed_client_leaves_no_file(parts, store):
    store.add("a", parts[0])
    store.add("b", parts[1])
    store.remove("a")
    (path,) = (store.folder / "contributions").iterdir()
    assert path.read_bytes() == parts[1]


def test_the_same_counts_of_two_clients_only_if_allowed(data, parts, store):
    store.add("a", parts[0])
    with pytest.raises(DuplicateContribution, match="'a' already"):
        store.add("b", parts[0])
    store.add("b", parts[0], allow_duplicates=True)
    store.add("empty", parts[3])
    store.add("empty too", parts[3])
    store.remove("a")
    assert total_bytes(store) == parts[0]
    assert store.problems() == []


def test_a_client_contributes_once(parts, store):
    store.add("a", parts[0])
    with pytest.raises(DuplicateContribution, match="the same"):
        store.add("a", parts[0])
    with pytest.raises(DuplicateContribution, match="another"):
        store.add("a", parts[1])
    assert total_bytes(store) == parts[0]


@pytest.mark.parametrize("name", ["", " a", "a\n", "x" * 201, None, 7, "\x1b[2J"])
def test_names_are_one_short_line(parts, store, name):
    with pytest.raises(InvalidInput, match="name"):
        store.add(name, parts[0])
    assert not store.members


@pytest.mark.parametrize("name", ["../../outside", "/etc/x", "index", ".."])
def test_no_name_reaches_the_file_system(parts, store, tmp_path, name):
    before = {path for path in tmp_path.rglob("*") if path.is_dir()}
    store.add(name, parts[0])
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert len(files) == len(before) + 3  # encoder, index, one contribution
    assert {path for path in tmp_path.rglob("*") if path.is_dir()} == before


def test_what_does_not_belong_is_refused_and_nothing_is_kept(data, parts, store, make_data):
    store.add("a", parts[0])
    other = make_data("embedding", 20, buckets=2)
    forged = data.part(slice(10, 30)).count()
    lying = replace(other.count(), fingerprint=data.encoder.fingerprint)
    words = count(data.encoder, data.features[:5], np.array(list("abcde")))
    wrong = {
        "other encoder": encode_statistics(other.count()),
        "other layout": encode_statistics(lying),
        "words among numbers": encode_statistics(words),
        "cut off": parts[1][:-1],
        "damaged": parts[1][:100] + b"\0" + parts[1][101:],
        "nothing": b"",
        "impossible": encode_statistics(forged)[::-1],
    }
    for name, content in wrong.items():
        with pytest.raises(SafleError):
            store.add(name, content)
    assert [*store.members] == ["a"]
    assert len([*(store.folder / "contributions").iterdir()]) == 1
    assert total_bytes(store) == parts[0]


def test_more_samples_than_the_integers_count_are_refused(data, parts, store, repeated):
    most = data.encoder.layout.most_samples
    many = repeated(data.part(slice(0, 10)).count(), most // 10)
    store.add("many", encode_statistics(many))
    with pytest.raises(SafleError, match="exceed"):
        store.add("one too many", parts[1])
    assert [*store.members] == ["many"]


def test_one_writer_at_a_time_and_readers_any_time(data, parts, store):
    store.add("a", parts[0])
    with pytest.raises(StoreError, match="another process"):
        Store.open(store.folder, writing=True)
    reader = Store.open(store.folder)
    assert [*reader.members] == ["a"]
    with pytest.raises(StoreError, match="reading only"):
        reader.add("b", parts[1])
    store.close()
    with Store.open(store.folder, writing=True) as writer:
        writer.add("b", parts[1])


def test_a_store_of_another_encoder_is_not_taken_over(store, make_data):
    store.close()
    with pytest.raises(EncoderMismatch, match="another store"):
        Store.create(store.folder, make_data("embedding", 5, buckets=2).encoder)


def test_a_folder_of_other_things_is_refused(data, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(StoreError, match="other files"):
        Store.create(tmp_path, data.encoder)
    with pytest.raises(StoreError, match="not a store"):
        Store.open(tmp_path)


def test_missing_and_damaged_contributions_are_named(parts, store):
    for name, part in zip("abc", parts, strict=False):
        store.add(name, part)
    paths = [
        store.folder / "contributions" / f"{member.contribution.digest}.stats"
        for member in store.members.values()
    ]
    paths[0].unlink()
    paths[1].write_bytes(parts[1][:-1] + b"\0")
    paths[2].write_bytes(parts[0])
    (store.folder / "contributions" / "stray").write_bytes(b"?")
    missing, damaged, swapped, stray = store.problems()
    assert "'a' is missing" in missing
    assert "'b' is damaged" in damaged
    assert "'c' is damaged" in swapped
    assert "stray" in stray
    with pytest.raises(StoreError, match="'a' is missing"):
        store.total()


def test_a_torn_end_of_the_index_at_any_byte_loses_that_line_and_no_other(parts, store):
    store.add("a", parts[0])
    path = store.folder / "index"
    before = path.read_bytes()
    store.add("b", parts[1])
    after = path.read_bytes()
    store.close()
    for cut in range(len(before), len(after)):
        path.write_bytes(after[:cut])
        assert [*Store.open(store.folder).members] == ["a"]
        writer = IndexWriter(path)
        writer.close()
        assert path.read_bytes() == before


def test_a_changed_byte_of_the_index_is_damage(parts, store):
    store.add("a", parts[0])
    store.close()
    path = store.folder / "index"
    whole = path.read_bytes()
    for at in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StoreError, match=r"damaged|not valid|line"):
            Store.open(store.folder)


@pytest.mark.parametrize(
    "line",
    [
        {"do": "remove", "file": "nobody"},
        {"do": "burn"},
        {"file": "a"},
        {"do": "add", "file": "x", "digest": "../../x", "samples": 1, "bytes": 1, "classes": []},
        {"do": "add", "file": "x", "digest": 5, "samples": 1, "bytes": 1, "classes": []},
    ],
)
def test_a_line_that_is_no_change_is_refused(store, line):
    store.close()
    writer = IndexWriter(store.folder / "index")
    writer.append(line)
    writer.close()
    with pytest.raises((StoreError, WireError), match="line 2"):
        Store.open(store.folder)


def test_an_index_of_the_future_is_refused(store):
    store.close()
    path = store.folder / "index"
    (header,) = read_index(path)
    path.unlink()
    from safle.federation.index import create_index

    create_index(path, header | {"format": "safle-store-9"})
    with pytest.raises(StoreError, match="safle-store-9"):
        Store.open(store.folder)


def test_a_full_disk_leaves_whole_lines(parts, store, monkeypatch):
    store.add("a", parts[0])
    before = (store.folder / "index").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safle.federation.index.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.add("b", parts[1])
    monkeypatch.undo()
    assert (store.folder / "index").read_bytes() == before
    assert [*store.members] == ["a"]
    store.add("b", parts[1])
    store.close()
    assert [*Store.open(store.folder).members] == ["a", "b"]


def test_the_manifest_lists_the_clients_by_name(parts, store):
    store.add("a", parts[0])
    manifest = store.manifest()
    assert [entry.file for entry in manifest.contributions] == ["a"]
    assert json.loads(manifest.to_json())["samples"] == 10


def test_an_empty_store_sums_to_nothing(data, store):
    assert store.total().snapshot() == Statistics.empty(data.encoder)
