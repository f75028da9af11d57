"""The demo as a user runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "demo-report"
    subprocess.run(
        [BIN / "safle", "demo", "--out", folder], check=True, env=ENVIRONMENT, timeout=600
    )
    return folder


def test_the_demo_reaches_its_accuracy_with_one_model_for_every_split(report: Path) -> None:
    linear, safle, default = json.loads((report / "results.json").read_text())["results"]
    assert safle["accuracy"] >= 0.975
    assert linear["accuracy"] < safle["accuracy"] <= default["accuracy"]
    # The digits are about equally frequent.
    assert default["balanced_accuracy"] == pytest.approx(default["accuracy"], abs=0.01)
    for result in (linear, safle, default):
        # The paper's encoder does not go under masks: whole tables would be too much for a demo.
        assert len(result["digests"]) == (3 if result is safle else 4)
        assert set(result["digests"].values()) == {result["digest"]}


def test_megabytes_of_the_demo_are_what_a_client_sends_and_receives(report: Path) -> None:
    results = json.loads((report / "results.json").read_text())["results"]
    for result, kind in zip(results, ("linear", "embedding", "random-features"), strict=True):
        encoder = (report / "federation" / kind / "encoder.safetensors").stat().st_size
        sent = sum(result["bytes_sent"]) / len(result["bytes_sent"])
        assert result["megabytes_per_client"] * 1e6 > sent + encoder


def test_the_demo_ends_with_one_page_that_needs_nothing_else(report: Path) -> None:
    page = (report / "index.html").read_text()
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)[^\"]*", page)
    default = json.loads((report / "results.json").read_text())["results"][-1]
    assert page.count(default["digest"][:32]) == len(default["digests"]) == 4
    assert page.count("the same</b>") == 4
    assert page.count("<svg") == 3
    for words in (
        "Who held what",
        "What each client sent",
        "The ridge",
        "Rows are what was written",
    ):
        assert words in page
