"""Outputs and inputs that are no regular files: refused by every command, and left as they are."""

from __future__ import annotations

import io
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import click
import pytest

from safle.basics import atomic
from safle.basics.journal import append_row
from safle.cli.main import app, run
from safle.cli.session import Written
from safle.errors import InvalidInput, StoreError
from safle.site.log import read_log, site_log
from support.command import safle

TABLE = "age,dose,label\n" + "".join(
    f"{20 + n},{n % 7},{('ill', 'well')[n % 2]}\n" for n in range(24)
)
SAFLE = Path(sys.executable).with_name("safle")
E, M, S = "e.safetensors", "m.safetensors", "w.stats"
ROUND = ("--round", "r.private", "--operator", "op.pub")
DECLARED = ("--delta", "1e-6", "--calibration", "declared", "--classes", "ill,well")
INPUTS: dict[str, tuple[str, ...]] = {
    "encoder make": ("--range", "0", "1", "--features", "3"),
    "count": ("ward.csv", "--encoder", E),
    "evaluate": (M, "ward.csv"),
    "schema draft": ("ward.csv", "--least", "1"),
    "schema merge": ("s.toml", "s.toml"),
    "histogram": ("ward.csv", "--low", "0", "--high", "60"),
    "sum": ("w.stats", "--encoder", E),
    "solve": ("w.stats", "--encoder", E),
    "publish": ("w.stats", "--epsilon", "1", *DECLARED),
    "private answer": ("w.stats", *ROUND, "--key", "op", "--history", "board.history"),
    "private keys": ("a",),
    "private open": ("w.stats", "w.stats", *ROUND),
    "private round": (
        *("--encoder", E, "--classes", "ill,well", "--most-total-samples", "99"),
        *("--client", "op.pub", "--keyholder", "op.pub", "--key", "op"),
    ),
    "private sum": ("w.stats", *ROUND),
    "predict": (M, "ward.csv"),
    "fit-temperature": (M, "w.eval"),
    "card": (M, "--mode", "plain"),
    "export": (M,),
    "demo": (),
    "policy": (),
    "attack": (S, "--encoder", E),
    "backbones export": ("efficientnet_lite0",),
    "backbones moments": (),
    "experiment": ("table1",),
    "features": ("images",),
    "report": ("store",),
    "simulate": ("ward.csv", "--encoder", E),
}
"""Command -> arguments that are right but for its output. A place is refused before the work, so
that files of rounds may be any."""


