"""Frames of pandas, polars and pyarrow: columns are matched by name, and nothing is guessed."""

from __future__ import annotations

import csv

import numpy as np
import polars
import pytest

from safle import (
    Column,
    Histogram,
    Model,
    SafleClassifier,
    Schema,
    count,
    declared_range,
    draft_schema,
    make_encoder,
    of_schema,
    open_table,
    public_sample,
    solve,
)
from safle.errors import InvalidInput, SafleWarning, SettingsError
from safle.tables.sources import frame_names, reorder_frame

NAMES = ("age", "dose", "pulse")
ROWS = np.random.default_rng(0).uniform(0, 100, (60, 3))
LABELS = np.where(ROWS[:, 1] > 50, "ill", "well")
ENCODER = make_encoder(declared_range([0] * 3, [100] * 3, names=NAMES), "linear")


def frame_of(library, names=NAMES, rows=ROWS):
    module = pytest.importorskip(library)
    columns = {name: rows[:, NAMES.index(name)] for name in names}
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


libraries = pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])


@libraries
def test_columns_are_matched_by_name_everywhere(library):
    turned = frame_of(library, NAMES[::-1])
    assert np.array_equal(ENCODER.encode(turned).dense, ENCODER.encode(ROWS).dense)
    total = count(ENCODER, ROWS, LABELS)
    assert count(ENCODER, turned, LABELS) == total
    model = Model.of(ENCODER, solve(total, ridge=1.0))
    assert np.array_equal(model.decision_function(turned), model.decision_function(ROWS))
    classifier = SafleClassifier(encoder=ENCODER, ridge=1.0).fit(turned, LABELS)
    assert classifier.statistics_ == total
    for given in (turned, frame_of(library)):
        assert np.array_equal(classifier.predict(given), model.predict(ROWS))


@libraries
def test_missing_and_unknown_columns_are_refused(library):
    with pytest.raises(InvalidInput, match="missing columns: pulse"):
        count(ENCODER, frame_of(library, NAMES[:2]), LABELS)
    with pytest.raises(InvalidInput, match="missing columns: pulse"):
        SafleClassifier(encoder=ENCODER).fit(frame_of(library, NAMES[:2]), LABELS)
    more = frame_of(library)
    extra = make_encoder(declared_range([0] * 2, [100] * 2, names=NAMES[:2]), "linear")
    with pytest.raises(InvalidInput, match=r"does not know: pulse.*drop them"):
        count(extra, more, LABELS)


@libraries
def test_names_come_from_the_frame_that_calibrates(library):
    sample = public_sample(frame_of(library))
    assert sample.contract.names == NAMES
    assert sample.thresholds(1).tolist() == public_sample(ROWS).thresholds(1).tolist()
    grid = Histogram.empty(0, 100, names=NAMES, feature_dim=3)
    turned = grid.count(frame_of(library, NAMES[::-1]))
    assert turned == grid.count(ROWS)
    fitted = SafleClassifier(encoder="linear").fit(frame_of(library), LABELS)
    if library != "pyarrow":
        # scikit-learn knows no names of pyarrow's columns.
        assert fitted.encoder_.contract.names == NAMES


@libraries
def test_an_encoder_without_names_warns(library):
    plain = make_encoder(declared_range(0, 100, feature_dim=3), "linear")
    with pytest.warns(SafleWarning, match="the encoder knows no names.*by position"):
        count(plain, frame_of(library), LABELS)


def test_text_is_refused_with_the_name_of_its_column():
    frame = frame_of("polars").with_columns(dose=polars.lit("two"))
    with pytest.raises(InvalidInput, match="row 0, column 'dose' is not a number"):
        count(ENCODER, frame, LABELS)


def test_numbered_columns_are_an_array():
    pandas = pytest.importorskip("pandas")
    assert count(ENCODER, pandas.DataFrame(ROWS), LABELS) == count(ENCODER, ROWS, LABELS)


def test_objects_of_several_types_are_read_as_texts():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"ward": np.array([1, "b", None, 1.5], object)})
    schema = Schema((Column("ward", levels=("1", "b")),))
    read = np.asarray(open_table(frame, schema=schema).features)
    np.testing.assert_array_equal(read, [[0], [1], [np.nan], [2]])


def test_a_frame_that_does_not_suit_the_schema_says_where(tmp_path):
    schema = Schema((Column("age", 0, 90), Column("dose", 0, 9, optional=True)))
    encoder = make_encoder(of_schema(schema), "table")
    with pytest.raises(InvalidInput, match="row 1, column 'age' is not a number") as refused:
        count(encoder, polars.DataFrame({"age": ["61", "Meier"], "dose": [1, 2]}), [0, 1])
    assert "Meier" not in str(refused.value)
    with pytest.raises(InvalidInput, match="missing columns: age"):
        count(encoder, polars.DataFrame({"dose": [1, 2]}), [0, 1])
    with pytest.raises(InvalidInput, match="does not know: name"):
        count(encoder, polars.DataFrame({"age": [1, 2], "name": ["a", "b"]}), [0, 1])
    with pytest.raises(InvalidInput, match="column 'age' holds List"):
        count(encoder, polars.DataFrame({"age": [[1], [2]], "dose": [1, 2]}), [0, 1])
    with pytest.warns(SafleWarning, match="no column dose"):
        assert np.isnan(encoder.contract.check(polars.DataFrame({"age": [1, 2]}))[:, 1]).all()


