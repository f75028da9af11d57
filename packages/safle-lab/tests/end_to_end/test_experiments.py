"""All experiments on digits as a user runs them, their report, and that report in a browser."""

from __future__ import annotations

import html
import html.parser
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from safle_lab.experiments import EXPERIMENTS
from safle_lab.experiments.data import load_digits
from safle_lab.experiments.running import load_settings
from support.tables import write_table

pytest.importorskip("torch", reason="iterative methods need torch")

BIN = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason=f"no headless browser found; looked for {', '.join(BROWSERS)}"
)

pytestmark = pytest.mark.slow


def safle(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "safle", *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        **options,
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    done = safle("experiment", "all", "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def page(results: Path) -> Path:
    done = safle("report", results)
    assert done.returncode == 0, done.stderr
    return results / "report.html"


def rows_of(results: Path, name: str) -> list[dict]:
    return json.loads((results / f"{name}.json").read_text())["rows"]


def test_every_experiment_leaves_json_csv_and_settings(results):
    for name in EXPERIMENTS:
        content = json.loads((results / f"{name}.json").read_text())
        assert content["rows"], name
        assert (results / f"{name}.csv").read_text().count("\n") == len(content["rows"]) + 1
        assert (results / f"{name}.toml").read_text().startswith("[federation]")


def test_methods_learn_and_safle_leads_on_digits(results):
    table = rows_of(results, "table1")
    best = {}
    for row in table:
        if "method" in row:
            best[row["method"]] = max(best.get(row["method"], 0.0), row["accuracy"])
    assert len(best) == len(load_settings(None, small=True).table1.methods)
    assert best.pop("Local") < 0.5 < min(best.values())
    assert best["safle's default (ours)"] >= best["SAFLe"] > best["AFL"] > 0.9


def test_unlearning_is_retraining(results):
    for row in rows_of(results, "unlearning"):
        assert row["same_statistics"] is True
        assert row["same_model"] is True
        assert row["digest"] == row["digest_retrained"] != row["digest_before"]


def test_noise_costs_accuracy(results):
    for method in ("FedAvg", "AFL", "SAFLe"):
        own = {
            row["rate"]: row["accuracy"]
            for row in rows_of(results, "noise")
            if row["method"] == method and row["noise"] == "symmetric"
        }
        assert own[0.6] < own[0.0]


def test_the_ridge_from_the_counts_is_near_the_best(results):
    for row in rows_of(results, "ridge"):
        assert row["accuracy"] > row["best_of_curve"] - 0.02


KILLS = 10
TIMES = ("seconds", "wall_seconds")
"""What a row says of time: all else is the same figure whenever it is measured."""


def figures_of(folder: Path) -> list[dict]:
    return [
        {name: value for name, value in row.items() if name not in TIMES}
        for row in rows_of(folder, "clients")
    ]


def test_a_run_killed_ten_times_at_random_has_the_same_figures(results, tmp_path):
    """Each kill waits for one more cell, and then for a moment: ten leave some of the 30 cells."""
    command = [BIN / "safle", "experiment", "clients", "--out", tmp_path]
    generator = random.Random(0)
    kept: dict[Path, int] = {}
    for _ in range(KILLS):
        process = subprocess.Popen(
            command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + 120
        while len(list((tmp_path / "cells").glob("[0-9a-f]*.json"))) <= len(kept):
            assert time.monotonic() < deadline, "no cell was finished"
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        time.sleep(generator.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not (tmp_path / "clients.json").exists()
        cells = (tmp_path / "cells").glob("[0-9a-f]*.json")
        found = {path: path.stat().st_mtime_ns for path in cells}
        assert {path: found[path] for path in kept} == kept
        kept = found

    done = safle("experiment", "clients", "--out", tmp_path)

    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert figures_of(tmp_path) == figures_of(results)


def test_texts_beside_images_bring_tofa(tmp_path):
    digits = load_digits()
    means = [digits.train[digits.train_labels == own].mean(axis=0) for own in range(10)]
    write_table(tmp_path / "texts.csv", means, list(range(10)))
    asked = '[federation]\nclients = 5\nseeds = 1\n[table1]\nmethods = ["afl"]\nscenarios = ["iid"]'
    (tmp_path / "asked.toml").write_text(asked)
    files = ("--texts", tmp_path / "texts.csv", "--settings", tmp_path / "asked.toml")

    done = safle("experiment", "table1", *files, "--out", tmp_path / "out")

    assert done.returncode == 0, done.stderr
    found = {row.get("method"): row for row in rows_of(tmp_path / "out", "table1")}
    assert found["TOFA"]["accuracy"] > 0.85
    assert len(found["TOFA"]["per_client"]) == 5
    assert safle("report", tmp_path / "out").returncode == 0
    assert "TOFA" in (tmp_path / "out" / "report.html").read_text()


class Outline(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        named = dict(attributes)
        if "id" in named:
            self.ids.append(named["id"])
        for name in ("src", "href", "xlink:href"):
            if name in named:
                self.references.append(named[name])


def test_the_page_needs_nothing_else(page):
    outline = Outline()
    outline.feed(page.read_text())

    assert "script" not in outline.tags
    assert len(set(outline.ids)) == len(outline.ids)
    assert all(reference.startswith(("#", "data:")) for reference in outline.references)
    local = {reference[1:] for reference in outline.references if reference.startswith("#")}
    assert local <= set(outline.ids)
    assert set(EXPERIMENTS) <= set(outline.ids)
    assert not re.search(r"url\((?!#)", page.read_text())


def test_the_page_says_how_iterative_methods_were_trained(page):
    assert "20 rounds with 100% of the clients in each, 1 local epoch," in page.read_text()


def test_a_folder_without_results_is_refused(tmp_path):
    done = safle("report", tmp_path)

    assert done.returncode == 1
    assert "holds no results" in done.stderr


def browse(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    profile = page.parent / "profile"
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        f"--user-data-dir={profile}",
        "--enable-logging=stderr",
        "--virtual-time-budget=4000",
        *options,
    ]
    return subprocess.run(
        [*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=False
    )


PROBE = """<script>
addEventListener("load", () => {
  const figures = [...document.querySelectorAll("figure")];
  const drawn = figures.filter((figure) => {
    const box = figure.querySelector("svg").getBoundingClientRect();
    return box.width > 200 && box.height > 80 && figure.querySelector("path, use, text");
  });
  document.body.dataset.probe = JSON.stringify({
    figures: figures.map((figure) => figure.id),
    drawn: drawn.map((figure) => figure.id),
    overflow: document.documentElement.scrollWidth - innerWidth,
    cut: [...document.querySelectorAll(".scroll, caption")].filter((box) =>
      box.scrollWidth > box.clientWidth).length,
    width: innerWidth,
    sections: document.querySelectorAll("section").length,
  });
});
</script></body>"""


@needs_browser
@pytest.mark.parametrize("width", [1280, 500])
def test_a_browser_shows_every_figure_without_errors(page, width, tmp_path):
    """A probe in a copy of the page measures what the browser laid out."""
    probed = tmp_path / "probed.html"
    probed.write_text(page.read_text().replace("</body>", PROBE))

    done = browse(probed, f"--window-size={width},900", "--dump-dom")

    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr
    (found,) = re.findall(r'data-probe="([^"]*)"', done.stdout)
    probe = json.loads(html.unescape(found))
    assert probe["sections"] == len(EXPERIMENTS)
    assert len(probe["figures"]) >= 12
    assert probe["drawn"] == probe["figures"]
    assert probe["width"] <= width
    assert probe["overflow"] <= 0
    if width < 600:
        assert probe["cut"] == 0


@needs_browser
def test_the_page_prints(page, tmp_path):
    target = tmp_path / "report.pdf"

    done = browse(page, f"--print-to-pdf={target}")

    assert done.returncode == 0, done.stderr
    assert target.read_bytes().startswith(b"%PDF")
