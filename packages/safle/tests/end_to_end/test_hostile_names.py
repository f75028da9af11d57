"""Names of classes and data sets are not ours: tables, pictures and pages show them, no more."""

from __future__ import annotations

import csv
import html.parser
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from safle.encoders import LinearEncoder
from safle.encoders.calibration import DeclaredRange
from safle.model import Model, load_model
from safle.solver import solve
from safle.statistics import count
from safle.tables import write_table

pytestmark = pytest.mark.slow

SAFLE = Path(sys.executable).with_name("safle")
LIVE = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\tTAB", "'quoted")
PLAIN = ("a=b", r"$\frac{$", "<script>alert(1)</script>", 'a"b')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("names")
    names = np.array(LIVE + PLAIN)
    features = np.eye(len(names), dtype=np.float32)
    encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, len(names)))
    statistics = count(encoder, features, names)
    Model(encoder, solve(statistics, ridge=1e-3)).save(place / "model.safetensors")
    write_table(place / "test.npz", features, names)
    return place


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [SAFLE, *arguments], cwd=folder, capture_output=True, check=False, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_class_is_a_formula_in_a_spreadsheet_and_every_name_can_be_had_back(folder):
    run(folder, "predict", "model.safetensors", "test.npz", "--proba", "-o", "out.csv")

    model = load_model(folder / "model.safetensors")
    predicted = model.predict(np.eye(len(LIVE + PLAIN), dtype=np.float32)).tolist()
    assert set(predicted) == set(LIVE + PLAIN)
    with (folder / "out.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert [row[1].removeprefix("'") for row in rows] == predicted
    assert header[2:] == [f"probability_{name}" for name in model.class_names]
    cells = [*header, *(row[1] for row in rows)]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)
    assert {row[1] for row in rows} >= set(PLAIN)


def test_every_class_can_be_drawn(folder):
    pytest.importorskip("matplotlib")
    run(folder, "evaluate", "model.safetensors", "test.npz", "--png", "matrix.png")

    assert (folder / "matrix.png").read_bytes().startswith(b"\x89PNG")


def test_a_report_shows_names_and_runs_none(tmp_path):
    """Classes, data, a method, a setting and a kind of columns: all of them somebody's text."""
    pytest.importorskip("jinja2")
    names = ["<script>alert(1)</script>", 'a"b', r"$\frac{$", "_hidden"]
    attack = '"><script>alert(2)</script>'
    data = {
        "name": names[0],
        "source": names[1],
        "fingerprint": attack,
        "train_samples": 4,
        "test_samples": 4,
        "features": 2,
        "classes": names,
    }
    shared = {
        "format": "safle-experiment-1",
        "title": attack,
        "question": attack,
        "data": [data],
        "settings": {"methods": {attack: {"rate": attack}}},
        "versions": {attack: attack},
        "seconds": 1.0,
    }
    line = {
        "method": attack,
        "scenario": attack,
        "accuracy": 0.5,
        "deviation": 0.0,
        "seeds": 1,
        "rounds": 1,
        "bytes_up": 1,
        "bytes_down": 1,
        "seconds": 1,
        "digests": [attack],
    }
    mix = {
        "partition_of": attack,
        "seed": 0,
        "class_mix": [[1, 1, 1, 1], [0, 2, 0, 0]],
        "mean_classes": 2.5,
        "least_samples": 2,
        "most_samples": 4,
    }
    curve = [[0.1, 0.5], [1.0, 0.6], [10.0, 0.5]]
    ridge = {
        "columns_of": attack,
        "seed": 0,
        "curve": curve,
        "ridge_gcv": 1.0,
        "columns": 4,
        "ridge_evidence": 2.0,
        "accuracy": 0.6,
        "accuracy_evidence": 0.6,
        "best_of_curve": 0.6,
    }
    noise = [{**line, "noise": attack, "rate": rate} for rate in (0.1, 0.2)]
    results = {"table1": ([mix], [line]), "ridge": ([ridge], []), "noise": (noise, noise)}
    for name, (rows, summary) in results.items():
        content = {**shared, "experiment": name, "rows": rows, "summary": summary}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))

    run(tmp_path, "report", ".")

    text = (tmp_path / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert "script" not in page.tags
    assert {"table1", "ridge", "noise"} <= set(page.ids)
    assert all(re.fullmatch(r"[\w.-]+", name) for name in page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert not any(name.startswith("on") for name in page.attributes)
    shown = " ".join(page.texts)
    assert f"Federated learning on {names[0]}" in shown
    assert attack in shown
    legend = [text.strip() for text in page.texts]
    assert {'a"b', r"$\frac{$", "_hidden", "<script>a…/script>"} <= set(legend)


class Page(html.parser.HTMLParser):
    """What a browser would see: tags, the names of attributes, ids, and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        self.ids += [value for name, value in attributes if name == "id"]

    def handle_data(self, text):
        self.texts.append(text)
