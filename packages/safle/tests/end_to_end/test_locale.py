"""The locale of a machine that knows ASCII only: the same files, and never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from safle.cli.main import app

SAFLE = Path(sys.executable).with_name("safle")
NARROW = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
TABLE = "größe,dösis,diagnose\n" + "".join(
    f"{20 + n}.5,{n % 7},{('kränk', 'gesund ✓')[n % 2]}\n" for n in range(24)
)
E, M, T = "ëncoder.safetensors", "mödel.safetensors", "tabellë.csv"
SCHEMA = ("--label-column", "diagnose", "--least", "1", "-o", "schéma.toml")
ROUND = (
    *("--encoder", E, "--classes", "kränk,gesund ✓", "--most-total-samples", "999"),
    *("--client", "ä.pub", "--client", "b.pub", "--least", "2", "--keyholder", "hüter.pub"),
    *("--key", "leitung.key", "-o", "ründe.private"),
)
IN_ROUND = ("--round", "ründe.private", "--operator", "leitung.pub")
REQUEST = ("--request", "bitte…ask")
OPEN = (
    *("--key", "hüter.key", "--history", "geöffnet", "--new-history"),
    *("--yes", "-o", "schlüssel.answer"),
)
FLOW: list[tuple[str, ...]] = [
    ("schema", "draft", T, *SCHEMA),
    ("schema", "merge", "schéma.toml", "-o", "gemeinsäm.toml"),
    ("encoder", "make", "--schema", "schéma.toml", "-o", E),
    ("rehearse", T, "--encoder", E),
    ("count", T, "--encoder", E, "-o", "ä.stats"),
    ("histogram", T, "--schema", "schéma.toml", "--label-column", "diagnose", "-o", "ä.hist"),
    ("inspect", T),
    ("inspect", "ä.stats"),
    ("inspect", E),
    ("inspect", "nicht-dä.stats"),
    ("store", "add", "spëicher", "--encoder", E, "ä.stats"),
    ("store", "list", "spëicher"),
    ("store", "verify", "spëicher"),
    ("solve", "spëicher", "-o", M),
    ("sum", "ä.stats", "--encoder", E, "-o", "sümme.stats"),
    ("solve", "--force", "sümme.stats", "--encoder", E, "--curve", "kürve.csv", "-o", M),
    ("evaluate", M, T, "--json", "zählen.json", "--html", "sëite.html"),
    ("predict", M, T, "--proba", "-o", "vorhersäge.csv"),
    ("predict", M, T, "-o", "-"),
    ("card", M, "--sum", "sümme.stats", "--mode", "plain", "-o", "kärte.md"),
    ("export", M, "-o", "mödel.onnx"),
    ("store", "remove", "spëicher", "ä"),
    ("store", "remove", "spëicher", "fehlt-ä"),
    ("log", "spëicher"),
    *(("private", "keys", name, "-o", f"{name}.key") for name in ("ä", "b", "hüter", "leitung")),
    ("private", "round", *ROUND),
    *(
        ("count", T, "--encoder", E, *IN_ROUND, "--key", f"{name}.key", "-o", f"{name}.masked")
        for name in ("ä", "b")
    ),
    ("private", "sum", "ä.masked", "b.masked", *IN_ROUND, *REQUEST, "-o", "sümme.masked"),
    ("private", "answer", "bitte…ask", *IN_ROUND, *OPEN),
    ("private", "open", "sümme.masked", "schlüssel.answer", *IN_ROUND, "-o", "öffen.stats"),
    ("log", "prötokoll.jsonl"),
    ("count", "fehlt-ö.npz", "--encoder", E, "-o", "x.stats"),
    ("predict", M, T, "--ignore", "keine-spälte", "-o", "dä/x.csv"),
]
"""A federation with letters beyond ASCII in every name, and some errors."""


def run(words: Sequence[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    # Relative names: the folder above may be anything. Bytes of UTF-8, whatever the locale.
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "PYTHON", "LANG"))}
    variables |= {"SAFLE_LOG": "prötokoll.jsonl", **environment}
    done = subprocess.run(
        [SAFLE, *words], cwd=folder, env=variables, capture_output=True, timeout=120, check=False
    )
    out, error = (text.decode(errors="backslashreplace") for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(words, done.returncode, out, error)


@pytest.mark.slow
def test_a_federation_is_the_same_in_a_locale_of_ascii(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    pytest.importorskip("onnx")
    wide, narrow = tmp_path / "wëit", tmp_path / "ëng"
    for folder in (wide, narrow):
        folder.mkdir()
        (folder / T).write_text(TABLE, encoding="utf-8")
    for words in FLOW:
        expected = run(words, wide, LC_ALL="C.UTF-8")
        done = run(words, narrow, **NARROW)
        fails = any("dä" in word or "fehlt" in word for word in words)
        assert expected.returncode == int(fails), (words, expected.stderr)
        assert done.returncode == expected.returncode, (words, done.stderr)
        for said in (done.stdout, done.stderr):
            assert "Traceback" not in said
            assert "please report" not in said
    assert {path.name for path in wide.iterdir()} == {path.name for path in narrow.iterdir()}
    for name in ("ä.stats", "ä.hist", M, "öffen.stats", "vorhersäge.csv", "schéma.toml"):
        assert (wide / name).read_bytes() == (narrow / name).read_bytes()
    assert (narrow / "öffen.stats").stat().st_size > 0


def commands(command: click.Command = app, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command and group of the tree, by its words."""
    found = [words]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found += commands(inner, (*words, name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_help_is_shown_in_a_locale_of_ascii(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run([*words, "--help"], tmp_path, **NARROW)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("words", [w for w in commands() if w], ids=" ".join)
def test_every_command_names_a_file_that_is_not_there_in_a_locale_of_ascii(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    given = [*words, "fehlt-ä", "fehlt-ö", "-o", "dä/ü"]
    wide, narrow = run(given, tmp_path, LC_ALL="C.UTF-8"), run(given, tmp_path, **NARROW)
    assert narrow.returncode == wide.returncode != 0
    assert "Traceback" not in narrow.stderr
    assert "please report" not in narrow.stderr


def test_a_name_that_is_not_utf8_is_shown_as_escapes(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.csv")
    (tmp_path / name).write_text(TABLE, encoding="utf-8")
    made = os.fsdecode(b"\xfe.toml")
    words = ("schema", "draft", name, "--label-column", "diagnose", "--least", "1", "-o", made)
    for environment in ({"LC_ALL": "C.UTF-8"}, NARROW):
        done = run(words, tmp_path, **environment)
        assert done.returncode == 0, done.stderr
        assert "\\udcfe.toml: schema" in done.stdout
        (tmp_path / made).unlink()
