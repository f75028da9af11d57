"""Columns have names: tables are matched by them, in any order, and nothing is guessed."""

from __future__ import annotations

import csv
import itertools
import warnings

import numpy as np
import pytest

from safle import Column, Schema, declared_range, load_encoder, make_encoder, open_table, read
from safle.errors import EncoderMismatch, SafleWarning, SettingsError, TableError
from safle.statistics.histogram import Histogram
from safle.tables.table import Table

NAMES = ("dose", "age", "pulse")
ROWS = np.random.default_rng(0).uniform(0, 100, (40, 3)).round(2)
LABELS = np.where(ROWS[:, 1] > 50, "ill", "well")


def write(path, order, *, more=(), label="label"):
    """The patients of `ROWS` with their columns in ``order``, and ``more`` columns of text."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*order, *more, label])
        for number, (row, name) in enumerate(zip(ROWS, LABELS, strict=True)):
            values = dict(zip(NAMES, row, strict=True))
            texts = [f"{column} {number}" for column in more]
            writer.writerow([*(values[column] for column in order), *texts, f" {name} "])
    return path


@pytest.fixture
def encoder_path(tmp_path):
    path = tmp_path / "encoder.safetensors"
    encoder = make_encoder(declared_range(0, 100, feature_dim=3), "linear")
    encoder.declare(names=sorted(NAMES)).save(path)
    return path


def test_a_reordered_table_gives_the_same_bytes(safle, tmp_path, encoder_path):
    found = set()
    for number, order in enumerate(itertools.permutations(NAMES)):
        table = write(tmp_path / f"{number}.csv", order)
        safle("count", table, "--encoder", encoder_path, "--force", "-o", tmp_path / "a.stats")
        found.add((tmp_path / "a.stats").read_bytes())
    assert len(found) == 1
    # Labels lose the spaces around them.
    assert read(tmp_path / "a.stats").class_names == ("ill", "well")


def test_histograms_and_encoders_carry_the_names(safle, tmp_path):
    sent = []
    for order in (NAMES, NAMES[::-1]):
        table = write(tmp_path / "a.csv", order)
        safle("histogram", table, "--low", 0, "--high", 100, "--force", "-o", tmp_path / "a.hist")
        safle("encoder", "make", "--sample", table, "--force", "-o", tmp_path / "s.safetensors")
        files = ("a.hist", "s.safetensors")
        sent.append([(tmp_path / name).read_bytes() for name in files])
    assert sent[0] == sent[1]
    assert read(tmp_path / "a.hist", Histogram).names == tuple(sorted(NAMES))
    safle(
        "encoder",
        "make",
        "--histogram",
        tmp_path / "a.hist",
        "--force",
        "-o",
        tmp_path / "e.safetensors",
    )
    for name in ("e", "s"):
        encoder = load_encoder(tmp_path / f"{name}.safetensors")
        assert encoder.contract.names == tuple(sorted(NAMES))
        assert "age, dose, pulse" in safle("inspect", tmp_path / f"{name}.safetensors")


def test_predictions_do_not_depend_on_the_order_and_keep_the_ids(safle, tmp_path, encoder_path):
    table = write(tmp_path / "a.csv", NAMES, more=["patient", "ward", "bed"])
    known = ("--ignore", "patient, ward", "--ignore", "bed")
    safle("count", table, *known, "--encoder", encoder_path, "--force", "-o", tmp_path / "a.stats")
    model = tmp_path / "model.safetensors"
    safle("solve", tmp_path / "a.stats", "--encoder", encoder_path, "--force", "-o", model)
    outputs = []
    for order in (NAMES, NAMES[::-1]):
        turned = write(tmp_path / "b.csv", order, more=["patient"])
        safle("predict", model, turned, "--id", "patient", "--force", "-o", tmp_path / "p.csv")
        outputs.append((tmp_path / "p.csv").read_text())
    assert outputs[0] == outputs[1]
    lines = outputs[0].splitlines()
    assert lines[0] == "patient,class"
    assert lines[1].startswith("patient 0,")
    assert {line.split(",")[1] for line in lines[1:]} == {"ill", "well"}


def test_ignored_column_may_have_a_comma_and_must_exist(safle, tmp_path):
    table = write(tmp_path / "a.csv", NAMES, more=["bed", "ward"])
    table.write_text(table.read_text().replace("bed", '"name, first"', 1))
    made = tmp_path / "e.safetensors"
    ignored = ("--ignore", "name, first", "--ignore", "ward,bed")
    said = safle("encoder", "make", "--sample", table, *ignored, "--force", "-o", made)
    assert {*load_encoder(made).contract.names} == {*NAMES}
    assert [line for line in said.splitlines() if "no column" in line] == [
        f"warning: {table}: no column bed"
    ]
    draft = ("schema", "draft", table, *ignored, "--force", "-o", tmp_path / "s.toml")
    assert "no column day" in safle(*draft, "--category", "day")
    assert "no column 'day'; it has" in safle(*draft, "--id", "day", code=1)
    schema = Schema((Column("age", 0, 90),), ignore=("dose", "pulse", "day"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SafleWarning)
        open_table(table, schema=schema, ignore=["name, first", "ward"])


def test_a_table_made_by_hand_has_every_name_once():
    table = Table(ROWS, LABELS, names=("age", "dose", "age"))
    with pytest.raises(TableError, match="twice: age"):
        table.arrange(["dose", "age"], where="here")


def test_missing_and_unknown_columns_are_all_listed(safle, tmp_path, encoder_path):
    many = [f"unit {number}" for number in range(30)]
    table = write(tmp_path / "a.csv", ("age", "dose"), more=many)
    told = safle("count", table, "--encoder", encoder_path, "-o", tmp_path / "a.stats", code=1)
    told = " ".join(told.split())
    assert "missing columns: pulse" in told
    for name in many:
        assert name in told
    assert "--ignore" in told
    assert not (tmp_path / "a.stats").exists()


def test_columns_without_names_are_matched_by_position(safle, tmp_path, encoder_path):
    np.savez(tmp_path / "a.npz", features=ROWS[:, [1, 0, 2]], labels=LABELS)
    said = safle("count", tmp_path / "a.npz", "--encoder", encoder_path, "-o", tmp_path / "a.stats")
    assert "matched by position" in said
    table = write(tmp_path / "a.csv", ("age", "dose", "pulse"))
    said = safle("count", table, "--encoder", encoder_path, "-o", tmp_path / "b.stats")
    assert "matched by position" not in said
    assert (tmp_path / "a.stats").read_bytes() == (tmp_path / "b.stats").read_bytes()


def test_parquet_columns_have_names_too(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {name: ROWS[:, at] for at, name in enumerate(NAMES)}
    columns |= {"label": LABELS, "patient": np.arange(40)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    table = open_table(tmp_path / "a.parquet", id_column="patient")
    assert table.names == NAMES
    assert table.ids is not None
    assert table.ids.tolist() == [str(number) for number in range(40)]
    turned = table.arrange(("pulse", "dose", "age"), where="a.parquet")
    assert np.array_equal(np.asarray(turned.features), ROWS[:, [2, 0, 1]])
    (whole,) = [block for block, _ in turned.batches(64)]
    assert np.array_equal(whole, ROWS[:, [2, 0, 1]])


def test_histograms_of_other_columns_do_not_add_up():
    first, second, plain = (
        Histogram.empty(0, 1, 2, names=names, bins=4).count(np.zeros((1, 2)))
        for names in (("a", "b"), ("a", "c"), ())
    )
    with pytest.raises(EncoderMismatch, match="different names"):
        first + second
    with pytest.raises(EncoderMismatch, match="no names"):
        first + plain
    assert (first + first).names == ("a", "b")


@pytest.mark.parametrize(
    "names", [["a"], ["a", "a"], ["a", ""], ["a", 1], ["a", "b\n"], ["a", "b" * 201]]
)
def test_feature_names_are_checked(names):
    encoder = make_encoder(declared_range(0, 1, feature_dim=2), "linear")
    with pytest.raises(SettingsError):
        encoder.declare(names=names)


def test_a_column_that_names_samples_must_be_there(tmp_path):
    table = write(tmp_path / "a.csv", NAMES)
    with pytest.raises(TableError, match="no column 'patient'; it has 'dose'"):
        open_table(table, id_column="patient")


def test_text_column_and_label_column_are_named(tmp_path, safle):
    """Before anything is counted: a label that nobody named would be a feature."""
    rows = [
        "patient,age,diagnosis",
        *(f"p{at},{at},{'ill' if at % 2 else 'well'}" for at in range(20)),
    ]
    (tmp_path / "ward.csv").write_text("\n".join(rows))
    assert "column 'patient' is not a number; expected one" in safle(
        "inspect", tmp_path / "ward.csv"
    )
    draft = ("schema", "draft", tmp_path / "ward.csv", "--force", "-o", tmp_path / "ward.toml")
    assert "no classes were found in a column 'label'" in safle(*draft)
    assert "no classes" not in safle(*draft, "--label-column", "diagnosis")
    safle(
        "encoder",
        "make",
        "--schema",
        tmp_path / "ward.toml",
        "--force",
        "-o",
        tmp_path / "e.safetensors",
    )
    count = ("count", tmp_path / "ward.csv", "--encoder", tmp_path / "e.safetensors")
    # The schema knows the column of labels.
    assert "2 (ill, well)" in safle(*count, "--force", "-o", tmp_path / "a.stats")
    said = safle(*count, "--force", "-o", tmp_path / "a.stats", "--label-column", "age", code=1)
    assert "does not know: diagnosis" in said
    assert "the column of labels with --label-column NAME" in said


@pytest.mark.parametrize("source", ["schema", "sample"])
def test_a_publishable_encoder_keeps_the_names(safle, tmp_path, source):
    table = write(tmp_path / "a.csv", NAMES)
    schema = tmp_path / "schema.toml"
    schema.write_text("".join(f"[columns.{name}]\nlow = 0\nhigh = 100\n" for name in NAMES))
    given = schema if source == "schema" else table
    made = tmp_path / "e.safetensors"
    safle("encoder", "make", f"--{source}", given, "--publishable", "-o", made)
    assert load_encoder(made).contract.names == tuple(sorted(NAMES))


@pytest.mark.parametrize("command", ["count", "rehearse", "predict", "evaluate"])
def test_an_encoder_without_names_is_a_warning_in_every_command(safle, tmp_path, command):
    table = write(tmp_path / "a.csv", NAMES)
    made, model = tmp_path / "e.safetensors", tmp_path / "model.safetensors"
    safle("encoder", "make", "--range", 0, 100, "--features", 3, "--force", "-o", made)
    counted = ("count", table, "--encoder", made, "--force", "-o", tmp_path / "a.stats")
    safle(*counted)
    safle("solve", tmp_path / "a.stats", "--encoder", made, "--force", "-o", model)
    words = {
        "count": counted,
        "rehearse": ("rehearse", table, "--encoder", made),
        "predict": ("predict", model, table, "--force", "-o", tmp_path / "p.csv"),
        "evaluate": ("evaluate", model, table),
    }[command]
    assert "warning: " + f"{table}: the encoder knows no names" in safle(*words, "--quiet")
