"""Sums by files: any grouping gives the same bytes, and nothing is taken twice or half."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from upath import UPath

from safle import encode, read, write
from safle.basics import cluster
from safle.errors import (
    DuplicateContribution,
    EncoderMismatch,
    FederationError,
    InvalidInput,
    LimitExceeded,
    MissingExtra,
    StoreError,
    WireError,
)
from safle.server import summing
from safle.server.limits import Limits
from safle.server.store import Store
from safle.server.summing import sum_files
from safle.statistics.histogram import Histogram
from safle.wire import container
from safle.wire.formats import FileFormat
from support.data_sets import fixed_data, fixed_encoder
from support.ray_workers import killing_a_worker

CLIENTS = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Statistics of three clients (a, b, c), of nobody (empty) and of another encoder (other)."""
    data = fixed_data()
    parts = {"a": slice(0, 40), "b": slice(40, 90), "c": slice(90, None), "empty": slice(0, 0)}
    for name, part in parts.items():
        write(tmp_path / name, data.part(part).count())
    write(tmp_path / "other", fixed_data("linear").count())
    return tmp_path


@pytest.fixture
def pooled() -> bytes:
    return encode(fixed_data().count())


@pytest.fixture
def clients(tmp_path: Path) -> Path:
    """A folder of twelve clients' files, whose sum is ``pooled``."""
    data, inside = fixed_data(), tmp_path / "clients"
    inside.mkdir()
    for client in range(CLIENTS):
        part = data.part(slice(client, None, CLIENTS))
        write(inside / f"{client:02}.stats", part.count())
    return inside


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_sum_is_the_pooled_count_for_any_grouping(folder: Path, pooled: bytes) -> None:
    shares: list[float] = []
    files = [folder / name for name in "abc"]
    total, added = sum_files(files, folder / "total", progress=shares.append)
    assert (folder / "total").read_bytes() == pooled
    assert (encode(total), added) == (pooled, 3)
    assert shares == [1 / 3, 2 / 3, 1]
    sum_files([folder / "b", folder / "c"], folder / "part")
    sum_files([folder / "part", folder / "a"], folder / "again")
    assert (folder / "again").read_bytes() == pooled


@pytest.mark.parametrize("named", ["clients", "clients/*", "clients/../clients/*", "file://"])
def test_an_earlier_sum_is_not_added_up_however_it_is_named(clients: Path, named: str) -> None:
    total = clients / "total.stats"
    sum_files([clients], total)
    before = total.read_bytes()
    given: list[object] = [f"file://{path}" for path in clients.iterdir()]
    if named != "file://":
        given = [*clients.parent.glob(named)]
    with pytest.raises(InvalidInput, match=r"total\.stats is one of the files"):
        sum_files(given, total)
    assert total.read_bytes() == before


def test_sum_minus_contribution_is_the_sum_without_it(folder: Path) -> None:
    sum_files([folder / name for name in "abc"], folder / "total")
    sum_files([folder / "a", folder / "c"], folder / "never")
    total, part = (read(folder / name) for name in ("total", "b"))
    assert encode(total - part) == (folder / "never").read_bytes()


def test_duplicates_only_if_allowed_and_empty_clients_any_number(folder: Path) -> None:
    twice = [folder / "a", folder / "a"]
    with pytest.raises(DuplicateContribution, match=r"/a: .* from 'a' .*allow-duplicates"):
        sum_files(twice, folder / "total")
    total, _ = sum_files(twice, folder / "total", allow_duplicates=True)
    assert total.sample_count == 80
    nobody = [folder / "empty"] * 3
    with pytest.raises(LimitExceeded, match="empty: no samples"):
        sum_files([*nobody, folder / "a"], folder / "one")
    allowed = Limits(allow_empty=True)
    total, added = sum_files([*nobody, folder / "a"], folder / "one", limits=allowed)
    assert (total.sample_count, added) == (40, 4)
    assert (folder / "one").read_bytes() == (folder / "a").read_bytes()


def _damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (lambda f: (f / "c").write_bytes((f / "other").read_bytes()), EncoderMismatch, "/c: "),
        (lambda f: (f / "c").write_bytes((f / "a").read_bytes()), DuplicateContribution, "/c: "),
        (lambda f: (f / "c").write_bytes((f / "c").read_bytes()[:-9]), WireError, "/c: "),
        (lambda f: (f / "c").write_bytes(b"PK"), WireError, "not a safle file"),
        (lambda f: _damage(f / "c"), WireError, "/c: "),
        (lambda f: (f / "c").unlink(), FileNotFoundError, "/c"),
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
        sum_files([folder / "a"], folder / "total", space=fixed_encoder("linear").space)
    assert not (folder / "total").exists()


def test_limits_hold_for_every_file(folder: Path) -> None:
    with pytest.raises(LimitExceeded, match="/b: 50 samples"):
        sum_files([folder / "a", folder / "b"], folder / "total", limits=Limits(most_samples=49))
    with pytest.raises(LimitExceeded, match="3 classes"):
        sum_files([folder / "a"], folder / "x", limits=Limits(most_classes=2))


