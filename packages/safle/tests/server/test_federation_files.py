"""Sums by files: any grouping gives the same bytes, and nothing is taken twice or half."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from safle.encoders.histogram import Grid, Histogram
from safle.errors import (
    DuplicateContribution,
    EncoderMismatch,
    InvalidInput,
    InvariantError,
    LimitExceeded,
    SafleError,
    WireError,
)
from safle.server.files import remove_file, sum_files, sum_histograms
from safle.server.limits import Limits
from safle.server.manifest import load_manifest, manifest_path
from safle.statistics import count
from safle.wire import container, encode_statistics, write_histogram, write_statistics
from support.data_sets import fixed_data, fixed_encoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Statistics of three clients (a, b, c), of nobody (empty) and of another encoder (other)."""
    data = fixed_data()
    parts = {"a": slice(0, 40), "b": slice(40, 90), "c": slice(90, None), "empty": slice(0, 0)}
    for name, part in parts.items():
        write_statistics(tmp_path / name, data.part(part).count())
    write_statistics(tmp_path / "other", fixed_data("linear").count())
    return tmp_path


@pytest.fixture
def pooled() -> bytes:
    return encode_statistics(fixed_data().count())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_sum_is_the_pooled_count_and_the_manifest_lists_its_parts(
    folder: Path, pooled: bytes
) -> None:
    shares: list[float] = []
    manifest = sum_files(
        [folder / name for name in "abc"], folder / "total", progress=shares.append
    )
    assert (folder / "total").read_bytes() == pooled
    assert load_manifest(manifest_path(folder / "total")) == manifest
    assert [entry.client for entry in manifest.contributions] == ["a", "b", "c"]
    assert [entry.samples for entry in manifest.contributions] == [40, 50, 30]
    assert [entry.bytes for entry in manifest.contributions] == [
        (folder / name).stat().st_size for name in "abc"
    ]
    assert manifest.contributions[0].classes == (0, 1, 2)
    assert shares == [1 / 3, 2 / 3, 1]


def test_a_sum_stands_for_its_parts(folder: Path, pooled: bytes) -> None:
    sum_files([folder / "b", folder / "c"], folder / "part")
    with pytest.raises(DuplicateContribution, match=r"part brings .*\(b\), which .*/b has"):
        sum_files([folder / "b", folder / "part"], folder / "total")
    manifest = sum_files([folder / "part", folder / "a"], folder / "part")
    assert (folder / "part").read_bytes() == pooled
    assert [entry.client for entry in manifest.contributions] == ["b", "c", "a"]


def test_duplicates_only_if_told_and_empty_clients_any_number(folder: Path) -> None:
    twice = [folder / "a", folder / "a"]
    with pytest.raises(DuplicateContribution, match="allow-duplicates"):
        sum_files(twice, folder / "total")
    assert sum_files(twice, folder / "total", allow_duplicates=True).samples == 80
    # A sum that holds a twice is no duplicate of itself.
    assert sum_files([folder / "total", folder / "b"], folder / "more").samples == 130
    nobody = [folder / "empty"] * 3
    with pytest.raises(LimitExceeded, match="empty: no samples"):
        sum_files([*nobody, folder / "a"], folder / "one")
    allowed = Limits(allow_empty=True)
    assert sum_files([*nobody, folder / "a"], folder / "one", limits=allowed).samples == 40
    assert (folder / "one").read_bytes() == (folder / "a").read_bytes()


def test_remove_is_the_inverse_of_adding(folder: Path) -> None:
    never = sum_files([folder / "a", folder / "c"], folder / "never")
    sum_files([folder / name for name in "abc"], folder / "total")
    assert remove_file(folder / "total", folder / "b", folder / "total") == never
    assert (folder / "total").read_bytes() == (folder / "never").read_bytes()
    assert manifest_path(folder / "total").read_bytes() == (
        manifest_path(folder / "never").read_bytes()
    )


def test_a_sum_can_be_removed_with_all_it_lists(folder: Path) -> None:
    sum_files([folder / name for name in "abc"], folder / "total")
    sum_files([folder / "a", folder / "b"], folder / "part")
    left = remove_file(folder / "total", folder / "part", folder / "left")
    assert [entry.client for entry in left.contributions] == ["c"]
    assert (folder / "left").read_bytes() == (folder / "c").read_bytes()


def test_forced_removal_is_noted(folder: Path) -> None:
    sum_files([folder / "a", folder / "b"], folder / "part")
    manifest_path(folder / "part").unlink()
    sum_files([folder / "part", folder / "c"], folder / "total")
    with pytest.raises(InvalidInput, match="does not list"):
        remove_file(folder / "total", folder / "b", folder / "total")
    left = remove_file(folder / "total", folder / "b", folder / "total", force=True)
    assert [entry.client for entry in left.contributions] == ["part", "c"]
    assert [entry.client for entry in left.removed] == ["b"]
    assert left.samples == 70
    assert load_manifest(manifest_path(folder / "total")) == left


