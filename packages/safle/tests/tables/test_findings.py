"""Values outside the declared range or levels: named with how many, refused above a tenth."""

from __future__ import annotations

import warnings

import numpy as np
import polars
import pytest

from safle import (
    Accumulator,
    Column,
    Contract,
    Encoder,
    Model,
    SafleClassifier,
    Schema,
    count,
    evaluate,
    make_encoder,
    of_schema,
    solve,
)
from safle.errors import InvalidInput, SafleWarning
from safle.tables.findings import Findings

SCHEMA = Schema(
    (Column("age", 0, 120, "years"), Column("sex", levels=("f", "m"))), classes=("ill", "well")
)
ENCODER = make_encoder(of_schema(SCHEMA), "table")


def write(path, ages, sexes="fm", samples=60):
    rows = ["age,sex,label"]
    for at in range(samples):
        age = ages(at) if callable(ages) else ages
        rows.append(f"{age},{sexes[at % 2]},{'ill' if at % 3 else 'well'}")
    path.write_text("\n".join(rows))
    return path


@pytest.fixture
def encoder_path(tmp_path):
    ENCODER.save(tmp_path / "encoder.safetensors")
    return tmp_path / "encoder.safetensors"


@pytest.mark.parametrize(
    ("ages", "sexes", "told"),
    [
        (
            lambda at: 12 * (20 + at) if at > 9 else 50,
            "fm",
            "50 of 60 values of 'age' are outside 0 to 120 years",
        ),
        (lambda at: 20 + at, "FM", "60 of 60 values of 'sex' are not among its 2 levels"),
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
    table = tmp_path / "a.csv"
    words = [command, table, "--encoder", encoder_path]
    words += ["--force", "-o", tmp_path / "a.stats"] if command == "count" else []
    write(table, lambda at: 6000 if at == 7 else 20 + at)
    said = safle(*words)
    assert said.count("1 of 60 values of 'age' are outside 0 to 120 years") == 1
    assert "values of 'sex'" not in said
    # A draft leaves out the four smallest and largest values.
    for near, expected in ((8, False), (9, True)):
        write(table, lambda at, near=near: 130 if at < near else 20 + at % 90, samples=100)
        assert ("9 of 100 values of 'age' are outside" in (said := safle(*words))) == expected
        assert ("values of" in said) == expected


def test_predictions_and_evaluations_say_it_too(safle, tmp_path, encoder_path):
    table = write(tmp_path / "a.csv", lambda at: 20 + at)
    model = tmp_path / "model.safetensors"
    safle("count", table, "--encoder", encoder_path, "--force", "-o", tmp_path / "a.stats")
    safle("solve", tmp_path / "a.stats", "--encoder", encoder_path, "--force", "-o", model)
    months = write(tmp_path / "b.csv", lambda at: 12 * (20 + at))
    for words in (
        ["predict", model, months, "--force", "-o", tmp_path / "p.csv"],
        ["evaluate", model, months],
    ):
        assert "60 of 60 values of 'age' are outside" in safle(*words)
        assert "outside" not in safle(*words[:2], table, *words[3:])


def test_python_counts_refuse_and_warn_alike():
    ages = np.full(50, 40.0)
    features = np.stack([ages, np.zeros(50)], axis=1)
    labels = np.array(["ill", "well"] * 25)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SafleWarning)
        expected = count(ENCODER, features, labels)
    features[:10, 0] = 500
    with pytest.raises(InvalidInput, match=r"10 of 50 values of 'age'.*allow_outside=True"):
        count(ENCODER, features, labels)
    with pytest.warns(SafleWarning, match="10 of 50 values of 'age'"):
        assert count(ENCODER, features, labels, allow_outside=True).sample_count == 50
    features[:10, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error", SafleWarning)
        assert count(ENCODER, features, labels) != expected


def test_batches_are_judged_together():
    total = Accumulator(ENCODER)
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
    assert [end.tolist() for end in encoder.contract.ranges] == [[0, 0], [120, 9]]
    outside = Findings(encoder.contract)
    outside.add(np.array([[121.0, 9.0], [120.0, -1.0]]))
    assert outside.counts.tolist() == [1, 1]
    assert outside.texts()[0] == "1 of 2 values of 'age' are outside 0 to 120"


def count_ages(gap=False):
    """Samples of all ages; one of them has none, where ``gap``."""
    features = np.stack([np.linspace(1, 119, 60), np.arange(60) % 2], axis=1)
    if gap:
        features[3] = np.nan
    return count(ENCODER, features, ["ill", "well", "well"] * 20)


def make_model(gap=False):
    return Model.of(ENCODER, solve(count_ages(gap)))


@pytest.fixture
def warned(recwarn):
    """What was warned of since it was asked last."""

    def take():
        texts = [str(one.message) for one in recwarn.list]
        recwarn.clear()
        return texts

    return take


@pytest.mark.parametrize("name", ["predict", "predict_proba", "decision_function"])
def test_python_predictions_say_it_once_a_call(warned, name):
    model = make_model()
    table = np.tile([[500.0, 0.0], [50.0, 1.0]], (10_000, 1))
    ask = [getattr(model, name)]
    ask.append(getattr(SafleClassifier.from_statistics(ENCODER, count_ages()), name))
    warned()
    for method in ask:
        method(table)
        assert warned() == ["10,000 of 20,000 values of 'age' are outside 0 to 120 years"]
        method(table[1:2])
        assert not warned()
        method(table[:1])
        assert warned() == ["1 of 1 values of 'age' are outside 0 to 120 years"]
    evaluate(model, table, ["ill", "well"] * 10_000)
    assert len(warned()) == 1


def test_a_classifier_that_drafts_a_schema_warns_of_many_values_only(warned):
    frame = polars.DataFrame({"age": [*range(20, 80)], "sex": ["f", "m"] * 30})
    fitted = SafleClassifier(units=8).fit(frame, ["ill", "well", "well"] * 20)
    fitted.predict(frame)
    assert not warned()
    fitted.predict(frame.with_columns(polars.col("age") * 12))
    assert "values of 'age' are outside" in warned()[0]


def test_a_gap_that_no_client_had_is_named(safle, tmp_path, encoder_path, warned):
    gaps = np.array([[np.nan, 0.0], [50.0, np.nan], [np.nan, 1.0]])
    make_model().predict(gaps)
    age, sex = warned()
    assert age.startswith("'age' is missing in 2 of 3 samples")
    assert age.endswith("rest on the middle of its range")
    assert sex.startswith("'sex' is missing in 1 of 3 samples")
    assert sex.endswith("rest on the other columns")
    make_model(gap=True).predict(gaps)
    assert not warned()
    model = tmp_path / "model.safetensors"
    make_model().save(model)
    table = write(tmp_path / "a.csv", lambda at: "NA" if at % 2 else 20 + at)
    for words in (["predict", model, table, "-o", tmp_path / "p.csv"], ["evaluate", model, table]):
        said = safle(*words)
        assert said.count("'age' is missing in 30 of 60 samples") == 1


def test_a_unit_that_makes_all_values_small_is_named(safle, tmp_path, encoder_path):
    centuries = write(tmp_path / "a.csv", lambda at: (20 + at) / 100)
    words = ["--encoder", encoder_path, "--force", "-o", tmp_path / "a.stats"]
    said = safle("count", centuries, *words)
    expected = "all 60 values of 'age' together span less than 5% of 0 to 120 years: are they"
    assert expected in said
    below = write(tmp_path / "b.csv", lambda at: (at - 7.5) / 100)
    assert expected in safle("count", below, *words)
    # What never varies, or hardly was measured, is no sign of another unit.
    assert "span" not in safle("count", write(tmp_path / "a.csv", 50), *words)
    few = write(tmp_path / "a.csv", lambda at: (20 + at) / 100 if at < 19 else "NA")
    assert "span" not in safle("count", few, *words)


def test_nothing_but_gaps_is_refused_and_a_column_of_gaps_named(safle, tmp_path, encoder_path):
    words = ["--encoder", encoder_path, "--force", "-o", tmp_path / "a.stats"]
    empty = write(tmp_path / "a.csv", "NA", ["NA", "?"])
    assert "all values of all 2 columns are missing" in safle("count", empty, *words, code=1)
    safle("count", empty, *words, "--allow-outside")
    half = write(tmp_path / "a.csv", "NA")
    assert "warning: all values of 'age' are missing" in safle("count", half, *words)


def test_unknown_levels_are_named_before_numbers_outside():
    numbers = [Column(f"a{at}", 0, 1) for at in range(4)]
    categories = [Column(f"b{at}", levels=("f", "m")) for at in range(5)]
    outside = Findings(Contract.of_schema(Schema((*numbers, *categories))))
    features = np.random.default_rng(0).random((200, 9))
    features[:, 4:] = features[:, 4:].round()
    features[:9, :4] = 3
    for at in range(5):
        features[: at + 1, 4 + at] = 2
    outside.add(features)
    worst = "; ".join(f"9 of 200 values of 'a{at}' are outside 0 to 1" for at in range(4))
    assert outside.texts() == [
        "5 of 200 values of 'b4' are not among its 2 levels",
        "4 of 200 values of 'b3' are not among its 2 levels",
        "3 of 200 values of 'b2' are not among its 2 levels",
        "2 more categories have values that are not among their levels",
        f"4 of 9 columns are not as the encoder expects; the worst: {worst}",
    ]


def test_findings_of_many_columns_are_one_line():
    names = [f"x{at:03}" for at in range(160)]
    encoder = make_encoder(of_schema(Schema(tuple(Column(name, 0, 1) for name in names))), "linear")
    outside = Findings(encoder.contract)
    features = np.random.default_rng(0).random((37, 160))
    features[0, :55] = 2
    features[:4, 7] = 3
    outside.add(features)
    (text,) = outside.texts()
    # The worst one first, then others, five in all.
    others = "; ".join(f"1 of 37 values of 'x00{at}' are outside 0 to 1" for at in range(4))
    worst = f"4 of 37 values of 'x007' are outside 0 to 1; {others}"
    assert text == f"55 of 160 columns are not as the encoder expects; the worst: {worst}"
    outside.add(np.where(np.arange(160) == 9, 2, features))
    assert outside.texts()[1] == "38 of 74 values of 'x009' are outside 0 to 1"


def test_findings_name_the_narrowest_of_many_narrow_columns():
    names = ("a", "b", "c", "d", "e")
    schema = Schema(tuple(Column(name, 0, 1) for name in names))
    outside = Findings(make_encoder(of_schema(schema), "linear").contract)
    features = np.random.default_rng(0).random((40, 5))
    features *= [0.01, 0.01, 0.0001, 0.01, 1]
    outside.add(features)
    (text,) = outside.texts()
    assert text.startswith("4 of 5 columns are not as the encoder expects; the worst: ")
    assert "'c' together span less than 5% of 0 to 1: are they in its unit?" in text


@pytest.mark.parametrize("command", ["count", "rehearse"])
@pytest.mark.parametrize(("span", "warned_of"), [(5.9, True), (6.1, False)])
def test_less_than_a_twentieth_of_a_range_is_named(
    safle, tmp_path, encoder_path, command, span, warned_of
):
    table = write(tmp_path / "a.csv", lambda at: 50 + span * at / 59)
    more = ["-o", tmp_path / "a.stats"] if command == "count" else []
    said = safle(command, table, "--encoder", encoder_path, *more)
    assert ("values of 'age' together span less than 5% of 0 to 120" in said) == warned_of
