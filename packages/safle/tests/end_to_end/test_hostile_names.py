"""Names of classes are not ours: tables show them, no more."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from safle import LinearEncoder, Model, count, solve
from safle.encoders.calibration import declared_range
from support.command import safle
from support.tables import write_table

pytestmark = pytest.mark.slow

LIVE = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\tTAB", "'quoted")
PLAIN = ("a=b", r"$\frac{$", "<script>alert(1)</script>", 'a"b')


def test_predictions_file_holds_no_spreadsheet_formula_and_keeps_names(tmp_path):
    names = np.array(LIVE + PLAIN)
    features = np.eye(len(names), dtype=np.float32)
    encoder = LinearEncoder.calibrated(declared_range(0, 1, len(names)))
    model = Model.of(encoder, solve(count(encoder, features, names), ridge=1e-3))
    model.save(tmp_path / "model.safetensors")
    write_table(tmp_path / "test.npz", features, names)
    asked = ("predict", "model.safetensors", "test.npz", "--proba", "-o", "out.csv")
    safle(*asked, folder=tmp_path)
    predicted = model.predict(features).tolist()
    assert set(predicted) == set(LIVE + PLAIN)
    with (tmp_path / "out.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert [row[1].removeprefix("'") for row in rows] == predicted
    assert header[2:] == [f"probability_{name}" for name in model.class_names]
    cells = [*header, *(row[1] for row in rows)]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)
    assert {row[1] for row in rows} >= set(PLAIN)
