"""Whole weights of samples: in tables, commands, the estimator and policies."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from safle import RandomFeatureEncoder, SafleClassifier, count, evaluate, load_encoder, load_model
from safle.encoders import make_encoder
from safle.encoders.calibration import DeclaredRange
from safle.errors import InvalidInput, TableError
from safle.evaluation.counts import Evaluation
from safle.site.rehearsal import rehearse
from safle.tables import Table, open_table
from safle.wire import read, write

LINES = [("3", "1.5,2,ill"), ("0", "9,9,odd"), ("1.0", "2,0.5,well"), ("2", "1,1,well")]


@pytest.fixture
def folder(tmp_path):
    """Four lines with weights, and the same with lines that stand there as often."""
    weighted = [f"{times},{line}" for times, line in LINES]
    (tmp_path / "weighted.csv").write_text("\n".join(["times,a,b,label", *weighted]))
    repeated = [line for times, line in LINES for _ in range(int(float(times)))]
    (tmp_path / "repeated.csv").write_text("\n".join(["a,b,label", *repeated]))
    ranges = DeclaredRange(0, 3, feature_dim=2)
    make_encoder(ranges, "linear").declare(names=["a", "b"]).save(tmp_path / "encoder.safetensors")
    return tmp_path


def counting(folder, name, *more):
    encoder = ["--encoder", folder / "encoder.safetensors", "-o", folder / f"{name}.stats"]
    return ["count", folder / f"{name}.csv", *encoder, *more]


def test_a_column_of_weights_is_lines_that_stand_there_as_often(safle, folder):
    safle(*counting(folder, "weighted", "--weight-column", "times"))
    safle(*counting(folder, "repeated"))
    assert (folder / "weighted.stats").read_bytes() == (folder / "repeated.stats").read_bytes()


@pytest.mark.parametrize(("times", "warned"), [(10, True), (3, True), (1, False)])
def test_solving_warns_where_copies_were_taken_for_samples(safle, tmp_path, times, warned):
    """Fewer different lines than columns: copies leave cross-validation nothing to judge by."""
    features, labels = (some[:60] for some in load_digits(return_X_y=True))
    encoder = RandomFeatureEncoder.calibrated(DeclaredRange(0, 16, feature_dim=64), units=512)
    encoder.save(tmp_path / "encoder.safetensors")
    counted = count(encoder, features, labels, weights=np.full(60, times))
    write(tmp_path / "total.stats", counted)
    asked = ["solve", tmp_path / "total.stats", "--encoder", tmp_path / "encoder.safetensors"]

    said = safle(*asked, "-o", tmp_path / "model.safetensors")

    assert ("likely far too small" in " ".join(said.split())) is warned


def test_a_parquet_column_does_the_same(folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"times": [3, 0], "a": [1.5, 9.0], "label": ["ill", "odd"]}
    parquet.write_table(pyarrow.table(columns), folder / "t.parquet")
    table = open_table(folder / "t.parquet", weight_column="times")
    assert (table.names, table.weights.tolist()) == (("a",), [3, 0])


def test_a_policy_counts_lines_once_whether_they_have_weights_or_repeat(safle, folder):
    (folder / "policy.toml").write_text("least_samples = 4")
    for name, more in (("weighted", ["--weight-column", "times"]), ("repeated", [])):
        asked = counting(folder, name, *more)
        said = safle(*asked, "--policy", folder / "policy.toml", code=1)
        assert "least_samples: 3 different rows; expected at least 4" in " ".join(said.split())
        assert not (folder / f"{name}.stats").exists()


@pytest.mark.parametrize("cell", ["", "two", "-1", "1.5", "nan", "1e9"])
def test_a_weight_that_is_no_whole_number_is_refused_with_its_line(tmp_path, cell):
    (tmp_path / "t.csv").write_text(f"w,a,label\n1,2,x\n{cell},3,y\n")
    with pytest.raises(TableError, match="line 3 has a weight") as refused:
        open_table(tmp_path / "t.csv", weight_column="w")
    assert refused.value.line == 3


def test_the_estimator_takes_weights_as_repetitions():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 4)), np.arange(60) % 3
    weights = generator.integers(0, 4, 60)
    settings = {"units": 16}
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


@pytest.fixture
def model(safle, folder):
    safle(*counting(folder, "repeated"))
    made = folder / "model.safetensors"
    encoder = ["--encoder", folder / "encoder.safetensors"]
    safle("solve", folder / "repeated.stats", *encoder, "-o", made)
    return made


def test_evaluation_counts_by_weight_are_those_of_repeated_lines(safle, folder, model):
    weigh = ["--weight-column", "times"]
    for name, more in (("weighted", weigh), ("repeated", [])):
        safle("evaluate", model, folder / f"{name}.csv", *more, "--counts", folder / f"{name}.eval")
    assert read(folder / "weighted.eval", Evaluation).sample_count == 6
    assert (folder / "weighted.eval").read_bytes() == (folder / "repeated.eval").read_bytes()
    loaded, table = load_model(model), open_table(folder / "weighted.csv", weight_column="times")
    counts = evaluate(loaded, table.features[:], table.labels, weights=table.weights)
    assert counts == read(folder / "repeated.eval", Evaluation)
    with pytest.raises(InvalidInput, match="whole numbers"):
        evaluate(loaded, table.features[:], table.labels, weights=[0.5] * 4)


def test_a_policy_judges_evaluated_lines_once(safle, folder, model):
    (folder / "policy.toml").write_text("least_samples = 4")
    asked = ["evaluate", model, folder / "weighted.csv", "--weight-column", "times"]
    asked += ["--counts", folder / "w.eval", "--policy", folder / "policy.toml"]
    assert "least_samples: 3 different rows; expected" in " ".join(safle(*asked, code=1).split())
    assert not (folder / "w.eval").exists()


def test_lines_of_no_weight_are_nothing_to_evaluate(safle, folder, model):
    (folder / "none.csv").write_text("times,a,b,label\n0,1,1,ill\n")
    asked = ["evaluate", model, folder / "none.csv", "--weight-column", "times"]
    assert "has no samples" in " ".join(safle(*asked, code=1).split())


def test_a_rehearsal_counts_what_would_be_sent(folder):
    generator = np.random.default_rng(0)
    features, labels = generator.random((40, 2)), np.arange(40) % 2
    times = generator.integers(0, 4, 40)
    encoder = load_encoder(folder / "encoder.safetensors")
    sent = rehearse(encoder, Table(features, labels, weights=times), where="t.csv")
    repeated_rows = Table(features.repeat(times, axis=0), labels.repeat(times))
    repeated = rehearse(encoder, repeated_rows, where="t.csv")
    assert (sent.samples, sent.bytes) == (repeated.samples, repeated.bytes)
    assert sent.samples == times.sum()
    # Many of one patient are still one patient, who can be worked out.
    labels = np.arange(5) == 0
    once, often = (Table(features[:5], labels, weights=np.full(5, w)) for w in (1, 50))
    exposure = rehearse(encoder, often, where="t.csv").exposure
    assert exposure.summary
    assert exposure == rehearse(encoder, once, where="t.csv").exposure


def test_a_rehearsal_holds_out_lines_with_all_their_weight(folder):
    encoder = load_encoder(folder / "encoder.safetensors")
    features = np.array([[0.5, 0.5], [2.5, 2.5]] * 20)
    labels = np.arange(40) % 2
    held = np.random.default_rng(0).permutation(40) % 5 == 0
    # One line of each fold is mislabelled: who judges by lines, or splits one, says otherwise.
    wrong = int(np.flatnonzero(held)[0])
    times = np.ones(40, np.int64)
    labels[wrong], times[wrong] = 1 - labels[wrong], 9
    found = rehearse(encoder, Table(features, labels, weights=times), where="t.csv")
    assert (found.judged, found.accuracy) == (16, 7 / 16)
    few = Table(features, labels, weights=times * (np.arange(40) < 4))
    with pytest.raises(InvalidInput, match="cannot be held out"):
        rehearse(encoder, few, where="t.csv")


def test_the_command_rehearses_by_weight(safle, folder):
    lines = "".join(f"{1 + n % 2},{n % 5 / 2},{n % 3},{'ab'[n % 2]}\n" for n in range(20))
    (folder / "more.csv").write_text(f"times,a,b,label\n{lines}")
    asked = ["rehearse", folder / "more.csv", "--encoder", folder / "encoder.safetensors"]
    said = safle(*asked, "--weight-column", "times")
    assert "30" in next(line for line in said.splitlines() if "samples" in line)
