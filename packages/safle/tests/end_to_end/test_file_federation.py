"""A whole federation by files, run as a user would: by the command and nothing else."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from safle import Model, Statistics, count, encode, load_encoder, load_model, read, solve
from safle.basics.memory import readable
from safle.solver.ridge import SUPPORTED
from support.command import safle
from support.tables import write_table

pytestmark = pytest.mark.slow

WORDS = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
CLIENTS = {"a": "a.npz", "b": "b.safetensors", "c": "c.csv", "d": "d.npz", "e": "e.parquet"}
ENCODER = ("--encoder", "encoder.safetensors")
Run = Callable[..., str]


@pytest.fixture(scope="module")
def data(digits: tuple[np.ndarray, np.ndarray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features and labels of five clients and of a test set."""
    features, labels = digits
    order = np.random.default_rng(0).permutation(len(features))[:1100]
    parts = np.split(order, [100, 250, 400, 500, 700])
    names = [*CLIENTS, "test"]
    return {
        name: (features[part].astype(np.float32), WORDS[labels[part]])
        for name, part in zip(names, parts, strict=True)
    }


@pytest.fixture(scope="module")
def folder(data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where everybody's files are; each client keeps its own format."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    place = tmp_path_factory.mktemp("federation")
    for name in ("a", "b", "c", "d"):
        write_table(place / CLIENTS[name], *data[name])
    write_table(place / "test.npz", *data["test"])
    columns = {f"f{at}": column for at, column in enumerate(data["e"][0].T)}
    table = pyarrow.table({**columns, "digit": data["e"][1]})
    parquet.write_table(table, place / "e.parquet")
    return place


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    """``run("sum", ...)``: what the command prints; it must succeed."""

    def call(*arguments: str) -> str:
        shown = safle(*arguments, folder=folder).stdout
        assert all(char.isprintable() or char == "\n" for char in shown)
        return shown

    return call


@pytest.fixture(scope="module")
def counted(run: Run) -> Run:
    """An encoder, and every client's statistics."""
    sizes = ("--kind", "embedding", "--buckets", "4", "--group-size", "3")
    run("encoder", "make", "--range", "0", "16", "--features", "64", *sizes, "-o", ENCODER[1])
    extra = {"e": ["--label-column", "digit"]}
    for name, table in CLIENTS.items():
        run("count", table, *ENCODER, *extra.get(name, []), "-o", f"{name}.stats")
    return run


@pytest.fixture(scope="module")
def solved(counted: Run) -> Run:
    """The sum and the model."""
    counted("sum", *(f"{name}.stats" for name in CLIENTS), "-o", "total.stats")
    counted("solve", "total.stats", *ENCODER, "--curve", "curve.csv", "-o", "model.safetensors")
    return counted


def pooled(folder: Path, data: dict[str, Any], names: str) -> Statistics:
    """The statistics of some clients' data in one place, by the library."""
    features = np.concatenate([data[name][0] for name in names])
    labels = np.concatenate([data[name][1] for name in names])
    return count(load_encoder(folder / ENCODER[1]), features, labels)


def model_of(folder: Path, statistics: Statistics) -> bytes:
    encoder = load_encoder(folder / ENCODER[1])
    return Model.of(encoder, solve(statistics)).to_bytes()


@pytest.mark.parametrize("name", CLIENTS)
def test_every_file_format_gives_the_librarys_count(
    counted: Run, folder: Path, data: dict[str, Any], name: str
) -> None:
    expected = encode(pooled(folder, data, name))
    assert (folder / f"{name}.stats").read_bytes() == expected


def test_sum_and_model_are_those_of_pooled_data(
    solved: Run, folder: Path, data: dict[str, Any]
) -> None:
    whole = pooled(folder, data, "abcde")
    assert (folder / "total.stats").read_bytes() == encode(whole)
    assert (folder / "model.safetensors").read_bytes() == model_of(folder, whole)


def test_curve_is_written_and_next_to_its_minimum_is_the_models_ridge(
    solved: Run, folder: Path
) -> None:
    with (folder / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    total = read(folder / "total.stats")
    told = total.sample_count * (len(total.class_names) - 1)
    most = min(float(row["gcv"]) for row in rows) * (1 + SUPPORTED / told)
    best = max(float(row["ridge"]) for row in rows if float(row["gcv"]) <= most)
    assert best == load_model(folder / "model.safetensors").ridge


def test_predictions_are_the_librarys(solved: Run, folder: Path, data: dict[str, Any]) -> None:
    solved("predict", "model.safetensors", "test.npz", "--proba", "-o", "out.csv")
    model, features = load_model(folder / "model.safetensors"), data["test"][0]
    with (folder / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["class"] for row in rows] == model.predict(features).tolist()
    odds = [[float(row[f"probability_{name}"]) for name in model.class_names] for row in rows]
    assert np.array_equal(odds, model.predict_proba(features))


def test_evaluation_as_text_and_json(solved: Run, folder: Path, data: dict[str, Any]) -> None:
    shown = solved("evaluate", "model.safetensors", "test.npz", "--json", "scores.json")
    scores = json.loads((folder / "scores.json").read_text())
    predicted = load_model(folder / "model.safetensors").predict(data["test"][0])
    assert scores["accuracy"] == np.mean(predicted == data["test"][1]) > 0.93
    assert f"{scores['accuracy']:.2%}" in shown
    assert "true \\ predicted" in shown
    assert np.sum(scores["confusion"]) == scores["samples"] == len(predicted)


@pytest.mark.slow
def test_inspect_tells_every_file(solved: Run, folder: Path) -> None:
    told = {
        "encoder.safetensors": ("encoder", load_encoder(folder / ENCODER[1]).fingerprint),
        "total.stats": ("statistics", "700", "all invariants"),
        "model.safetensors": ("model", load_model(folder / "model.safetensors").digest),
        "b.safetensors": ("table of features", "150", "64 (float32)"),
    }
    for name, expected in told.items():
        shown = solved("inspect", name)
        assert all(text in shown for text in expected), shown


def test_a_client_knows_before_it_sends(counted: Run, folder: Path, data: dict[str, Any]) -> None:
    before = sorted(folder.iterdir())
    shown = counted("rehearse", "b.safetensors", *ENCODER)
    assert sorted(folder.iterdir()) == before
    # The size is that of the file that would be sent.
    assert readable((folder / "b.stats").stat().st_size) in shown
    assert "independent columns" in shown
    # One warning, with what helps, and nothing beside it that says otherwise.
    assert shown.count("warning: ") == 1
    assert "Count more samples, take fewer columns" in shown.split("warning: ")[1]
    assert "and codes are whole numbers (a lattice)" in shown
    assert "no way" not in shown
    write_table(folder / "other.npz", 1000 + data["b"][0], data["b"][1])
    assert "for images the backbone" in counted("rehearse", "other.npz", *ENCODER)
    write_table(folder / "few.npz", data["b"][0][:20], data["b"][1][:20])
    shown = counted("rehearse", "few.npz", *ENCODER)
    assert "The sums of a class with one sample are" in shown
    shown = counted("inspect", "b.stats")
    assert "warning: a holder of this file can reconstruct samples; the attack that" in shown
    assert "the sums determine all 150" in shown


@pytest.mark.parametrize(
    ("said", "apart"),
    [
        ((), False),
        (("--only-classes", ",".join(map(str, range(25)))), True),
        (("--only-classes", ",".join(map(str, range(25))), "--no-by-class"), False),
        (("--only-classes", "0,1"), False),
        (("--by-class",), True),
    ],
)
def test_many_classes_are_counted_apart(run: Run, said: tuple[str, ...], apart: bool) -> None:
    made = ("--sample", "a.npz", "--units", "8", "-o", "apart.safetensors", "--force")
    assert ("gram of each class" in run("encoder", "make", *made, *said)) is apart


def test_many_classes_that_nobody_declared_are_noticed(run: Run, folder: Path) -> None:
    features = np.random.default_rng(0).normal(size=(40, 4))
    write_table(folder / "many.npz", features, np.arange(40) % 20)
    run("encoder", "make", "--sample", "many.npz", "--units", "8", "-o", "many.safetensors")
    made = ("--encoder", "many.safetensors")
    run("count", "many.npz", *made, "-o", "many.stats")
    done = safle("solve", "many.stats", *made, "-o", "many-model.safetensors", folder=folder)
    assert "made with --by-class" in done.stderr


def test_federated_calibration_gives_one_encoder_for_any_partition(
    run: Run, folder: Path, data: dict[str, Any]
) -> None:
    grid = ("--low", "0", "--high", "16", "--bins", "32")
    whole = [np.concatenate([data[name][0] for name in "ab"])]
    whole += [np.concatenate([data[name][1] for name in "ab"])]
    write_table(folder / "ab.npz", *whole)
    for table in ("ab.npz", "a.npz", "b.safetensors"):
        run("histogram", table, *grid, "-o", f"{table.split('.')[0]}.hist")
    run("sum", "b.hist", "a.hist", "-o", "summed.hist")
    assert (folder / "summed.hist").read_bytes() == (folder / "ab.hist").read_bytes()
    for name in ("summed", "ab"):
        run("encoder", "make", "--histogram", f"{name}.hist", "-o", f"{name}.encoder")
    assert (folder / "summed.encoder").read_bytes() == (folder / "ab.encoder").read_bytes()
    assert "32 bins over 0 to 16" in run("inspect", "summed.hist")