def commands(
    command: click.Command = app, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Every command of the tree by its words, with those of other packages."""
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from commands(inner, (*words, name))


def outputs() -> list[tuple[str, str]]:
    """Each command with each of its options that name what it writes."""
    return [
        (words, parameter.opts[0])
        for words, command in commands()
        for parameter in command.params
        if isinstance(parameter, Written) or {"--out", "--output"} & {*parameter.opts}
    ]


def make_device(path: Path) -> None:
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


def make_socket(path: Path) -> None:
    # The path of a socket is short; that of a test may not be.
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(os.path.relpath(path))


def make_link(path: Path) -> None:
    path.with_name("theirs").write_text("theirs")
    path.symlink_to("theirs")


PLACES: dict[str, Callable[[Path], Any]] = {
    "device": make_device,
    "pipe": os.mkfifo,
    "socket": make_socket,
    "link": make_link,
    "dangling": lambda path: path.symlink_to("nowhere"),
    "directory": Path.mkdir,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("cryptography")
    place = tmp_path_factory.mktemp("places")
    (place / "ward.csv").write_text(TABLE)
    (place / "images").mkdir()
    safle("schema", "draft", "ward.csv", "--least", "1", "-o", "s.toml", folder=place)
    safle("encoder", "make", "--schema", "s.toml", "-o", E, folder=place)
    safle("count", "ward.csv", "--encoder", E, "-o", S, folder=place)
    safle("solve", S, "--encoder", E, "-o", M, folder=place)
    safle("evaluate", M, "ward.csv", "--counts", "w.eval", folder=place)
    safle("store", "add", "store", "--encoder", E, S, folder=place)
    safle("private", "keys", "op", "-o", "op", folder=place)
    (place / "r.private").write_text("any")
    return place


@pytest.fixture(params=PLACES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def odd(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place that is no regular file, and the check that nothing has happened to it."""
    monkeypatch.chdir(folder)
    place = folder / "odd"
    PLACES[kind](place)
    before = place.lstat()
    yield place
    after = place.lstat()
    kept = (before.st_mode, before.st_ino, before.st_rdev)
    assert (after.st_mode, after.st_ino, after.st_rdev) == kept
    assert not (folder / "nowhere").exists()
    assert not [*folder.glob(".*.part")]
    if kind == "link":
        assert (folder / "theirs").read_text() == "theirs"
        (folder / "theirs").unlink()
    if kind == "directory":
        place.rmdir()
    else:
        place.unlink()


@pytest.mark.parametrize(("words", "option"), outputs(), ids=str)
def test_commands_refuse_outputs_other_than_regular_files(
    odd: Path, kind: str, words: str, option: str
) -> None:
    if option == "--out" and kind == "directory":
        pytest.skip("it writes into a folder")
    said = refuses(words, *INPUTS[words], *other_outputs(words, option), option, "odd")
    assert "odd" in said
    assert not (odd.parent / "x").exists()


def other_outputs(words: str, option: str) -> list[str]:
    """The options of other outputs that must be given."""
    command = dict(commands())[words]
    needed = [p.opts[0] for p in command.params if isinstance(p, Written) and p.required]
    return [word for other in needed if other != option for word in (other, "x")]


def refuses(words: str, *arguments: str) -> str:
    """What a command says that must not wait: a process, since a pipe would stop this one."""
    if "odd" in arguments and stat.S_ISFIFO(os.lstat("odd").st_mode):
        done = subprocess.run(
            [SAFLE, *words.split(), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        code, said = done.returncode, done.stderr
    else:
        error = io.StringIO()
        with redirect_stderr(error), redirect_stdout(error), pytest.raises(SystemExit) as ended:
            run([*words.split(), *arguments])
        code, said = int(ended.value.code or 0), error.getvalue()
    assert code in (1, 2), said
    assert "unexpected" not in said
    assert "Traceback" not in said
    return said


INPUT_OF = {
    "inspect": ("odd",),
    "log": ("odd",),
    "count": ("odd", "--encoder", E, "-o", "x"),
    "rehearse": ("ward.csv", "--encoder", "odd"),
    "evaluate": ("odd", "ward.csv"),
    "predict": (M, "odd", "-o", "x"),
    "sum": ("odd", "-o", "x"),
    "solve": (S, "--encoder", E, "--priors", "odd", "-o", "x"),
    "store add": ("store", "odd"),
    "encoder make": ("--schema", "odd", "-o", "x"),
    "private keys": ("a", "-o", "odd"),
    "private answer": (
        *(S, "--round", "odd", "--operator", "op.pub", "--key", "op"),
        *("--history", "board.history", "-o", "x"),
    ),
    "publish": (S, "--epsilon", "1", *DECLARED, "--ledger", "odd", "-o", "x"),
}


@pytest.mark.parametrize("words", INPUT_OF)
def test_input_must_be_a_regular_file(odd: Path, kind: str, words: str) -> None:
    if kind in ("link", "dangling") and words != "private keys":
        pytest.skip("an input may be a link")
    if kind == "directory" and words in ("sum", "store add"):
        pytest.skip("it takes the files of a folder")
    assert "odd" in refuses(words, *INPUT_OF[words])


LIBRARY: dict[str, Callable[[Path], Any]] = {
    "write_bytes": lambda path: atomic.write_bytes(path, b"new"),
    "write_together": lambda path: atomic.write_together({path.with_name("y"): b"", path: b"new"}),
    "write_new": lambda path: atomic.write_new(path, "new"),
    "journal": lambda path: append_row(path, {"who": "me"}),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_every_way_of_writing_refuses_it(odd: Path, kind: str, name: str) -> None:
    with pytest.raises((InvalidInput, StoreError), match=r"odd: (no row can be added: .*odd: )?is"):
        LIBRARY[name](odd)
    assert not (odd.parent / "y").exists()


@pytest.mark.parametrize("beside", [".release.txt", ".release.json"])
def test_a_contribution_does_not_leave_if_its_sheet_cannot_be_written(
    odd: Path, kind: str, beside: str
) -> None:
    sheet = odd.rename(odd.with_name(f"new.stats{beside}"))
    logged = [*read_log(site_log())]
    said = refuses("count", "ward.csv", "--encoder", E, "-o", "new.stats")
    assert f"new.stats{beside}: is" in said
    assert not Path("new.stats").exists()
    assert len(read_log(site_log())) == len(logged)
    sheet.rename(odd)


def test_predictions_go_to_standard_output_and_nothing_else_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    safle("predict", M, "ward.csv", "-o", "p.csv")
    assert safle("predict", M, "ward.csv", "-o", "-").stdout == Path("p.csv").read_text()
    assert "standard output" in safle("count", "ward.csv", "--encoder", E, "-o", "-", code=2).stderr
    assert not Path("-").exists()
