"""``safle simulate``: many clients on one machine."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from safle import Model, count, load_encoder, open_table, solve
from safle.cli.main import run
from safle.errors import FederationError, MissingExtra, TableError
from safle_flower.report import ClientReport, Report
from safle_flower.simulation import simulate
from support.data_sets import fixed_data
from support.tables import write_table

SAFLE = Path(sys.executable).with_name("safle")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("simulate")
    data = fixed_data("embedding", 150)
    data.encoder.save(place / "encoder.safetensors")
    write_table(place / "train.safetensors", data.features, data.labels)
    return place


@pytest.fixture(scope="module")
def pooled(folder) -> bytes:
    table, encoder = open_table(folder / "train.safetensors"), None
    encoder = load_encoder(folder / "encoder.safetensors")
    statistics = count(encoder, np.asarray(table.features), table.labels)
    return Model.of(encoder, solve(statistics)).to_bytes()


def play(folder: Path, output: Path, clients: int = 3, **settings) -> Report:
    features = settings.pop("features", folder / "train.safetensors")
    encoder = folder / "encoder.safetensors"
    return simulate(features, encoder, output, clients=clients, **settings)


@pytest.mark.parametrize("scenario", ["iid", "alpha=0.1", "shards=2"])
@pytest.mark.parametrize("clients", [1, 7, 40])
def test_any_split_gives_the_pooled_model(folder, pooled, tmp_path, scenario, clients):
    shares: list[float] = []
    report = play(folder, tmp_path, clients, scenario=scenario, progress=shares.append)
    assert len(report.accepted) == clients
    assert (tmp_path / "model.safetensors").read_bytes() == pooled
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"model.safetensors", "total.stats", "report.json"}


def test_a_private_round_gives_the_model_of_a_plain_one(folder, tmp_path):
    private = play(folder, tmp_path / "private", 5, scenario="alpha=0.1", private=True)
    plain = play(folder, tmp_path / "plain", 5, scenario="alpha=0.1")
    assert (private.model, private.total) == (plain.model, plain.total)


def test_an_unreadable_table_is_one_error_and_leaves_nothing(folder, tmp_path):
    (folder / "empty.npz").write_bytes(b"")
    with pytest.raises(TableError, match="is empty"):
        play(folder, tmp_path / "out", features=folder / "empty.npz")
    assert not (tmp_path / "out").exists()


def test_tables_are_read_by_the_options_of_count(folder, tmp_path):
    table = open_table(folder / "train.safetensors")
    names = [f"x{at}" for at in range(table.feature_dim)]
    header = ",".join(["patient", *names, "ward", "diagnosis"])
    rows = [
        f"p{at},{','.join(map(repr, row.tolist()))},north,{label}"
        for at, (row, label) in enumerate(zip(table.features[:], table.labels, strict=True))
    ]
    (tmp_path / "visits.csv").write_text("\n".join([header, *rows]) + "\n")
    reading = ["--label-column", "diagnosis", "--ignore", "ward", "--id", "patient"]
    reading += ["--encoder", str(folder / "encoder.safetensors")]
    visits = str(tmp_path / "visits.csv")
    for command in (
        ["simulate", visits, *reading, "--out", str(tmp_path / "out")],
        ["count", visits, *reading, "-o", str(tmp_path / "all.stats")],
    ):
        with pytest.raises(SystemExit) as ended:
            run(command)
        assert ended.value.code == 0
    assert (tmp_path / "out/total.stats").read_bytes() == (tmp_path / "all.stats").read_bytes()


def test_a_failed_round_says_why_in_one_line_and_names_no_model(tmp_path, capsys, caplog):
    Report([ClientReport("a", "late", "no answer in time")], error="none came").write(
        tmp_path / "report.json"
    )
    with pytest.raises(SystemExit) as ended:
        run(["deploy", "report", str(tmp_path)])
    shown = capsys.readouterr()
    assert ended.value.code == 1
    assert shown.err == "error: none came\n"
    assert "digest" not in shown.out
    assert "no model" in shown.out
    # As Flower logs what its apps raise.
    logging.getLogger("flwr").error("raised", exc_info=FederationError("none came"))
    logging.getLogger("flwr").error("raised", exc_info=ZeroDivisionError("a bug"))
    ours, bug = caplog.records[-2:]
    assert (ours.getMessage(), ours.exc_info) == ("the round failed: none came", None)
    assert bug.exc_info is not None


@pytest.mark.parametrize("text", ["{}", '{"format": "safle-report-1"}', "[", '{"accepted": []}'])
def test_deploy_report_refuses_another_file(tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(FederationError, match="is not a report"):
        Report.read(tmp_path / "report.json")


def test_the_command_shows_a_table_and_no_log(folder, tmp_path):
    command = [SAFLE, "simulate", folder / "train.safetensors", "--clients", "3", "--out", tmp_path]
    command += ["--encoder", folder / "encoder.safetensors"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "client-002" in done.stdout
    assert "INFO" not in done.stdout + done.stderr


def test_an_unequal_split_names_the_package_that_makes_it(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safle_lab.partitions", None)
    with pytest.raises(MissingExtra, match="safle-lab"):
        play(folder, tmp_path, scenario="alpha=1")
