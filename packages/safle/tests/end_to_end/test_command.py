"""The command itself: help that answers at once, exit codes, errors of one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from safle import EmbeddingEncoder, load_encoder
from safle.basics import to_mapping
from safle.cli.main import run
from safle.encoders.calibration import declared_range
from support.command import safle
from support.tables import write_table

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("command")
    encoder = EmbeddingEncoder.calibrated(declared_range(0, 1, 3))
    encoder.save(place / "encoder.safetensors")
    write_table(place / "a.npz", np.eye(3), np.array([0, 1, 0]))
    return place


def test_help_teaches_and_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK_ALL], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert not set(HEAVY) & set(found["modules"])
    assert {"encoder make", "count", "sum", "store list", "inspect"} <= set(found["texts"])
    first = found["texts"][""].split("Five to see first")[1].split("╰")[0]
    assert re.findall(r"^│ (\w+)", first, re.MULTILINE) == FIRST
    made = found["texts"]["encoder make"]
    assert made.index("--range") < made.index("--kind embedding") < made.index("--buckets")
    for name, text in found["texts"].items():
        assert f"safle {name}".strip() in text
        assert "safle" in text.split("Usage:")[1].split("\n", 1)[1], name


def test_version_and_bare_command(folder: Path) -> None:
    assert safle("--version", folder=folder).stdout.startswith("safle 0.")
    safle(folder=folder, code=2)


MAKE = ("encoder", "make", "--sample", "a.npz")
ENCODER = ("--encoder", "encoder.safetensors")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["sum"],
        ["count", "a.npz", "--nosuch"],
        ["count", "a.npz", *ENCODER, "-o", "a.npz"],
        [*MAKE, "--range", "0", "1", "-o", "x"],
        ["encoder", "make", "--range", "0", "1", "-o", "x"],
        [*MAKE, "--kind", "linear", "--buckets", "4", "-o", "x"],
        ["solve", "total.stats", *ENCODER, "--ridge", "-1", "-o", "x"],
        [
            "publish",
            "total.stats",
            "--epsilon",
            "1",
            "--delta",
            "1e-6",
            "--classes",
            "a",
            "-o",
            "x",
        ],
    ],
)
def test_wrong_usage_is_2_and_one_line(folder: Path, arguments: list[str]) -> None:
    before = {path.name for path in folder.iterdir()}
    said = safle(*arguments, folder=folder, code=2).stderr
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert "\\" not in said
    assert "--help" in said
    assert {path.name for path in folder.iterdir()} == before


def test_an_error_is_1_and_one_line_and_a_traceback_only_on_request(folder: Path) -> None:
    done = safle("inspect", "nosuch.stats", folder=folder, code=1)
    assert done == ("", "error: nosuch.stats: No such file or directory\n")
    for arguments in (["--debug", "inspect", "nosuch"], ["inspect", "nosuch", "--debug"]):
        with pytest.raises(FileNotFoundError):
            run(arguments)


def test_a_place_that_cannot_be_written_is_refused_before_the_work(folder: Path) -> None:
    done = safle("sum", "nosuch.stats", "-o", "nowhere/total.stats", folder=folder, code=1)
    assert done.stderr == "error: nowhere: no such directory\n"


def test_names_in_files_cannot_drive_the_terminal(folder: Path) -> None:
    write_table(folder / "odd.npz", np.eye(3), np.array(["\x1b[2J", "a\nb", "plain"]))
    shown = safle("inspect", "odd.npz", folder=folder).stdout
    assert "\x1b" not in shown
    assert "\\x1b[2J" in shown
    assert "a\\nb" in shown


RANGE = ["--range", "0", "2", "--features", "3"]
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
        (RANGE, DEFAULT),
        ([*RANGE, "--kind", "embedding"], {"buckets": 8, "group_size": 6}),
        (["--sample", "a.npz", "--kind", "linear", "--fraction-bits", "4"], {"fraction_bits": 4}),
    ],
)
def test_encoders_from_every_calibration(
    folder: Path, options: list[str], settings: dict[str, object]
) -> None:
    made_again = ("-o", "made.safetensors", "--force")
    shown = safle("encoder", "make", *options, *made_again, folder=folder).stdout
    made = load_encoder(folder / "made.safetensors")
    assert made.feature_dim == 3
    assert settings.items() <= to_mapping(made.settings).items()
    assert made.fingerprint in shown