def test_histograms_sum_with_the_same_checks(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((30, 4))
    grid = Histogram.empty(0, 1, 4, bins=16)
    for name, part in {"a": values[:10], "b": values[10:], "whole": values}.items():
        write(tmp_path / name, grid.count(part))
    write(tmp_path / "other", Histogram.empty(0, 2, 4, bins=16).count(values))
    total, added = sum_files([tmp_path / "b", tmp_path / "a"], tmp_path / "total")
    assert (tmp_path / "total").read_bytes() == (tmp_path / "whole").read_bytes()
    assert (total.format, total.sample_count, added) == ("histogram", 30, 2)
    before = contents(tmp_path)
    for names, error in {
        ("a", "a"): DuplicateContribution,
        ("a", "other"): EncoderMismatch,
        (): InvalidInput,
    }.items():
        with pytest.raises(error):
            sum_files([tmp_path / name for name in names], tmp_path / "total")
    with pytest.raises(WireError, match=r"/a: .*histogram.* expected statistics"):
        sum_files([tmp_path / "a"], tmp_path / "total", space=fixed_encoder("linear").space)
    with pytest.raises(LimitExceeded, match="/a: "):
        sum_files([tmp_path / "a"], tmp_path / "total", limits=Limits(most_samples=9))
    assert contents(tmp_path) == before


def test_a_store_counts_as_the_file_of_its_sum(folder: Path, pooled: bytes) -> None:
    with Store.create(folder / "store", fixed_data().encoder) as store:
        for name in "ab":
            store.add(name, (folder / name).read_bytes())
    total, added = sum_files([folder / "store", folder / "c"], folder / "total")
    assert (encode(total), added) == (pooled, 2)
    assert (folder / "total").read_bytes() == pooled
    with pytest.raises(EncoderMismatch, match="/store: counted with"):
        sum_files([folder / "store"], folder / "x", space=fixed_encoder("linear").space)
    (folder / "store" / "contributions" / "a.stats").unlink()
    with pytest.raises(StoreError, match="'a' is missing"):
        sum_files([folder / "store", folder / "c"], folder / "x")
    assert not (folder / "x").exists()


def test_files_of_what_does_not_add_up_are_refused(tmp_path: Path) -> None:
    kind = FileFormat(container.ROUND, lambda _value: ({}, {}), lambda _opened: None)
    (tmp_path / "a.private").write_bytes(kind.encode(None))
    with pytest.raises((InvalidInput, MissingExtra), match="private"):
        sum_files([tmp_path / "a.private"], tmp_path / "total")


@pytest.mark.slow
def test_a_ray_cluster_gives_the_same_bytes_and_errors_also_when_a_task_is_killed(
    clients: Path, pooled: bytes, monkeypatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(summing, "MAX_SHARD", 1)
    files, output = sorted(clients.iterdir()), clients.parent / "total"
    shares: list[float] = []
    with killing_a_worker() as killed:
        sum_files(files, output, ray="local", progress=shares.append)
    assert len(killed) == 1
    assert output.read_bytes() == pooled
    assert shares == [(done + 1) / CLIENTS for done in range(CLIENTS)]
    output.unlink()
    with pytest.raises(DuplicateContribution, match=r"00\.stats: .* from '00\.stats' already"):
        sum_files([*files, files[0]], output, ray="local")
    with pytest.raises(LimitExceeded, match=r"00\.stats: 10 samples"):
        sum_files(files, output, ray="local", limits=Limits(most_samples=9))
    files[3].write_bytes(b"nonsense" * 20)
    with pytest.raises(WireError, match=r"03\.stats: not a safle file"):
        sum_files(files, output, ray="local")
    assert not output.exists()


@pytest.mark.slow
def test_a_ray_cluster_adds_up_any_values(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    values = np.random.default_rng(0).random((30, 4))
    grid = Histogram.empty(0, 1, 4, bins=16)
    for row in range(3):
        write(tmp_path / f"{row}.hist", grid.count(values[row::3]))
    total, _ = sum_files([tmp_path], tmp_path / "total", ray="local")
    assert total == grid.count(values)


def test_a_ray_cluster_that_does_not_start_in_time_is_started_again(monkeypatch) -> None:
    ray = pytest.importorskip("ray")
    begun: list[str] = []

    def start(address: str, **_options: object) -> None:
        begun.append(address)
        raise Exception("The current node timed out during startup.")  # as Ray does

    monkeypatch.setattr(ray, "init", start)
    with pytest.raises(FederationError, match="no Ray cluster at 'local'"):
        cluster.connect("local")
    assert begun == ["local"] * cluster.ATTEMPTS


def test_sum_of_a_folder_skips_release_sheets(clients: Path, pooled: bytes) -> None:
    (clients / ".hidden").write_bytes(b"")
    (clients / "00.stats.release.txt").write_bytes(b"a sheet")
    sum_files([clients], clients.parent / "again")
    assert (clients.parent / "again").read_bytes() == pooled


def test_addresses_are_read_like_files(clients: Path, pooled: bytes) -> None:
    folder = clients.parent
    remote = UPath("memory://safle-tests/clients")
    remote.mkdir(parents=True, exist_ok=True)
    for path in clients.iterdir():
        (remote / path.name).write_bytes(path.read_bytes())
    sum_files([str(remote)], folder / "two")
    assert (folder / "two").read_bytes() == pooled
    sum_files([f"file://{clients}"], folder / "three")
    assert (folder / "three").read_bytes() == pooled
    (remote / "03.stats").write_bytes(b"nonsense" * 20)
    with pytest.raises(WireError, match=r"/03\.stats: not a safle"):
        sum_files([str(remote)], folder / "four")
    with pytest.raises(FileNotFoundError, match="No such file"):
        sum_files(["memory://safle-tests/nobody"], folder / "four")
    with pytest.raises(InvalidInput, match="nosuch://x cannot be read"):
        sum_files(["nosuch://x"], folder / "four")
