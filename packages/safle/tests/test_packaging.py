"""What a stranger needs to install, cite or contribute: it must at least be well-formed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import safle

ROOT = Path(__file__).parents[3]


def test_the_container_file_is_clean_and_not_run_by_root() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, ROOT / "Containerfile"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = (ROOT / "Containerfile").read_text().split("FROM ")
    assert {step.split(" AS ")[1].split()[0] for step in steps[1:]} >= {"core", "flower"}
    assert "USER 1000" in next(step for step in steps if " AS base" in step)


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/**/*.yml")), ids=lambda path: path.stem)
def test_forms_and_workflows_are_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_every_check_is_in_one_script() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "packages/safle/pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"] == safle.__version__
    assert citation["license"] == project["license"]
