"""What a stranger needs to install, cite or contribute: it must at least be well-formed."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import safle

ROOT = Path(__file__).parents[3]


ONLY_POSIX = {"fcntl", "grp", "posix", "pwd", "resource", "syslog", "termios"}
"""Modules that Windows lacks."""


def test_the_container_file_is_clean_and_not_run_by_root() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, ROOT / "Containerfile"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = (ROOT / "Containerfile").read_text().split("FROM ")
    assert {step.split(" AS ")[1].split()[0] for step in steps[1:]} >= {"core", "flower"}
    assert "USER 1000" in next(step for step in steps if " AS base" in step)


@pytest.mark.parametrize(
    "house", sorted(ROOT.glob("packages/*/src")), ids=lambda path: path.parent.name
)
def test_imports_exist_on_windows(house: Path) -> None:
    for path in house.rglob("*.py"):
        # What is imported where it is used may be missing.
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [name.name for name in getattr(node, "names", [])]
            imported = {getattr(node, "module", None), *names}
            assert not (isinstance(node, ast.Import | ast.ImportFrom) and imported & ONLY_POSIX), (
                path
            )


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/**/*.yml")), ids=lambda path: path.stem)
def test_forms_and_workflows_are_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_every_check_is_in_one_script() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    job = workflow["jobs"]["everything"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]


def test_the_core_is_tried_on_three_systems() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    systems = workflow["jobs"]["systems"]["strategy"]["matrix"]["system"]
    assert {name.partition("-")[0] for name in systems} == {"ubuntu", "macos", "windows"}


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "packages/safle/pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"] == safle.__version__
    assert f"## [{safle.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert citation["license"] == project["license"]


def test_all_packages_have_one_version() -> None:
    for path in ROOT.glob("packages/*/pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        assert project["version"] == safle.__version__, path
        ours = [line for line in project["dependencies"] if line.startswith("safle")]
        assert all(line.endswith(f"=={safle.__version__}") for line in ours), path
