"""A range for each feature: from a schema, into encoders and the grids of histograms."""

from __future__ import annotations

import pytest

from safle import load_encoder, make_encoder, read
from safle.encoders.calibration import of_schema
from safle.statistics.histogram import Histogram
from safle.tables.schema import Schema

SCHEMA = "[columns.ratio]\nlow = 0\nhigh = 1\n[columns.platelets]\nlow = 100\nhigh = 500\n"
TABLES = {"a": "platelets,ratio,label\n110,0.1,0\n480,0.9,1\n", "b": "label,ratio,platelets\n"}
ZERO = Histogram.empty([100, 0], [500, 1], names=["platelets", "ratio"], bins=4)
TABLES["b"] += "0,0.4,300\n1,0.6,200\n1,0.3,450\n"


def test_a_schema_with_categories_has_no_ranges_of_numbers(tmp_path, safle):
    (tmp_path / "s.toml").write_text("[columns.sex]\nlevels = ['f', 'm']\n")
    for asked in (["histogram", tmp_path / "a.csv"], ["encoder", "make", "--kind", "linear"]):
        said = safle(*asked, "--schema", tmp_path / "s.toml", "-o", tmp_path / "x", code=1)
        assert "sex have levels; expected only numbers" in said


def test_hospitals_count_on_the_grids_of_a_schema(safle, tmp_path):
    schema = tmp_path / "schema.toml"
    schema.write_text(SCHEMA)
    for name, text in TABLES.items():
        (tmp_path / f"{name}.csv").write_text(text)
        sent = ["--bins", 4, "--schema", schema, "-o", tmp_path / f"{name}.hist"]
        safle("histogram", tmp_path / f"{name}.csv", *sent)
    files = [tmp_path / f"{name}.hist" for name in TABLES]
    safle("sum", *files, "-o", tmp_path / "all.hist")
    total = read(tmp_path / "all.hist", Histogram)
    assert total.declaration() == ZERO.declaration()
    # Platelets 110, 480, 300, 200, 450, and ratios 0.1, 0.9, 0.4, 0.6, 0.3, on grids of their own.
    assert total.counts.tolist() == [[0, 1, 1, 1, 2, 0], [0, 1, 2, 1, 1, 0]]
    assert "a range for each" in safle("inspect", tmp_path / "all.hist")
    schema.write_text("classes = ['ill', 'well']\n" + SCHEMA)
    safle("encoder", "make", "--schema", schema, "--kind", "linear", "-o", tmp_path / "e.encoder")
    made = load_encoder(tmp_path / "e.encoder")
    assert made == make_encoder(of_schema(Schema.read(schema)), "linear")
    assert (made.contract.names, made.contract.classes) == (("platelets", "ratio"), ("ill", "well"))


def test_a_table_without_a_column_of_the_schema_is_refused_by_name(safle, tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "a.csv").write_text("ratio,dose,label\n1,2,0\n")
    asked = [tmp_path / "a.csv", "--schema", tmp_path / "schema.toml", "-o", tmp_path / "a.hist"]
    assert "missing columns: platelets" in safle("histogram", *asked, code=1)
    assert "--low and --high, or --schema" in safle("histogram", *asked, "--low", 0, code=2)


def test_features_that_fall_into_one_or_two_bins_are_named(safle, tmp_path):
    path, hist = tmp_path / "a.csv", tmp_path / "a.hist"
    path.write_text(TABLES["a"] + "300,0.4,0\n")
    said = safle("histogram", path, "--low", 0, "--high", 500, "-o", hist)
    assert "1 of 2 features fall into one or two bins: ratio;" in " ".join(said.split())
    said = safle("encoder", "make", "--histogram", hist, "-o", tmp_path / "encoder")
    assert "one or two bins: ratio" in " ".join(said.split())


def test_a_private_round_of_histograms_takes_its_grids_from_a_schema(safle, tmp_path):
    pytest.importorskip("cryptography")
    from safle_private import PrivateRound, PublicKey

    (tmp_path / "schema.toml").write_text(SCHEMA)
    for name in ("operator", "a", "b", "board"):
        safle("private", "keys", name, "-o", tmp_path / f"{name}.key")
    parties = ["--client", tmp_path / "a.pub", "--client", tmp_path / "b.pub", "--least", 2]
    parties += ["--keyholder", tmp_path / "board.pub", "--key", tmp_path / "operator.key"]
    asked = ["--schema", tmp_path / "schema.toml", "--bins", 4, "--most-total-samples", 100]
    safle("private", "round", *asked, *parties, "-o", tmp_path / "r.private")
    operator = PublicKey.load(tmp_path / "operator.pub")
    private_round = PrivateRound.load((tmp_path / "r.private").read_bytes(), operator)
    assert private_round.zero == ZERO
