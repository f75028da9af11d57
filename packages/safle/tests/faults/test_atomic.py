"""A file is the old one or the whole new one: exceptions, Ctrl-C, a full disk."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from safle import Model, solve, write
from safle.basics import atomic
from safle.statistics.histogram import Histogram
from support.data_sets import fixed_data


@pytest.fixture
def writers():
    """Every way this library writes a file: path -> None."""
    data = fixed_data("embedding", 40)
    statistics = data.count()
    model = Model.of(data.encoder, solve(statistics, ridge=1.0))
    histogram = Histogram.empty(-3, 3, data.encoder.feature_dim, bins=16).count(data.features)
    return {
        "bytes": lambda path: atomic.write_bytes(path, b"new" * 1000),
        "text": lambda path: atomic.write_text(path, "néw" * 1000),
        "statistics": lambda path: write(path, statistics),
        "histogram": lambda path: write(path, histogram),
        "encoder": data.encoder.save,
        "model": model.save,
    }


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_replaces_the_old_one_and_leaves_nothing_else(writers, tmp_path):
    for name, save in writers.items():
        path = tmp_path / name
        save(path)
        fresh = path.read_bytes()
        path.write_bytes(b"old")
        save(path)
        assert path.read_bytes() == fresh
    assert files_in(tmp_path) == sorted(writers)


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        atomic.write_bytes(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("exists", [True, False])
def test_an_interruption_leaves_the_old_file(tmp_path, error, exists):
    path = tmp_path / "file"
    if exists:
        path.write_bytes(b"old")

    def interrupted():
        with atomic.replacing(path) as scratch:
            scratch.write_bytes(b"half")
            raise error

    with pytest.raises(error):
        interrupted()
    assert files_in(tmp_path) == (["file"] if exists else [])
    assert not exists or path.read_bytes() == b"old"


@pytest.mark.parametrize("step", ["write_bytes", "chmod", "replace"])
def test_a_full_disk_at_any_step_leaves_the_old_file(writers, tmp_path, monkeypatch, step):
    for name in writers:
        (tmp_path / name).write_bytes(b"old")

    def full(self, *arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, step, full)
    for name, save in writers.items():
        with pytest.raises(OSError, match="No space left") as caught:
            save(tmp_path / name)
        assert caught.value.filename == str(tmp_path / name)
    monkeypatch.undo()
    assert files_in(tmp_path) == sorted(writers)
    assert all((tmp_path / name).read_bytes() == b"old" for name in writers)


def test_a_folder_that_is_not_there_is_named(writers, tmp_path):
    for save in writers.values():
        with pytest.raises(FileNotFoundError, match="nowhere"):
            save(tmp_path / "nowhere" / "file")
