"""Every benchmark runs, says what the issue asks for, and compared its contestants."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from safle import HEADS

REPOSITORY = Path(__file__).resolve().parents[4]
SHAPES = {"512x16", "1024x16", "341x64", "2048x4"}
SAMPLES = {"500", "50"}
CLIENTS = {"2", "6"}

# Benchmark -> key -> the keys of its object, or None where it is a number.
FIGURES = {
    "counting": {
        "speedup_over_scipy": SHAPES,
        "speedup_over_dense": SHAPES,
        "increments_per_second": SHAPES,
    },
    "products": {
        "speedup_over_float32": None,
        "speedup_over_float64": None,
        "time_over_float32_product": None,
    },
    "encoding": {"speedup": None, "default_speedup": None},
    "solving": {
        "speedup": None,
        "auto_over_given": None,
        "residual": None,
        "peak_bytes_over_d2": None,
    },
    "wire": {
        prefix + key: SAMPLES
        for prefix in ("", "default_")
        for key in ("bytes", "zstd_bytes", "encode_seconds", "decode_seconds", "zstd_seconds")
    },
    "prediction": {"speedup": None, "default_speedup": None},
    "federation": {
        "overhead": None,
        "client_seconds": None,
        "server_seconds_per_client": None,
        "server_over_bare_product": None,
        "server_peak_bytes": CLIENTS,
        "sum_peak_grams": CLIENTS,
    },
    "privacy": {"same_digest": None, "masking_bytes_per_second_per_core": None},
    "kernels": {"products_over_float32": None, "memory_bytes_per_second": None},
}
BARS = {
    "counting": 4,
    "products": 1,
    "encoding": 2,
    "solving": 4,
    "wire": 4,
    "prediction": 4,
    "federation": 6,
    "privacy": 6,
    "kernels": 2,
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def last_object(*arguments: str) -> dict:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_prints_its_figures_and_compares_its_contestants(name):
    found = last_object(name, "--quick", "--json")
    for key, inner in FIGURES[name].items():
        values = [found[key]] if inner is None else list(found[key].values())
        assert inner is None or set(found[key]) == inner
        # A duration, a size or a ratio of such: nothing that was measured is nothing.
        assert all(value > 0 for value in values)
    # The same figures for the default encoder.
    assert name != "federation" or set(found["default"]) >= set(FIGURES[name])
    assert found["equal"] is True
    assert found["compared"]
    assert found["data"] == "generated"
    assert len(found["bars"]) == BARS[name]
    assert all(set(bar) == {"figure", "value", "bar", "met"} for bar in found["bars"])


@pytest.mark.slow
def test_few_samples_have_the_bytes_of_all_where_messages_have_one_size(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(REPOSITORY)
    megabytes, data = (
        importlib.import_module(f"benchmarks.{name}") for name in ("megabytes", "data")
    )
    dataset = data.generated(3 * megabytes.FEW, 10, 16)
    short = {"fedavg": {"rounds": 3, "participation": 0.5}, "deepafl": {"layers": 2, "width": 32}}
    fixed = [row for row in megabytes.ROWS if row.fixed]
    assert {row.method for row in fixed} == {"fedavg", "afl", "deepafl"}
    for row in fixed:
        brief = replace(row, settings=short.get(row.method, {}))
        few, everything = (megabytes.measure(brief, dataset, 4, whole=w) for w in (False, True))
        assert (few.bytes_up, few.bytes_down) == (everything.bytes_up, everything.bytes_down)


@pytest.mark.slow
def test_fed_heart_keeps_its_rule_and_its_page():
    """FLamby's tests have 104, 89, 16 and 45 patients; pooled regression has 80.3 and 79.5."""
    found = last_object("fed_heart", "--json")
    assert [row["patients"] for row in found["rows"]] == [104, 89, 16, 45, 254, 254]
    assert all(bar["met"] for bar in found["bars"])
    mean, everybody = ([f"{100 * v:.1f}" for v in list(r.values())[2:]] for r in found["rows"][-2:])
    assert (mean[2], everybody[2]) == ("80.3", "79.5")
    page = (REPOSITORY / "docs/flamby.md").read_text().replace("*", "")
    assert f"| mean of the hospitals | {' | '.join(mean)} |" in page
    assert f"| all patients | {' | '.join(everybody)} |" in page
    readme = (REPOSITORY / "README.md").read_text()
    assert f"{mean[1]} / {everybody[1]} %" in readme


@pytest.mark.slow
def test_the_frontier_has_every_head_of_every_encoder_and_a_picture():
    found = last_object("frontier", "--quick", "--json")
    pairs = {(point["encoder"], point["head"]) for point in found["points"]}
    heads = [head for head in HEADS if head != "quadratic"]
    encoders = ("linear (AFL)", "default", "default, the other way")
    assert pairs == {
        *((encoder, head) for encoder in encoders for head in heads),
        ("default, the other way", "quadratic"),
        ("pooled network", "gradient descent"),
    }
    for point in found["points"]:
        # Ten classes: what was learned is better than guessing.
        assert point["accuracy"] > 0.3
        assert point["megabytes"] > 0
        assert point["columns"] >= 64
    assert Path(found["picture"]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_tables_have_a_row_each_beside_logistic_regression_and_boosting():
    found = last_object("tables", "--quick", "--json")
    (row,) = found["rows"]
    for who in ("", "logistic_", "boosting_"):
        # What was learned is better than guessing.
        assert row[f"{who}auc"] > 0.6
        assert row[f"{who}log_loss"] < 0.75
    assert found["auc_over_logistic"] == row["auc"] - row["logistic_auc"] == found["worst_auc"]
    assert found["log_loss_ratio"] == row["log_loss"] / row["logistic_log_loss"]
    assert len(found["bars"]) == 4


@pytest.mark.slow
def test_benchmarks_print_a_table_without_json():
    done = run("encoding", "--quick")
    assert done.returncode == 0, done.stderr
    assert "figure" in done.stdout
    assert "met" in done.stdout


def test_refuses_an_unknown_name():
    assert run("nonsense").returncode == 2


WRONG_ENCODING = """
import numpy as np
from benchmarks import encoding
from benchmarks.settings import Settings
right = encoding.plain
encoding.plain = lambda *arguments: right(*arguments) ^ 1
encoding.run(Settings(quick=True))
"""


@pytest.mark.slow
def test_fails_when_contestants_disagree():
    done = subprocess.run(
        [sys.executable, "-c", WRONG_ENCODING],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Disagreement" in done.stderr
