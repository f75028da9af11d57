"""The report speaks of what was measured, and of nothing else."""

from __future__ import annotations

import html.parser
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from safle_lab.charts import Chart, Series, draw
from safle_lab.experiments.data import load_digits
from safle_lab.experiments.running import load_settings, run_experiment
from safle_lab.report import write_report

SETTINGS = """
federation = {clients = 4, seeds = 1}
table1 = {methods = ["afl"], scenarios = ["alpha=0.1"]}
rounds = {methods = ["afl"]}
communication = {methods = ["afl"], encoders = []}
noise = {methods = ["afl"], rates = [0.2]}
"""
NOT_MEASURED = ("bands are deviations", "SAFLe", "across scenarios", "left no trace", "in bold")


def test_captions_and_remarks_speak_only_of_what_ran(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "my.toml").write_text(SETTINGS)
    settings = load_settings(tmp_path / "my.toml", small=True)
    for name in ("table1", "rounds", "communication"):
        run_experiment(name, [load_digits()], settings, tmp_path)
    write_report(tmp_path, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    shown = re.sub(r"(?s)<details>.*?</details>", "", page)
    assert "Accuracy after so many rounds" in shown
    assert [words for words in NOT_MEASURED if words in shown] == []


def test_table_1_shows_recalls_and_a_row_for_each_real_client(tmp_path):
    digits = load_digits()
    sites = {"clients": np.arange(len(digits.train)) % 2, "client_names": ("east", "west")}
    data = replace(digits, **sites, test_clients=np.arange(len(digits.test)) % 2)
    (tmp_path / "my.toml").write_text(SETTINGS)
    settings = load_settings(tmp_path / "my.toml", small=True, real=True)
    run_experiment("table1", [data], settings, tmp_path)
    write_report(tmp_path, tmp_path / "report.html")
    page = Page()
    page.feed((tmp_path / "report.html").read_text())
    row = json.loads((tmp_path / "table1.json").read_text())["rows"][-1]
    assert {"east", "west", "mean of clients"} <= set(page.texts)
    assert "Recall of each class, in percent, real." in page.texts
    assert f"{100 * row['recalls'][9]:.1f}" in page.texts
    assert any("balanced" in text for text in page.texts)


class Page(html.parser.HTMLParser):
    """What a browser would see: tags, attributes and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes

    def handle_data(self, text):
        self.texts.append(text.strip())


def test_a_report_shows_names_and_runs_none(tmp_path):
    """Classes, data, a method and a kind of noise: all of them somebody's text."""
    attack = '"><script>alert(2)</script>'
    names = (attack, 'a"b', r"$\frac{$", "_hidden", *"456789")
    data = replace(load_digits(), name=attack, source=attack, class_names=names)
    (tmp_path / "my.toml").write_text(SETTINGS)
    settings = load_settings(tmp_path / "my.toml", small=True)
    for name in ("table1", "noise", "ridge"):
        run_experiment(name, [data], settings, tmp_path)
        path = tmp_path / f"{name}.json"
        path.write_text(path.read_text().replace('"AFL"', json.dumps(attack)))
    write_report(tmp_path, tmp_path / "report.html")
    page = Page()
    page.feed((tmp_path / "report.html").read_text())
    assert "script" not in page.tags
    ids = [str(value) for name, value in page.attributes if name == "id"]
    assert {"table1", "ridge", "noise"} <= set(ids)
    assert all(re.fullmatch(r"[\w.-]+", name) for name in ids)
    assert len(ids) == len(set(ids))
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert f"Federated learning on {attack}" in " ".join(page.texts)
    assert {attack, *names[1:4]} <= set(page.texts)


def test_an_axis_of_clients_has_whole_numbers():
    pytest.importorskip("matplotlib")
    line = Series("AFL", range(1, 21), range(20))
    drawn = draw(Chart("", "clients", "accuracy", [line]), "a").content
    ticks = re.findall(r'id="a-xtick_\d+".*?<text[^>]*>([^<]*)</text>', str(drawn), re.DOTALL)
    assert len(ticks) > 3
    assert all(float(tick).is_integer() for tick in ticks)
