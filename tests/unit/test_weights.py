"""Whole weights of samples: in tables, commands, the estimator and policies."""

from __future__ import annotations

import numpy as np
import pytest

from safle import SafleClassifier
from safle.data.tables import open_table
from safle.encoders import make_encoder
from safle.encoders.calibration import DeclaredRange
from safle.errors import InvalidInput, TableError

LINES = [("3", "1.5,2,ill"), ("0", "9,9,odd"), ("1.0", "2,0.5,well"), ("2", "1,1,well")]


@pytest.fixture
def folder(tmp_path):
    """Four lines with weights, and the same with lines that stand there as often."""
    weighted = [f"{times},{line}" for times, line in LINES]
    (tmp_path / "weighted.csv").write_text("\n".join(["times,a,b,label", *weighted]))
    repeated = [line for times, line in LINES for _ in range(int(float(times)))]
    (tmp_path / "repeated.csv").write_text("\n".join(["a,b,label", *repeated]))
    ranges = DeclaredRange(0, 3, feature_dim=2)
    make_encoder(ranges, "linear").with_names(["a", "b"]).save(tmp_path / "encoder.safetensors")
    return tmp_path


def counting(folder, name, *more):
    encoder = ["--encoder", folder / "encoder.safetensors", "-o", folder / f"{name}.stats"]
    return ["count", folder / f"{name}.csv", *encoder, *more]


def test_a_column_of_weights_is_lines_that_stand_there_as_often(safle, folder):
    safle(*counting(folder, "weighted", "--weight-column", "times", "--batch", 3))
    safle(*counting(folder, "repeated"))
    assert (folder / "weighted.stats").read_bytes() == (folder / "repeated.stats").read_bytes()


def test_a_parquet_column_does_the_same(folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"times": [3, 0], "a": [1.5, 9.0], "label": ["ill", "odd"]}
    parquet.write_table(pyarrow.table(columns), folder / "t.parquet")
    table = open_table(folder / "t.parquet", weight_column="times")
    assert (table.names, table.weights.tolist()) == (("a",), [3, 0])


def test_a_policy_counts_lines_whatever_their_weights(safle, folder):
    (folder / "policy.toml").write_text("least_samples = 4")
    asked = counting(folder, "weighted", "--weight-column", "times")
    said = safle(*asked, "--policy", folder / "policy.toml", code=1)
    assert "least_samples: 3; expected at least 4" in " ".join(said.split())
    assert not (folder / "weighted.stats").exists()
    safle(*counting(folder, "repeated"), "--policy", folder / "policy.toml")


@pytest.mark.parametrize("cell", ["", "two", "-1", "1.5", "nan", "1e9"])
def test_a_weight_that_is_no_whole_number_is_refused_with_its_line(tmp_path, cell):
    (tmp_path / "t.csv").write_text(f"w,a,label\n1,2,x\n{cell},3,y\n")
    with pytest.raises(TableError, match="line 3 has weight") as refused:
        open_table(tmp_path / "t.csv", weight_column="w")
    assert refused.value.line == 3


def test_the_estimator_takes_weights_as_repetitions():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 4)), np.arange(60) % 3
    weights = generator.integers(0, 4, 60)
    settings = {"settings": {"units": 16}}
    weighted = SafleClassifier(**settings).fit(X, y, sample_weight=weights)
    times = np.repeat(np.arange(60), weights)
    whole = SafleClassifier(**settings).fit(X[times], y[times])
    assert weighted.model_.to_bytes() == whole.model_.to_bytes()
    parts = SafleClassifier(encoder=whole.encoder_)
    for part in (slice(0, 25), slice(25, None)):
        parts.partial_fit(X[part], y[part], sample_weight=weights[part].astype(float))
    assert parts.model_.to_bytes() == whole.model_.to_bytes()
    with pytest.raises(InvalidInput, match=r"weight 0\.5 of sample 0"):
        SafleClassifier(**settings).fit(X, y, sample_weight=np.full(60, 0.5))