def test_a_sum_with_a_forced_removal_can_itself_be_removed(folder: Path) -> None:
    sum_files([folder / "a", folder / "b"], folder / "part")
    manifest_path(folder / "part").unlink()
    remove_file(folder / "part", folder / "b", folder / "part")
    sum_files([folder / "part", folder / "c"], folder / "total")
    left = remove_file(folder / "total", folder / "part", folder / "left")
    assert ([entry.client for entry in left.contributions], left.removed) == (["c"], ())
    assert (folder / "left").read_bytes() == (folder / "c").read_bytes()
    sum_files([folder / "a", folder / "c"], folder / "other")
    with pytest.raises(InvalidInput, match="lists removals"):
        remove_file(folder / "other", folder / "part", folder / "left", force=True)


def test_without_a_manifest_the_algebra_decides(folder: Path) -> None:
    left = remove_file(folder / "a", folder / "empty", folder / "left")
    assert (left.samples, [entry.client for entry in left.removed]) == (40, ["empty"])
    with pytest.raises(InvariantError, match="/b: "):
        remove_file(folder / "a", folder / "b", folder / "left")


def _damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (lambda f: (f / "c").write_bytes((f / "other").read_bytes()), EncoderMismatch, "/c: "),
        (lambda f: (f / "c").write_bytes((f / "a").read_bytes()), DuplicateContribution, "/c "),
        (lambda f: (f / "c").write_bytes((f / "c").read_bytes()[:-9]), WireError, "/c: "),
        (lambda f: (f / "c").write_bytes(b"PK"), WireError, "not a safle file"),
        (lambda f: _damage(f / "c"), WireError, "/c: "),
        (lambda f: (f / "c").unlink(), FileNotFoundError, "/c"),
        (lambda f: manifest_path(f / "c").write_text("[]"), WireError, "c.manifest.json"),
        (
            lambda f: (
                sum_files([f / "a"], f / "x")
                and manifest_path(f / "x").rename(manifest_path(f / "c"))
            ),
            InvalidInput,
            "not written together",
        ),
    ],
)
def test_a_failed_sum_changes_nothing(
    folder: Path, spoil: Callable, error: type[Exception], said: str
) -> None:
    sum_files([folder / "b"], folder / "total")
    spoil(folder)
    before = contents(folder)
    with pytest.raises(error, match=said):
        sum_files([folder / name for name in "abc"], folder / "total")
    assert contents(folder) == before


def test_nothing_to_sum_and_a_declared_encoder(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="nothing to sum"):
        sum_files([], folder / "total")
    with pytest.raises(EncoderMismatch, match="/a: counted with"):
        sum_files([folder / "a"], folder / "total", made=fixed_encoder("linear"))
    assert not (folder / "total").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "safle-manifest-9"},
        {"samples": "many"},
        {"contributions": [{"digest": "x"}]},
        {"contributions": 7},
        {"removed": None},
    ],
)
def test_broken_manifests_are_refused(folder: Path, change: dict[str, object]) -> None:
    sum_files([folder / "a"], folder / "total")
    beside = manifest_path(folder / "total")
    beside.write_text(json.dumps(json.loads(beside.read_text()) | change))
    with pytest.raises(WireError, match="manifest"):
        load_manifest(beside)


# --- Forged manifests: readable, so anybody can change them ------------------------------


def forge(path: Path, change: Callable[[dict], None]) -> None:
    beside = manifest_path(path)
    content = json.loads(beside.read_text())
    change(content)
    beside.write_text(json.dumps(content))


def test_a_copy_under_a_forged_manifest_is_still_a_duplicate(folder: Path) -> None:
    sum_files([folder / "a", folder / "b"], folder / "total")
    (folder / "copy").write_bytes((folder / "total").read_bytes())
    manifest_path(folder / "copy").write_text(manifest_path(folder / "total").read_text())

    def rename(content: dict) -> None:
        for at, entry in enumerate(content["contributions"]):
            entry["digest"] = str(at) * 64

    forge(folder / "copy", rename)
    with pytest.raises(DuplicateContribution, match="copy brings"):
        sum_files([folder / "total", folder / "copy"], folder / "twice")


def test_a_single_contribution_cannot_go_by_another_name(folder: Path) -> None:
    sum_files([folder / "a"], folder / "alone")
    forge(folder / "alone", lambda c: c["contributions"][0].update(digest="0" * 64))
    with pytest.raises(InvalidInput, match="not the one that the file holds"):
        sum_files([folder / "alone", folder / "b"], folder / "total")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda c, x: c["contributions"].append(x), WireError),
        (lambda c, x: c["contributions"].append(x) or c.update(samples=120), InvalidInput),
        (lambda c, x: c["contributions"].append(x | {"samples": 0}), InvalidInput),
        (lambda c, x: c["contributions"].__setitem__(0, x), WireError),
        (lambda c, x: c["contributions"].append(c["contributions"][0]), WireError),
        (lambda c, x: c["removed"].append(x) or c["contributions"].append(x), InvariantError),
        (lambda c, x: c["contributions"][0].update(digest="../../x"), WireError),
        (lambda c, x: c["contributions"][0].update(samples=-40), WireError),
        (lambda c, x: c["contributions"][0].update(classes=["x", 1]), WireError),
        (lambda c, x: c["contributions"][0].update(classes=[0, 1, 2, 7]), InvalidInput),
        (lambda c, x: c["contributions"][0].update(more=1), WireError),
    ],
)
def test_what_was_never_added_is_not_removed_by_a_forged_manifest(
    folder: Path, change: Callable[[dict, dict], None], error: type[Exception]
) -> None:
    never = sum_files([folder / "c"], folder / "never").contributions[0].to_json()
    sum_files([folder / "a", folder / "b"], folder / "total")
    forge(folder / "total", lambda content: change(content, json.loads(json.dumps(never))))
    before = contents(folder)
    with pytest.raises(error):
        remove_file(folder / "total", folder / "c", folder / "left")
    assert contents(folder) == before


