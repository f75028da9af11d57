"""A range for each feature: from files, into encoders and the grids of histograms."""

from __future__ import annotations

import numpy as np
import pytest

from safle.encoders import load_encoder, make_encoder
from safle.encoders.histogram import Grid
from safle.errors import SafleError
from safle.tables import read_ranges
from safle.wire import read_histogram

CSV = "name,low,high\nratio,0,1\nplatelets,100,500\n"
TABLES = {"a": "platelets,ratio,label\n110,0.1,0\n480,0.9,1\n", "b": "label,ratio,platelets\n"}
TABLES["b"] += "0,0.4,300\n1,0.6,200\n1,0.3,450\n"


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        ("csv", CSV),
        ("csv", "\ufeffHigh;Name;Low;Unit\n500;platelets;100;/nl\n1,0;ratio;0,0;\n"),
        ("toml", "[columns.ratio]\nlow = 0\nhigh = 1\n[columns.platelets]\nlow=100\nhigh=500\n"),
    ],
)
def test_ranges_are_in_the_order_of_names_whatever_the_file(tmp_path, suffix, text):
    path = tmp_path / f"ranges.{suffix}"
    path.write_text(text)
    found = read_ranges(path)
    assert found.names == ("platelets", "ratio")
    assert (np.asarray(found.low).tolist(), np.asarray(found.high).tolist()) == ([100, 0], [500, 1])


def test_ranges_without_names_are_in_the_order_of_the_features(tmp_path):
    path = tmp_path / "ranges.csv"
    path.write_text("low,high\n5,6\n1,9\n")
    found = read_ranges(path)
    assert (found.names, np.asarray(found.low).tolist()) == ((), [5, 1])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("r.csv", "name,low\na,1\n", "expected name, low and high"),
        ("r.csv", "name,low,high,mean\na,1,2,3\n", "expected name, low and high"),
        ("r.csv", "name,low,high\n", "has no ranges"),
        ("r.csv", "name,low,high\na,1,two\n", "line 2, column 'high' is no number; expected one"),
        ("r.csv", "name,low,high\na,2,1\n", "expected finite low < high"),
        ("r.csv", "name,low,high\na,0,1\na,0,2\n", "a name of its own"),
        ("r.toml", "[columns.sex]\nlevels = ['f', 'm']\n", "sex have levels"),
        ("r.toml", "[columns", "r.toml"),
    ],
)
def test_what_is_no_file_of_ranges_is_refused_and_named(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(SafleError, match=words) as refused:
        read_ranges(tmp_path / name)
    assert str(refused.value).count(name) == 1


def test_hospitals_count_on_the_grids_of_a_file(safle, tmp_path):
    ranges = tmp_path / "ranges.csv"
    ranges.write_text(CSV)
    for name, text in TABLES.items():
        (tmp_path / f"{name}.csv").write_text(text)
        sent = ["--bins", 4, "--ranges", ranges, "-o", tmp_path / f"{name}.hist"]
        safle("histogram", tmp_path / f"{name}.csv", *sent)
    files = [tmp_path / f"{name}.hist" for name in TABLES]
    safle("sum", *files, "-o", tmp_path / "all.hist")
    total = read_histogram(tmp_path / "all.hist")
    assert total.grid == Grid([100, 0], [500, 1], 4)
    # Platelets 110, 480, 300, 200, 450, and ratios 0.1, 0.9, 0.4, 0.6, 0.3, on grids of their own.
    assert total.counts.tolist() == [[0, 1, 1, 1, 2, 0], [0, 1, 2, 1, 1, 0]]
    assert "a range for each" in safle("inspect", tmp_path / "all.hist")
    safle("encoder", "make", "--ranges", ranges, "--kind", "linear", "-o", tmp_path / "e.encoder")
    expected = make_encoder(read_ranges(ranges), "linear")
    assert load_encoder(tmp_path / "e.encoder").fingerprint == expected.fingerprint
    assert load_encoder(tmp_path / "e.encoder").feature_names == ("platelets", "ratio")


def test_a_table_without_a_column_of_the_ranges_is_refused_by_name(safle, tmp_path):
    (tmp_path / "ranges.csv").write_text(CSV)
    (tmp_path / "a.csv").write_text("ratio,dose,label\n1,2,0\n")
    asked = [tmp_path / "a.csv", "--ranges", tmp_path / "ranges.csv", "-o", tmp_path / "a.hist"]
    assert "missing columns: platelets" in safle("histogram", *asked, code=1)
    assert "--low and --high, or --ranges" in safle("histogram", *asked, "--low", 0, code=2)


def test_features_that_fall_into_one_or_two_bins_are_named(safle, tmp_path):
    path, hist = tmp_path / "a.csv", tmp_path / "a.hist"
    path.write_text(TABLES["a"] + "300,0.4,0\n")
    said = safle("histogram", path, "--low", 0, "--high", 500, "-o", hist)
    assert "1 of 2 features fall into one or two bins: ratio;" in " ".join(said.split())
    for command in (["sum", hist], ["encoder", "make", "--histogram", hist]):
        output = tmp_path / command[0]
        assert "one or two bins: ratio" in " ".join(safle(*command, "-o", output).split())


def test_a_private_round_of_histograms_takes_its_grids_from_a_file(safle, tmp_path):
    pytest.importorskip("cryptography")
    from safle.private import PrivateRound, PublicKey

    (tmp_path / "ranges.csv").write_text(CSV)
    for name in ("operator", "a", "b", "board"):
        safle("private", "keys", name, "-o", tmp_path / f"{name}.key")
    parties = ["--client", tmp_path / "a.pub", "--client", tmp_path / "b.pub", "--least", 2]
    parties += ["--keyholder", tmp_path / "board.pub", "--key", tmp_path / "operator.key"]
    asked = ["--ranges", tmp_path / "ranges.csv", "--bins", 4, "--most-total-samples", 100]
    safle("private", "round", *asked, *parties, "-o", tmp_path / "r.private")
    operator = PublicKey.load(tmp_path / "operator.pub")
    space = PrivateRound.load((tmp_path / "r.private").read_bytes(), operator).space
    assert (space.grid, space.names) == (Grid([100, 0], [500, 1], 4), ("platelets", "ratio"))
