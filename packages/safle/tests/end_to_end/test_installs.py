"""Every install line of README, docs and packages works in an environment with nothing but pip.

pip resolves a line against the index, and builds what it needs of this clone to do so; nothing is
installed, since the wheels of torch would take minutes. `make package` installs ours.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.pages import PAGES, ROOT

pytestmark = pytest.mark.slow

EVERYWHERE = [*PAGES, *sorted(ROOT.glob("packages/*/README.md"))]


def install_lines(page: Path) -> list[str]:
    """What follows ``pip install`` in blocks and in sentences of a page, but for wheels at hand."""
    text = page.read_text().replace("\\\n", " ")
    found = re.findall(r"\bpip install ([^`\n]+)", text)
    lines = [" ".join(map(shlex.quote, shlex.split(line, comments=True))) for line in found]
    return [line for line in lines if "--no-index" not in line]


BY_LINE = {line: page for page in EVERYWHERE for line in install_lines(page)}


def run(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [*map(str, words)],
        cwd=ROOT,
        env=clean | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pip of an environment that has nothing but what builds our packages."""
    folder = tmp_path_factory.mktemp("empty")
    assert run(sys.executable, "-m", "venv", folder).returncode == 0
    pip = folder / "bin/pip"
    # In the environment once: a build environment for each line and package takes as long again.
    if run(pip, "install", "hatchling>=1.26").returncode:
        pytest.skip("needs a package index")
    return pip


def resolve(pip: Path, line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    pinned = re.search(r"^TORCH := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (folder / "constraints.txt").write_text(f"{pinned[1]}\n")
    build = ["--no-build-isolation"] if "./packages" in line else []
    words = ("install", "--dry-run", "--quiet", *build, *shlex.split(line))
    return run(pip, *words, PIP_CONSTRAINT=str(folder / "constraints.txt"))


def test_every_page_with_an_install_line_is_read() -> None:
    pages = {str(page.relative_to(ROOT)) for page in EVERYWHERE if install_lines(page)}
    assert {"README.md", "docs/from-images.md", "packages/safle-lab/README.md"} <= pages
    assert len(BY_LINE) > 6


@pytest.mark.parametrize("line", BY_LINE)
def test_an_install_line_works_in_an_empty_environment(
    empty: Path, line: str, tmp_path: Path
) -> None:
    done = resolve(empty, line, tmp_path)
    assert done.returncode == 0, f"{BY_LINE[line]}: {done.stderr}"


def test_a_line_that_fails_is_noticed(empty: Path, tmp_path: Path) -> None:
    """As the first line of docs/backbones.md once did: the core is on no index."""
    done = resolve(empty, "'./packages/safle-images[cpu,export]'", tmp_path)
    assert done.returncode == 1
    assert "No matching distribution found for safle" in done.stderr


@pytest.mark.parametrize(("extra", "runtimes"), [("", set()), ("[cpu]", {"onnxruntime"})])
def test_images_leave_the_choice_of_onnx_runtime(
    empty: Path, tmp_path: Path, extra: str, runtimes: set[str]
) -> None:
    """Two packages share a folder: the other one would spoil what a user has.

    The extra gpu is not resolved here: an index without metadata would send gigabytes.
    """
    line = f"./packages/safle './packages/safle-images{extra}' --report {tmp_path}/report.json"
    done = resolve(empty, line, tmp_path)
    assert done.returncode == 0, done.stderr
    chosen = json.loads((tmp_path / "report.json").read_text())["install"]
    names = {package["metadata"]["name"] for package in chosen}
    assert {name for name in names if name.startswith("onnxruntime")} == runtimes
    assert "onnx" in names
