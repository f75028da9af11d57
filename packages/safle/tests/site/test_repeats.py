"""Rows that repeat: they count as often as they stand there, and once for a policy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from safle import RandomFeatureEncoder, Table, count, load_encoder, make_encoder, write
from safle.encoders.calibration import declared_range
from safle.errors import InvalidInput
from safle.site.rehearsal import rehearse

LINES = [(3, "1.5,2,ill"), (1, "2,0.5,well"), (2, "1,1,well")]


@pytest.fixture
def folder(tmp_path):
    """Three lines, each of which stands there once or several times."""
    lines = [line for times, line in LINES for _ in range(times)]
    (tmp_path / "repeated.csv").write_text("\n".join(["a,b,label", *lines]))
    (tmp_path / "policy.toml").write_text("least_samples = 4")
    ranges = declared_range(0, 3, feature_dim=2)
    make_encoder(ranges, "linear").declare(names=["a", "b"]).save(tmp_path / "encoder.safetensors")
    return tmp_path


def counting(folder, *more):
    encoder = ["--encoder", folder / "encoder.safetensors", "-o", folder / "repeated.stats"]
    return ["count", folder / "repeated.csv", *encoder, *more]


@pytest.mark.parametrize(("times", "warned"), [(10, True), (3, True), (1, False)])
def test_solving_warns_where_copies_were_taken_for_samples(safle, tmp_path, times, warned):
    """Fewer different lines than columns: copies leave cross-validation nothing to judge by."""
    features, labels = (some[:60] for some in load_digits(return_X_y=True))
    encoder = RandomFeatureEncoder.calibrated(declared_range(0, 16, feature_dim=64), units=512)
    encoder.save(tmp_path / "encoder.safetensors")
    counted = count(encoder, features.repeat(times, axis=0), labels.repeat(times))
    write(tmp_path / "total.stats", counted)
    asked = ["solve", tmp_path / "total.stats", "--encoder", tmp_path / "encoder.safetensors"]

    said = safle(*asked, "-o", tmp_path / "model.safetensors")

    assert ("likely far too small" in " ".join(said.split())) is warned


def test_a_policy_counts_lines_that_repeat_once(safle, folder):
    said = safle(*counting(folder, "--policy", folder / "policy.toml"), code=1)
    assert "least_samples: 3 different rows; expected at least 4" in " ".join(said.split())
    assert not (folder / "repeated.stats").exists()


def test_a_policy_judges_evaluated_lines_once(safle, folder):
    safle(*counting(folder))
    model = folder / "model.safetensors"
    encoder = ["--encoder", folder / "encoder.safetensors"]
    safle("solve", folder / "repeated.stats", *encoder, "-o", model)
    asked = ["evaluate", model, folder / "repeated.csv"]
    asked += ["--counts", folder / "w.eval", "--policy", folder / "policy.toml"]
    assert "least_samples: 3 different rows; expected" in " ".join(safle(*asked, code=1).split())
    assert not (folder / "w.eval").exists()


def test_a_table_without_lines_is_nothing_to_evaluate(safle, folder):
    safle(*counting(folder))
    model = folder / "model.safetensors"
    encoder = ["--encoder", folder / "encoder.safetensors"]
    safle("solve", folder / "repeated.stats", *encoder, "-o", model)
    (folder / "none.csv").write_text("a,b,label\n")
    said = safle("evaluate", model, folder / "none.csv", code=1)
    assert "has no samples" in " ".join(said.split())


def test_rehearsal_counts_rows_of_one_patient_once(folder):
    encoder = load_encoder(folder / "encoder.safetensors")
    features = np.random.default_rng(0).random((5, 2))
    labels = np.arange(5) == 0
    often = Table(features.repeat(50, axis=0), labels.repeat(50))
    found = rehearse(encoder, often, where="t.csv")
    assert found.samples == 250
    assert found.exposure.summary
    assert found.exposure == rehearse(encoder, Table(features, labels), where="t.csv").exposure


def test_a_rehearsal_needs_samples_to_hold_out(folder):
    encoder = load_encoder(folder / "encoder.safetensors")
    few = Table(np.random.default_rng(0).random((4, 2)), np.arange(4) % 2)
    with pytest.raises(InvalidInput, match="cannot be held out"):
        rehearse(encoder, few, where="t.csv")
