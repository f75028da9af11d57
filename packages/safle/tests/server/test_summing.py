"""Sums by several processes, and from any address: the bytes and the errors of one process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from upath import UPath

from safle.errors import (
    DuplicateContribution,
    EncoderMismatch,
    FederationError,
    InvalidInput,
    LimitExceeded,
    WireError,
)
from safle.server import summing
from safle.server.files import sum_files
from safle.server.limits import Limits
from safle.server.manifest import manifest_path
from safle.wire import write_statistics
from support.data_sets import fixed_data

CLIENTS = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve clients' files in a folder of their own, and their sum by one process beside it."""
    data, inside = fixed_data(), tmp_path / "clients"
    inside.mkdir()
    for client in range(CLIENTS):
        part = data.part(slice(client, None, CLIENTS))
        write_statistics(inside / f"{client:02}.stats", part.count())
    sum_files([inside], tmp_path / "one")
    return tmp_path


def same(folder: Path, name: str) -> bool:
    """Whether the sum called ``name`` and its manifest are those of one process."""
    one, other = folder / "one", folder / name
    return (one.read_bytes(), manifest_path(one).read_bytes()) == (
        other.read_bytes(),
        manifest_path(other).read_bytes(),
    )


@pytest.mark.slow
def test_workers_give_the_same_bytes_and_leave_nothing_behind(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(summing, "FAN_IN", 2)
    monkeypatch.setattr(summing, "LARGEST_SHARD", 1)
    shares: list[float] = []
    before = {path.name for path in folder.iterdir()}
    sum_files([folder / "clients"], folder / "two", workers=2, progress=shares.append)
    assert same(folder, "two")
    assert shares == [(done + 1) / CLIENTS for done in range(CLIENTS)]
    assert {path.name for path in folder.iterdir()} - before == {"two", "two.manifest.json"}


@pytest.mark.slow
def test_workers_refuse_what_one_process_refuses(folder: Path) -> None:
    clients, output = folder / "clients", folder / "total"
    first, last = clients / "00.stats", clients / "11.stats"
    with pytest.raises(DuplicateContribution, match=r"00\.stats brings .* which .*00\.stats has"):
        sum_files([clients, first], output, workers=2)
    with pytest.raises(LimitExceeded, match=r"00\.stats: 10 samples"):
        sum_files([clients], output, workers=2, limits=Limits(most_samples=9))
    content = bytearray(last.read_bytes())
    content[-40] ^= 1
    last.write_bytes(content)
    with pytest.raises(WireError, match=r"11\.stats: .*checksum"):
        sum_files([clients], output, workers=2)
    write_statistics(last, fixed_data("linear").count())
    with pytest.raises(EncoderMismatch, match=r"11\.stats: counted with"):
        sum_files([clients], output, workers=2)
    last.unlink()
    with pytest.raises(FileNotFoundError, match=r"11\.stats"):
        sum_files([clients, last], output, workers=2)
    assert not output.exists()
    assert not list(folder.glob(".partial-*"))


def _alive(process: int) -> bool:
    with suppress(psutil.Error):
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    return False


@contextmanager
def killing_readers(path: Path, *, times: int) -> Iterator[list[int]]:
    """While a process reads ``path``, kill it, ``times`` in all; the last one finds the file.

    The file is a pipe, so that whoever reads it waits to be killed.
    """
    content, killed = path.read_bytes(), list[int]()

    def reader() -> int:
        while True:
            for process in psutil.process_iter():
                with suppress(psutil.Error, OSError):
                    if process.pid != os.getpid() and any(
                        link.resolve() == path for link in Path(f"/proc/{process.pid}/fd").iterdir()
                    ):
                        return process.pid
            time.sleep(0.05)

    def kill() -> None:
        for turn in range(times):
            # Until there is somebody who reads, opening for writing waits.
            with path.open("wb"):
                victim = reader()
                if turn == times - 1:
                    whole = path.with_suffix(".whole")
                    whole.write_bytes(content)
                    whole.replace(path)
                os.kill(victim, 9)
                killed.append(victim)
                # Until it is gone, it would be found and killed once more.
                while _alive(victim):
                    time.sleep(0.01)

    path.unlink()
    os.mkfifo(path)
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    yield killed
    killer.join(1)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced(folder: Path) -> None:
    files = sorted((folder / "clients").iterdir())
    with killing_readers(files[7], times=2) as killed:
        sum_files(files, folder / "two", workers=2)
    assert len(set(killed)) == 2
    assert same(folder, "two")


@pytest.mark.slow
def test_a_worker_that_dies_every_time_ends_the_sum(folder: Path) -> None:
    files = sorted((folder / "clients").iterdir())
    with (
        # What is finished between two deaths starts the count again.
        killing_readers(files[7], times=CLIENTS * summing.ATTEMPTS) as killed,
        pytest.raises(FederationError, match=r"died 3 times at .*\.stats"),
    ):
        sum_files(files, folder / "two", workers=2)
    assert len(killed) >= summing.ATTEMPTS
    assert not (folder / "two").exists()


@pytest.mark.slow
def test_a_ray_cluster_gives_the_same_bytes_also_when_a_task_is_killed(folder: Path) -> None:
    pytest.importorskip("ray")
    files = sorted((folder / "clients").iterdir())
    with killing_readers(files[7], times=1) as killed:
        sum_files(files, folder / "two", workers=2, ray="local")
    assert len(killed) == 1
    assert same(folder, "two")
    files[3].write_bytes(b"nonsense" * 20)
    with pytest.raises(WireError, match=r"03\.stats: not a safle file"):
        sum_files(files, folder / "total", workers=2, ray="local")


def test_a_ray_cluster_that_does_not_start_in_time_is_started_again(monkeypatch) -> None:
    ray = pytest.importorskip("ray")
    begun: list[str] = []

    def start(address: str, **_options: object) -> None:
        begun.append(address)
        raise Exception("The current node timed out during startup.")  # as Ray does

    monkeypatch.setattr(ray, "init", start)
    with pytest.raises(FederationError, match="no Ray cluster at 'local': The current node timed"):
        summing.RayCluster("local", 2)
    assert begun == ["local"] * summing.ATTEMPTS


def test_a_folder_stands_for_its_files_and_not_for_its_manifests(folder: Path) -> None:
    clients = folder / "clients"
    names = [path.name for path in sorted(clients.iterdir())]
    (clients / ".hidden").write_bytes(b"")
    sum_files([clients / names[0], clients / names[1]], clients / "01.stats")
    (clients / names[0]).unlink()
    sum_files([clients], folder / "again")
    assert same(folder, "again")


def test_addresses_are_read_like_files(folder: Path) -> None:
    remote = UPath("memory://safle-tests/clients")
    remote.mkdir(parents=True, exist_ok=True)
    for path in (folder / "clients").iterdir():
        (remote / path.name).write_bytes(path.read_bytes())
    sum_files([str(remote)], folder / "two")
    assert same(folder, "two")
    sum_files([f"file://{folder / 'clients'}"], folder / "three")
    assert same(folder, "three")
    # A sum at an address stands for what its manifest lists.
    for path in (folder / "one", manifest_path(folder / "one")):
        (remote.parent / path.name).write_bytes(path.read_bytes())
    with pytest.raises(DuplicateContribution, match="memory://safle-tests/one brings"):
        sum_files([folder / "clients" / "03.stats", f"{remote.parent}/one"], folder / "four")
    (remote / "03.stats").write_bytes(b"nonsense" * 20)
    with pytest.raises(WireError, match=r"memory://safle-tests/clients/03\.stats: not a safle"):
        sum_files([str(remote)], folder / "four")
    with pytest.raises(FileNotFoundError, match="No such file"):
        sum_files(["memory://safle-tests/nobody"], folder / "four")
    with pytest.raises(InvalidInput, match="nosuch://x cannot be read"):
        sum_files(["nosuch://x"], folder / "four")
