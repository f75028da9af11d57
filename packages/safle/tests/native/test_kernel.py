"""Calls of the library: nothing reaches C that was not checked, at any instruction level."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Timer

import numpy as np
import pytest

import safle
from safle import _native
from safle._native import Kernel, cores
from safle.errors import SettingsError

LABELS = Kernel(
    "count_labels",
    "columns i4[experts, samples] <codes; samples; labels i8[samples] <classes; classes",
    "cross i8[codes, classes]!",
    pieces="experts",
)
COLUMNS, CLASSES = np.array([[0, 1, 1]], np.int32), np.array([0, 0, 1])


def counted(columns=COLUMNS, labels=CLASSES, cross=None) -> np.ndarray:
    cross = np.zeros((2, 2), np.int64) if cross is None else cross
    LABELS(columns, labels, cross)
    return cross


@pytest.mark.usefixtures("kernel_level")
def test_a_call_that_fits() -> None:
    assert counted().tolist() == [[1, 0], [1, 1]]
    assert counted(np.repeat(COLUMNS, 2, axis=1)[:, ::2]).tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"columns": COLUMNS.astype(np.int64)}, TypeError, "columns has type int64; expected i4"),
        ({"columns": COLUMNS[0]}, ValueError, "columns has 1 axes; expected 2"),
        ({"labels": CLASSES[:2]}, ValueError, "labels has 2 entries along samples; expected 3"),
        ({"columns": COLUMNS + np.int32(1)}, IndexError, "columns has an entry outside 0 to 1"),
        ({"columns": COLUMNS - np.int32(1)}, IndexError, "columns has an entry outside 0 to 1"),
        ({"labels": CLASSES + 1}, IndexError, "labels has an entry outside 0 to 1"),
        ({"cross": np.zeros((2, 4), np.int64)[:, ::2]}, ValueError, "cross is not contiguous"),
        ({"labels": [0, 0, 1]}, TypeError, "labels has type list"),
    ],
)
def test_kernel_arguments_are_checked_before_the_call(arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        counted(**arguments)


def test_kernel_refuses_read_only_output() -> None:
    cross = np.zeros((2, 2), np.int64)
    cross.setflags(write=False)
    with pytest.raises(ValueError, match="cannot be written to"):
        counted(cross=cross)
    assert not cross.any()


def test_an_argument_too_few() -> None:
    with pytest.raises(TypeError, match="count_labels takes 3 arguments; found 2"):
        LABELS(COLUMNS, CLASSES)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_pieces_are_each_done_once_on_any_number_of_threads(threads: int) -> None:
    experts, samples = 97, 2_000
    assert experts * samples > _native.ENTRIES_FOR_THREADS
    values = np.random.default_rng(0).integers(0, 7, (experts, samples))
    columns = (values + 7 * np.arange(experts)[:, None]).astype(np.int32)
    labels = np.random.default_rng(1).integers(0, 3, samples)
    expected = np.zeros((7 * experts, 3), np.int64)
    np.add.at(expected, (columns, labels), 1)
    with cores.use_threads(threads):
        assert np.array_equal(counted(columns, labels, np.zeros_like(expected)), expected)


def test_programs_may_call_from_many_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: counted().tolist(), range(200)))
    assert found == [[[1, 0], [1, 1]]] * 200


def test_no_kernel_waits_for_a_thread_that_has_not_begun() -> None:
    """As where other programs have the cores: here, the whole pool is busy."""
    go_on = Event()
    rescue = Timer(60, go_on.set)
    rescue.start()
    busy = [_native._pool().submit(go_on.wait) for _ in range(64)]
    columns = np.zeros((2, _native.ENTRIES_FOR_THREADS), np.int32)
    labels = np.zeros(columns.shape[1], np.int64)
    with cores.use_threads(2):
        found = counted(columns, labels)
    waited = go_on.is_set()
    go_on.set()
    rescue.cancel()
    assert all(each.result() for each in busy)
    assert not waited
    assert found.tolist() == [[columns.size, 0], [0, 0]]


def error_of_loading(**environment: str) -> str:
    """What a new process that asks for the level says; it must fail."""
    command = [sys.executable, "-c", "from safle._native import level; level()"]
    settings = {**os.environ, **environment}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode
    return done.stderr


def test_a_library_that_is_missing_says_what_to_do() -> None:
    told = error_of_loading(SAFLE_LIBRARY="/nowhere/libsafle.so")
    assert "safle.errors.KernelsError: the compiled kernels of safle cannot be loaded" in told
    assert "safle._native.build" in told


@pytest.mark.parametrize("name", ["native.h", "count.c", "count.inc"])
def test_a_library_of_other_sources_is_refused(tmp_path: Path, name: str) -> None:
    """As after an update of a working tree: its kernels may take other arguments."""
    shutil.copytree(Path(safle.__file__).parent, tmp_path / "safle")
    source = tmp_path / "safle/_native" / name
    source.write_text(source.read_text() + "/* changed */")
    # Whoever names a library is believed, as the sanitizers' test is.
    told = error_of_loading(PYTHONPATH=str(tmp_path), SAFLE_LIBRARY="")
    assert "libsafle" in told
    assert "was compiled from other sources than those beside it; run" in told


def test_an_unknown_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_native.VARIABLE, "avx3")
    with pytest.raises(SettingsError, match="'avx3'; expected one of portable"):
        _native.level.__wrapped__()
