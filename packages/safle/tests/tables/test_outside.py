"""Values outside the declared range or levels: named with how many, refused above a tenth."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from safle import Accumulator, Column, Schema, count, make_encoder
from safle.encoders import Encoder
from safle.encoders.outside import Outside
from safle.errors import InvalidInput, SafleWarning

SCHEMA = Schema(
    (Column("age", 0, 120, "years"), Column("sex", levels=("f", "m"))), classes=("ill", "well")
)


def write(path, ages, sexes="fm", samples=60):
    rows = ["age,sex,label"]
    for at in range(samples):
        age = ages(at) if callable(ages) else ages
        rows.append(f"{age},{sexes[at % 2]},{'ill' if at % 3 else 'well'}")
    path.write_text("\n".join(rows))
    return path


@pytest.fixture
def encoder_path(tmp_path):
    make_encoder(SCHEMA, "table").save(tmp_path / "encoder.safetensors")
    return tmp_path / "encoder.safetensors"


@pytest.mark.parametrize(
    ("ages", "sexes", "told"),
    [
        (
            lambda at: 12 * (20 + at) if at > 9 else 50,
            "fm",
            "50 of 60 values of 'age' are outside 0 to 120 years",
        ),
        (lambda at: 20 + at, "FM", "60 of 60 values of 'sex' are none of its 2 levels"),
    ],
    ids=["months", "capitals"],
)
@pytest.mark.parametrize("command", ["count", "rehearse"])
def test_another_unit_or_spelling_is_refused_by_name(
    safle, tmp_path, encoder_path, command, ages, sexes, told
):
    table = write(tmp_path / "a.csv", ages, sexes)
    words = [command, table, "--encoder", encoder_path]
    words += ["-o", tmp_path / "a.stats"] if command == "count" else []
    said = safle(*words, code=1)
    assert told in said
    assert "--allow-outside" in said
    assert not (tmp_path / "a.stats").exists()
    allowed = safle(*words, "--allow-outside")
    assert f"warning: {told}" in allowed
    if command == "rehearse":
        assert "100% vary within" not in allowed


@pytest.mark.parametrize("command", ["count", "rehearse"])
def test_a_few_are_a_warning_said_once(safle, tmp_path, encoder_path, command):
    table = write(tmp_path / "a.csv", lambda at: 6000 if at == 7 else 20 + at)
    words = [command, table, "--encoder", encoder_path]
    words += ["-o", tmp_path / "a.stats"] if command == "count" else []
    said = safle(*words)
    assert said.count("1 of 60 values of 'age' are outside 0 to 120 years") == 1
    assert "values of 'sex'" not in said


def test_predictions_and_evaluations_say_it_too(safle, tmp_path, encoder_path):
    table = write(tmp_path / "a.csv", lambda at: 20 + at)
    model = tmp_path / "model.safetensors"
    safle("count", table, "--encoder", encoder_path, "-o", tmp_path / "a.stats")
    safle("solve", tmp_path / "a.stats", "--encoder", encoder_path, "-o", model)
    months = write(tmp_path / "b.csv", lambda at: 12 * (20 + at))
    for words in (
        ["predict", model, months, "-o", tmp_path / "p.csv"],
        ["evaluate", model, months],
    ):
        assert "60 of 60 values of 'age' are outside" in safle(*words)
        assert "outside" not in safle(*words[:2], table, *words[3:])


def test_python_counts_refuse_and_warn_alike():
    encoder = make_encoder(SCHEMA, "table")
    ages = np.full(50, 40.0)
    features = np.stack([ages, np.zeros(50)], axis=1)
    labels = np.array(["ill", "well"] * 25)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SafleWarning)
        expected = count(encoder, features, labels)
    features[:10, 0] = 500
    with pytest.raises(InvalidInput, match=r"10 of 50 values of 'age'.*allow_outside=True"):
        count(encoder, features, labels)
    with pytest.warns(SafleWarning, match="10 of 50 values of 'age'"):
        assert count(encoder, features, labels, allow_outside=True).sample_count == 50
    features[:10, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error", SafleWarning)
        assert count(encoder, features, labels) != expected


def test_batches_are_judged_together():
    encoder = make_encoder(SCHEMA, "table")
    total = Accumulator(encoder)
    for age in (500.0, *[40.0] * 20):
        total.add_samples([[age, 0.0]], ["ill"])
    with pytest.warns(SafleWarning, match="1 of 21 values"):
        total.snapshot()


def test_an_encoder_of_ranges_for_named_features_counts_them_too(safle, tmp_path):
    Schema((Column("age", 0, 120), Column("dose", 0, 9))).save(tmp_path / "schema.toml")
    made = tmp_path / "e.safetensors"
    asked = ("--schema", tmp_path / "schema.toml", "--kind", "random-features", "-o", made)
    safle("encoder", "make", *asked)
    encoder = Encoder.from_bytes(made.read_bytes())
    assert [end.tolist() for end in encoder.ranges] == [[0, 0], [120, 9]]
    outside = Outside(encoder)
    outside.add(np.array([[121.0, 9.0], [120.0, -1.0]]))
    assert outside.counts.tolist() == [1, 1]
    assert outside.texts()[0] == "1 of 2 values of 'age' are outside 0 to 120"
