"""The report speaks of what was measured, and of nothing else."""

from __future__ import annotations

import re

import pytest

from safle.evaluation import Chart, Series, draw
from safle_lab.experiments.data import load_digits
from safle_lab.experiments.running import Runner, load_settings
from safle_lab.report import write_report

SETTINGS = """
federation = {clients = 4, seeds = 1}
table1 = {methods = ["afl"], scenarios = ["alpha=0.1"]}
rounds = {methods = ["afl"]}
communication = {methods = ["afl"], encoders = []}
"""
NOT_MEASURED = ("bands are deviations", "SAFLe", "across scenarios", "left no trace", "in bold")


def test_captions_and_remarks_speak_only_of_what_ran(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "my.toml").write_text(SETTINGS)
    settings = load_settings(tmp_path / "my.toml", small=True)
    for name in ("table1", "rounds", "communication"):
        Runner([load_digits()], settings, tmp_path).run(getattr(settings, name))
    write_report(tmp_path, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    shown = re.sub(r"(?s)<details>.*?</details>", "", page)
    assert "Accuracy after so many rounds" in shown
    assert [words for words in NOT_MEASURED if words in shown] == []


def test_an_axis_of_clients_has_whole_numbers():
    pytest.importorskip("matplotlib")
    line = Series("AFL", range(1, 21), range(20))
    drawn = draw(Chart("", "clients", "accuracy", [line]), "a").content
    ticks = re.findall(r'id="a-xtick_\d+".*?<text[^>]*>([^<]*)</text>', str(drawn), re.DOTALL)
    assert len(ticks) > 3
    assert all(float(tick).is_integer() for tick in ticks)
