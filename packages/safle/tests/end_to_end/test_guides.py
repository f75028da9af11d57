"""The guides and the examples, run as a reader would run them: what they show must work."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rich_click as click

import safle
from safle.cli.main import app
from safle.cli.session import Session
from support.pages import PAGES, ROOT, blocks, commands, run_line, run_program, run_python

GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))


def parse_line(line: str) -> None:
    """Read a command and its options as ``safle`` does, without running it."""
    words, name = shlex.split(line, comments=True)[1:], "safle"
    command: click.Command | None = app
    context = None
    while command is not None:
        context = command.make_context(name, words, parent=context, obj=Session())
        if not isinstance(command, click.Group):
            return
        words = [*context._protected_args, *context.args]
        name, command, words = command.resolve_command(context, words) if words else ("", None, [])


def test_every_command_of_the_docs_has_the_options_it_is_shown_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a command is not run, or not by everybody: see `support.pages`."""
    monkeypatch.chdir(tmp_path)
    lines = [line for page in PAGES for line in commands(page) if line.startswith("safle ")]
    assert len(lines) > 80
    for line in lines:
        try:
            parse_line(line)
        except click.ClickException as error:
            pytest.fail(f"{line}: {error.format_message()}")
    with pytest.raises(click.NoSuchOption):
        parse_line("safle backbones export x.onnx --no-such-option")


@pytest.fixture
def folder(
    tmp_path: Path,
    tiny_onnx: Callable[[Path], Path],
    photographs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """An empty folder but for the images and the backbone that a guide takes for granted."""
    tiny_onnx(tmp_path / "backbone.onnx")
    (tmp_path / "photographs").symlink_to(photographs)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = pytest.importorskip("PIL.Image")
    place = tmp_path_factory.mktemp("photographs")
    generator = np.random.default_rng(0)
    for name, brightness in (("bright", 180), ("dark", 60)):
        (place / name).mkdir()
        for number in range(15):
            pixels = generator.integers(brightness - 50, brightness + 50, (40, 40, 3))
            image.fromarray(pixels.astype(np.uint8)).save(place / name / f"{number}.png")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_works_as_pasted(
    guide: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for block in blocks(guide, "sh") for line in block.splitlines()]
    assert lines or blocks(guide, "python")
    for line in lines:
        run_line(line, monkeypatch)
    run_python(guide)
    if guide.stem == "research":
        digests = re.findall(r"0\.9\d\d ([0-9a-f]{12})", capsys.readouterr().out)
        assert len(digests) == 4
        assert len(set(digests)) == 1
    if guide.stem == "hospital":
        assert float(re.search(r"accuracy\D+([\d.]+)", capsys.readouterr().out)[1]) > 90


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "arguments", "shown"),
    [
        ("pooled_pipeline.py", (), "cross-validation: 9"),
        ("three_hospitals.py", (), "the same model"),
        ("late_client.py", (), "byte for byte"),
        ("private_sum.py", (), "equal to the plain sum: True"),
        ("images_to_model.py", ("photographs", "backbone.onnx"), "100.0% of 10 test images"),
    ],
)
def test_an_example_prints_something_worth_seeing(
    program: str,
    arguments: tuple[str, ...],
    shown: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_program(f"examples/{program}", *arguments, monkeypatch=monkeypatch)
    assert shown in capsys.readouterr().out


@pytest.mark.slow
def test_the_notebook_draws_three_pictures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    cells = json.loads((ROOT / "examples/pictures.ipynb").read_text())["cells"]
    namespace: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), namespace)
    assert float(re.search(r"([\d.]+)% right", capsys.readouterr().out)[1]) > 90
    assert len(pyplot.get_fignums()) == 3
    pyplot.close("all")


@pytest.mark.parametrize("name", safle.__all__)
def test_every_public_name_has_its_place_in_the_reference_with_an_example(name: str) -> None:
    pages = "\n".join(path.read_text() for path in (ROOT / "docs/reference").glob("*.md"))
    assert f"`{name}` |" in pages or f"\n## `safle.{name}`\n" in pages
    assert ">>> " in (getattr(safle, name).__doc__ or "")


def test_the_reference_is_what_the_sources_say() -> None:
    """`make docs` writes it again."""
    writer = runpy.run_path(str(ROOT / "docs/hooks/reference.py"))
    for name, text in writer["pages"]().items():
        assert (ROOT / f"docs/reference/{name}.md").read_text() == text, name
