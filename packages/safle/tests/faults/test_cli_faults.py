"""Bad input and bad luck at the command line: one clear line, and every file as it was."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from safle import EmbeddingEncoder, Model, count, load_model, read, solve, write
from safle.encoders.calibration import declared_range
from safle.server.summing import sum_files
from support.command import safle
from support.tables import write_table

pytestmark = pytest.mark.slow
SAFLE = Path(sys.executable).with_name("safle")
WORDS = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
ENCODER = ["--encoder", "encoder.safetensors"]
OLD = b"an older result"
SMALL = 100
"""A full disk: no file may grow beyond so many bytes."""


@pytest.fixture(scope="module")
def folder(digits: tuple[np.ndarray, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good files, bad files, and results of an earlier day called ``old``."""
    place = tmp_path_factory.mktemp("faults")
    features, labels = digits[0][:600].astype(np.float32), WORDS[digits[1][:600]]
    encoder, other = (
        EmbeddingEncoder.calibrated(declared_range(0, high, 64), group_size=4) for high in (16, 15)
    )
    encoder.save(place / "encoder.safetensors")
    other.save(place / "other.safetensors")
    write_tables(place, features, labels)
    for name, part in {"a": slice(0, 300), "b": slice(300, 600)}.items():
        write(place / f"{name}.stats", count(encoder, features[part], labels[part]))
    write(place / "foreign.stats", count(other, features[:9], labels[:9]))
    write(place / "stranger.stats", count(encoder, features[::-3], labels[::-3]))
    sum_files([place / "a.stats", place / "b.stats"], place / "total.stats")
    total = read(place / "total.stats")
    Model.of(encoder, solve(total, ridge=10.0)).save(place / "model.safetensors")
    damaged = bytearray((place / "a.stats").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (place / "damaged.stats").write_bytes(damaged)
    (place / "old").write_bytes(OLD)
    return place


def write_tables(place: Path, features: np.ndarray, labels: np.ndarray) -> None:
    write_table(place / "good.npz", features, labels)
    write_table(place / "empty.npz", features[:0], labels[:0])
    write_table(place / "one.npz", features[labels == "one"], labels[labels == "one"])
    write_table(place / "narrow.npz", features[:, :10], labels)
    np.savez(place / "short.npz", features=features, labels=labels[:-7])
    features = features.copy()
    features[500, 3] = np.nan
    write_table(place / "nan.npz", features, labels)
    write_table(place / "many.npz", np.tile(features[:500], (200, 1)).astype(np.float16))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def hear_ctrl_c() -> None:
    """A test run in the background may have been told to ignore Ctrl-C; a user has not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(
    folder: Path, *arguments: str, preexec_fn: Callable[[], None] = hear_ctrl_c
) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # No other thread runs here.
    pipes["preexec_fn"] = preexec_fn
    return subprocess.Popen([SAFLE, *arguments], cwd=folder, **pipes)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sum", "a.stats", "foreign.stats"], "foreign.stats: counted with encoder"),
        (["sum", "a.stats", "b.stats", "a.stats"], "came from 'a.stats' already"),
        (["sum", "a.stats", "damaged.stats"], "damaged.stats: "),
        (["sum", "a.stats", "nosuch.stats"], "nosuch.stats: No such file"),
        (["count", "short.npz", *ENCODER], "593 labels for 600 rows"),
        (["count", "good.npz", *ENCODER, "--classes", "one,two"], "'eight'"),
        (["count", "nan.npz", *ENCODER], "nan.npz: features"),
        (["count", "narrow.npz", *ENCODER], "narrow.npz: features have 10 columns"),
        (["solve", "total.stats", "--encoder", "other.safetensors"], "counted with encoder"),
        (["predict", "model.safetensors", "nan.npz"], "nan.npz: features"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    folder: Path, arguments: list[str], said: str
) -> None:
    before = contents(folder)
    done = safle("--force", *arguments, "-o", "old", folder=folder, code=1)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert contents(folder) == before


def test_an_empty_client_changes_nothing_and_may_come_twice(folder: Path, tmp_path: Path) -> None:
    empty, total, model = (tmp_path / name for name in ("empty.stats", "total.stats", "model"))
    nothing = ("count", "empty.npz", *ENCODER, "-o", empty)
    assert "has no samples" in safle(*nothing, folder=folder, code=1).stderr
    assert not empty.exists()
    safle(*nothing, "--allow-empty", folder=folder)
    added = ("sum", empty, "a.stats", empty, "b.stats", "-o", total)
    refused = safle(*added, folder=folder, code=1).stderr
    assert "empty.stats: no samples; is it the right file?" in refused
    assert not total.exists()
    safle(*added, "--allow-empty", folder=folder)
    assert total.read_bytes() == (folder / "total.stats").read_bytes()
    alone = safle("solve", empty, *ENCODER, "-o", model, folder=folder, code=1)
    assert "no samples" in alone.stderr
    assert not model.exists()


def test_a_single_class_can_be_counted_and_solved(folder: Path, tmp_path: Path) -> None:
    one, model = tmp_path / "one.stats", tmp_path / "model.safetensors"
    safle("count", "one.npz", *ENCODER, "-o", one, folder=folder)
    safle("solve", one, *ENCODER, "-o", model, folder=folder)
    assert set(load_model(model).predict(np.zeros((3, 64)))) == {"one"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["count", "good.npz", *ENCODER],
        ["sum", "a.stats", "b.stats"],
        ["solve", "total.stats", *ENCODER, "--ridge", "10"],
        ["predict", "model.safetensors", "good.npz"],
    ],
)
def test_a_full_disk_is_one_line_and_changes_nothing(folder: Path, arguments: list[str]) -> None:
    def fill_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))

    before = contents(folder)
    words = ("--quiet", *arguments, "--force", "-o", "old")
    process = start(folder, *words, preexec_fn=fill_disk)
    shown, said = process.communicate(timeout=300)
    assert (process.returncode, shown) == (1, "")
    # Whoever counts is told what the file would have given away, quiet or not.
    told = [line for line in said.splitlines() if not line.startswith("warning: this plain")]
    # A client's log, without which nothing leaves, is the first that finds no room.
    full = "log.jsonl: the log cannot be used" if arguments[0] == "count" else "old: File too large"
    assert len(told) == 1
    assert told[0].startswith("error: ")
    assert full in told[0]
    assert contents(folder) == before


def writing(folder: Path) -> subprocess.Popen[str]:
    """A prediction that has written a part of its scratch file."""
    asked = ("predict", "model.safetensors", "many.npz", "--proba", "--force", "-o", "old")
    process = start(folder, *asked)
    deadline = time.monotonic() + 600
    while not any(path.stat().st_size for path in folder.glob(".old.*.part")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return process


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_stopped_command_cleans_up(folder: Path, number: int, code: int, said: str) -> None:
    before = contents(folder)
    process = writing(folder)
    process.send_signal(number)
    shown, told = process.communicate(timeout=300)
    assert process.returncode == code
    assert shown == ""
    assert told.split("\n")[-2:] == [f"error: {said}", ""]
    assert "Traceback" not in told
    assert contents(folder) == before


def test_ctrl_c_while_solving(folder: Path) -> None:
    before = contents(folder)
    process = start(
        folder, "solve", "total.stats", *ENCODER, "--ridge", "0", "--force", "-o", "old"
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    while not first.startswith("solving"):
        first = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 130
    assert told.strip() == "error: interrupted"
    assert contents(folder) == before
