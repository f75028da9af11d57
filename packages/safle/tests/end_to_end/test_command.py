"""The command itself: help that answers at once, exit codes, errors of one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from safle.encoders import EmbeddingEncoder, load_encoder
from safle.encoders.calibration import DeclaredRange
from support.tables import write_table

SAFLE = Path(sys.executable).with_name("safle")
FIRST = ["encoder", "rehearse", "count", "store", "evaluate"]
HEAVY = ("numpy", "scipy", "sklearn", "safetensors", "torch", "matplotlib", "psutil")

# One process asks for every help, first for the list of all commands.
ASK_ALL = """
import contextlib, io, json, sys
from safle.cli.main import COMMANDS, app, run
import rich_click as click
texts, modules, names = {}, None, [[], *([name] for name in COMMANDS)]
for arguments in names:
    context = click.Context(app)
    command = app.get_command(context, arguments[0]) if len(arguments) == 1 else None
    if isinstance(command, click.Group):
        names += [[*arguments, inner] for inner in command.list_commands(context)]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        try:
            run([*arguments, "--help"])
        except SystemExit as end:
            assert end.code == 0, arguments
    texts[" ".join(arguments)] = shown.getvalue()
    modules = modules or sorted(sys.modules)
print(json.dumps({"texts": texts, "modules": modules}))
"""


def safle(*arguments: str, folder: Path, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SAFLE, *arguments],
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
        **settings,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("command")
    encoder = EmbeddingEncoder.calibrated(DeclaredRange(0, 1, 3))
    encoder.save(place / "encoder.safetensors")
    write_table(place / "a.npz", np.eye(3), np.array([0, 1, 0]))
    return place


def test_help_teaches_and_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK_ALL], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert not set(HEAVY) & set(found["modules"])
    assert {"encoder make", "count", "sum", "store solve", "inspect"} <= set(found["texts"])
    first = found["texts"][""].split("Five to see first")[1].split("╰")[0]
    assert re.findall(r"^│ (\w+)", first, re.MULTILINE) == FIRST
    made = found["texts"]["encoder make"]
    assert made.index("--range") < made.index("--kind embedding") < made.index("--buckets")
    for name, text in found["texts"].items():
        assert f"safle {name}".strip() in text
        assert "safle" in text.split("Usage:")[1].split("\n", 1)[1], name


def test_version_and_bare_command(folder: Path) -> None:
    version = safle("--version", folder=folder)
    assert version.returncode == 0
    assert version.stdout.startswith("safle 0.")
    assert safle(folder=folder).returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["sum"],
        ["count", "a.npz", "--nosuch"],
        ["count", "a.npz", "--encoder", "encoder.safetensors", "-o", "a.npz"],
        ["encoder", "make", "--range", "0", "1", "--sample", "a.npz", "-o", "x"],
        ["encoder", "make", "--sample", "a.npz", "--kind", "linear", "--buckets", "4", "-o", "x"],
        ["encoder", "make", "--range", "0", "1", "-o", "x"],
        ["solve", "total.stats", "--encoder", "encoder.safetensors", "--ridge", "-1", "-o", "x"],
    ],
)
def test_wrong_usage_is_2_and_one_line(folder: Path, arguments: list[str]) -> None:
    before = {path.name for path in folder.iterdir()}
    done = safle(*arguments, folder=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "--help" in done.stderr
    assert {path.name for path in folder.iterdir()} == before


def test_an_error_is_1_and_one_line_and_a_traceback_only_on_request(folder: Path) -> None:
    short = safle("inspect", "nosuch.stats", folder=folder)
    assert (short.returncode, short.stdout) == (1, "")
    assert short.stderr == "error: nosuch.stats: No such file or directory\n"
    for arguments in (
        ["--debug", "inspect", "nosuch.stats"],
        ["inspect", "nosuch.stats", "--debug"],
    ):
        long = safle(*arguments, folder=folder)
        assert long.returncode == 1
        assert "Traceback" in long.stderr


def test_a_place_that_cannot_be_written_is_refused_before_the_work(folder: Path) -> None:
    done = safle("sum", "nosuch.stats", "-o", "nowhere/total.stats", folder=folder)
    assert done.returncode == 1
    assert done.stderr == "error: nowhere: no such directory\n"


@pytest.mark.slow
def test_a_file_of_another_kind_is_overwritten_only_by_force(folder: Path) -> None:
    make = ("encoder", "make", "--range", "0", "1", "--features", "3", "--kind", "linear", "-o")
    data = (folder / "a.npz").read_bytes()
    done = safle(*make, "a.npz", folder=folder)
    assert (done.returncode, (folder / "a.npz").read_bytes()) == (2, data)
    assert "a.npz is there, and is no file of this kind" in done.stderr
    (folder / "old.safetensors").write_bytes((folder / "encoder.safetensors").read_bytes())
    assert safle(*make, "old.safetensors", folder=folder).returncode == 0
    count = ("count", "a.npz", "--encoder", "encoder.safetensors", "-o", "old.safetensors")
    done = safle(*count, folder=folder)
    assert done.returncode == 2
    assert "is a file of kind encoder" in done.stderr
    assert safle(*count, "--force", folder=folder).returncode == 0
    assert (
        "old.safetensors: statistics" in safle("inspect", "old.safetensors", folder=folder).stdout
    )


def test_names_in_files_cannot_drive_the_terminal(folder: Path) -> None:
    write_table(folder / "odd.npz", np.eye(3), np.array(["\x1b[2J", "a\nb", "plain"]))
    done = safle("inspect", "odd.npz", folder=folder)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "\\x1b[2J" in done.stdout
    assert "a\\nb" in done.stdout


DEFAULT = {
    "fraction_bits": 6,
    "transform": "square-root",
    "units": 48,
    "terms": 3,
    "bits": 4,
    "seed": 0,
}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["--range", "0", "2", "--features", "3"], DEFAULT),
        (
            ["--range", "0", "2", "--features", "3", "--kind", "embedding"],
            {"buckets": 8, "group_size": 6},
        ),
        (["--sample", "a.npz", "--kind", "linear", "--fraction-bits", "4"], {"fraction_bits": 4}),
    ],
)
def test_encoders_from_every_calibration(
    folder: Path, options: list[str], settings: dict[str, object]
) -> None:
    done = safle("encoder", "make", *options, "-o", "made.safetensors", folder=folder)
    assert done.returncode == 0, done.stderr
    made = load_encoder(folder / "made.safetensors")
    assert made.feature_dim == 3
    assert {name: made.header()[name] for name in settings} == settings
    assert made.fingerprint in done.stdout