@pytest.mark.parametrize("option", [{"ignore": ["dose"]}, {"id_column": "dose"}], ids=str)
def test_an_optional_column_that_the_caller_takes_away_is_missing(option):
    schema = Schema((Column("age", 0, 90), Column("dose", 0, 9, optional=True)))
    frame = polars.DataFrame({"age": [1, 2], "dose": [3, 4]})
    with pytest.warns(SafleWarning, match="no column dose"):
        table = open_table(frame, schema=schema, **option)
    assert np.isnan(table.features[:, 1]).all()


COLUMNS = {
    "age": [61, "", 43, 57, 35, 70],
    "stage": [1, 2, "", 2, 1, 3],
    "sex": ["f", "m", "f", "", "m", "?"],
    "size": ["7 mm", "8", "NA", "9", "7", "5"],
    "pulse": [80.5, 71, "", 66, 90, 59.5],
}
OUTCOME = ["ill", "well", "ill", "well", "well", "ill"] * 10


def mixed_frame(library, path):
    """What a library reads of a file with text and gaps; pandas turns stages into floats."""
    if library == "pandas":
        return pytest.importorskip("pandas").read_csv(path)
    if library == "polars":
        return polars.read_csv(path)
    return pytest.importorskip("pyarrow.csv").read_csv(path)


@pytest.fixture
def mixed(tmp_path):
    path = tmp_path / "visits.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[*COLUMNS], *[*zip(*COLUMNS.values(), strict=True)] * 10])
    return path


@libraries
def test_text_and_gaps_are_read_as_from_a_file(library, mixed):
    """One schema, the same bytes of sums and one model, from a frame of any library or the file."""
    frame = mixed_frame(library, mixed)
    schema = draft_schema(frame, OUTCOME, categories=["stage"]).schema
    assert schema == draft_schema(mixed, OUTCOME, categories=["stage"]).schema
    assert schema.columns[4].levels == ("1", "2", "3")
    encoder = make_encoder(of_schema(schema), "table", units=8)
    table = open_table(mixed, schema=schema)
    expected = count(encoder, table.features[:], OUTCOME)
    assert count(encoder, frame, OUTCOME) == expected
    opened = open_table(frame, labels=OUTCOME, schema=schema)
    assert count(encoder, opened.features[:], opened.labels) == expected
    fitted = SafleClassifier(schema=schema, units=8).fit(frame, OUTCOME)
    assert fitted.model_.digest == Model.of(encoder, solve(expected)).digest


@libraries
def test_a_classifier_drafts_what_it_needs(library, mixed, recwarn):
    frame = mixed_frame(library, mixed)
    fitted = SafleClassifier(units=8).fit(frame, OUTCOME)
    assert not [str(told.message) for told in recwarn if told.category is SafleWarning]
    assert fitted.encoder_.kind == "table"
    assert fitted.encoder_.contract.schema == draft_schema(mixed).schema
    assert [*fitted.feature_names_in_] == [*fitted.encoder_.contract.names]
    turned = reorder_frame(frame, frame_names(frame)[::-1])
    assert np.array_equal(fitted.predict_proba(turned), fitted.model_.predict_proba(frame))
    with pytest.raises(InvalidInput, match="missing columns: sex"):
        fitted.predict(reorder_frame_without(frame, "sex"))
    again = SafleClassifier.from_statistics(fitted.encoder_, fitted.statistics_)
    assert np.array_equal(again.predict(frame), fitted.predict(frame))
    assert again.partial_fit(frame, OUTCOME).statistics_.sample_count == 2 * len(OUTCOME)


def reorder_frame_without(frame, name):
    return frame.drop(columns=[name]) if hasattr(frame, "iloc") else frame.drop([name])


def test_text_needs_a_kind_that_knows_it(mixed):
    frame = polars.read_csv(mixed)
    with pytest.raises(SettingsError, match=r"takes no text.*encoder='table'"):
        SafleClassifier(encoder="linear").fit(frame, OUTCOME)


def test_columns_that_are_left_out_are_named(mixed):
    frame = polars.read_csv(mixed).with_columns(day=polars.lit("2024-05-17"))
    with pytest.warns(SafleWarning, match="column 'day' is left out: it holds dates"):
        fitted = SafleClassifier(units=8).fit(frame, OUTCOME)
    assert len(fitted.predict(frame)) == len(fitted.predict(frame.drop("day")))


@libraries
def test_gaps_alone_need_no_schema(library):
    """Numbers with gaps: quantiles leave them out, and a table has a symbol for them."""
    rows = ROWS.copy()
    rows[::7, 0] = np.nan
    frame = frame_of(library, rows=rows)
    by_array = SafleClassifier(units=8).fit(rows, LABELS)
    assert by_array.encoder_.kind == "table"
    assert np.array_equal(
        by_array.model_.weights, SafleClassifier(units=8).fit(frame, LABELS).model_.weights
    )
    assert by_array.score(rows, LABELS) > 0.9
    with pytest.raises(ValueError, match="NaN"):
        SafleClassifier(encoder="linear").fit(rows, LABELS)