def test_a_manifest_that_lies_about_what_is_removed_is_refused(folder: Path) -> None:
    sum_files([folder / name for name in "abc"], folder / "total")

    def swap(content: dict) -> None:
        first, second, _ = content["contributions"]
        first["samples"], second["samples"] = second["samples"], first["samples"]

    forge(folder / "total", swap)
    with pytest.raises(InvalidInput, match="the manifest is not true"):
        remove_file(folder / "total", folder / "a", folder / "left")


def test_limits_hold_for_files_and_for_what_sums_list(folder: Path) -> None:
    with pytest.raises(LimitExceeded, match="/b: 50 samples"):
        sum_files([folder / "a", folder / "b"], folder / "total", limits=Limits(most_samples=49))
    sum_files([folder / "a", folder / "b"], folder / "total")
    limits = Limits(most_samples=50)
    assert sum_files([folder / "total", folder / "c"], folder / "all", limits=limits).samples == 120
    with pytest.raises(LimitExceeded, match="3 classes"):
        sum_files([folder / "a"], folder / "x", limits=Limits(most_classes=2))


def test_many_classes_are_summed_in_linear_time(tmp_path: Path) -> None:
    encoder = fixed_encoder("linear", 2)
    limits = Limits(most_classes=10**6)

    def seconds(classes: int) -> float:
        for name in "ab":
            labels = np.arange(classes) + (classes if name == "b" else 0)
            features = np.arange(2 * classes).reshape(-1, 2) % 7.0 + (name == "b")
            write_statistics(tmp_path / name, count(encoder, features, labels))
        begun = time.process_time()
        sum_files([tmp_path / "a", tmp_path / "b"], tmp_path / "sum", limits=limits)
        return time.process_time() - begun

    seconds(100)
    # Eight times the classes; a quadratic merge would take 64 times as long.
    assert seconds(40_000) < 30 * max(seconds(5_000), 0.05)


def test_histograms_sum_with_the_same_checks(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((30, 4))
    grid = Grid(0, 1, 16)
    for name, part in {"a": values[:10], "b": values[10:], "whole": values}.items():
        write_histogram(tmp_path / name, Histogram.of(part, grid))
    write_histogram(tmp_path / "other", Histogram.of(values, Grid(0, 2, 16)))
    manifest = sum_histograms([tmp_path / "b", tmp_path / "a"], tmp_path / "total")
    assert (tmp_path / "total").read_bytes() == (tmp_path / "whole").read_bytes()
    assert (manifest.kind, manifest.samples) == ("histogram", 30)
    before = contents(tmp_path)
    for names, error in {
        ("a", "a"): DuplicateContribution,
        ("total", "a"): DuplicateContribution,
        ("a", "other"): EncoderMismatch,
        (): InvalidInput,
    }.items():
        with pytest.raises(error):
            sum_histograms([tmp_path / name for name in names], tmp_path / "total")
    with pytest.raises(SafleError, match="histogram"):
        sum_files([tmp_path / "a"], tmp_path / "total")
    for declared in ({"features": 3}, {"grid": Grid(0, 2, 16)}, {"limits": Limits(most_samples=9)}):
        with pytest.raises(LimitExceeded, match="/a: "):
            sum_histograms([tmp_path / "a", tmp_path / "b"], tmp_path / "total", **declared)
    assert contents(tmp_path) == before


def test_a_manifest_of_another_kind_is_refused(tmp_path: Path) -> None:
    write_statistics(tmp_path / "a", fixed_data("linear").count())
    sum_files([tmp_path / "a"], tmp_path / "total")
    beside = manifest_path(tmp_path / "total")
    beside.write_text(beside.read_text().replace('"statistics"', '"histogram"'))
    with pytest.raises(InvalidInput, match="of a sum of 'histogram', the file holds statistics"):
        sum_files([tmp_path / "total"], tmp_path / "again")


def test_histograms_of_another_grid_are_not_unfolded(tmp_path: Path) -> None:
    grid = {"grid": [(0.0).hex(), (1.0).hex(), 1 << 16], "features": 1000, "planes": 1}
    (tmp_path / "large").write_bytes(container.to_bytes(container.HISTOGRAM, grid, {}))
    # Unfolded, it would fail for lack of its section.
    with pytest.raises(LimitExceeded, match="this federation has 3"):
        sum_histograms([tmp_path / "large"], tmp_path / "total", features=3)
