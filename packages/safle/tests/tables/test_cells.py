"""Cells of text become the numbers that Python reads, to the last bit."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safle import open_table
from safle.errors import TableError
from safle.tables.cells import read_cells
from safle.tables.sources import ColumnSource

polars = pytest.importorskip("polars")
numbers = st.one_of(
    st.floats().map(repr),
    st.floats(width=32).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"\A[+-]?[0-9]{0,25}\.?[0-9]{0,25}([eE][+-]?[0-9]{1,3})?\Z"),
    st.sampled_from([" 1.5 ", "1_000", "inf", "-Infinity", "nan", "NaN", "1e400", ".5e1"]),
)


def as_python(text):
    try:
        return float(text)
    except ValueError:
        return None


@given(texts=st.lists(numbers | st.text(max_size=6), max_size=20))
def test_numbers_are_those_of_python(texts):
    expected = [as_python(text) for text in texts]
    series = polars.Series(texts, dtype=polars.String)
    refuse = ColumnSource("t", series.to_frame()).refuse
    if None in expected:
        with pytest.raises(TableError) as refused:
            read_cells(series, refuse=refuse)
        assert refused.value.line == expected.index(None)
    else:
        assert np.array_equal(read_cells(series, refuse=refuse), expected, equal_nan=True)


cells = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=8)


@given(rows=st.lists(st.tuples(cells, cells), max_size=8), more=st.booleans())
def test_cells_are_those_of_pythons_reader(tmp_path_factory, rows, more):
    """Quotes, delimiters, line ends and blanks in cells; and a value never stands in an error."""
    path = tmp_path_factory.getbasetemp() / "cells.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerow(["first", "number", "label"])
        writer.writerows([first, "7", label] for first, label in rows)
        file.write("\n\n" if more else "")
    if all(label.strip() for _, label in rows):
        expected = [label.strip() for _, label in rows]
        assert open_table(path, ignore=["first"]).labels.tolist() == as_labels(expected)
    else:
        line = next(at for at, (_, label) in enumerate(rows) if not label.strip())
        with pytest.raises(TableError, match="has no label") as refused:
            open_table(path, ignore=["first"])
        before = sum(1 + "".join(row).count("\n") for row in rows[:line])
        assert refused.value.line == 2 + before


def as_labels(texts):
    from safle import parse_labels

    return parse_labels(texts, where="here").tolist()


@pytest.mark.parametrize("text", ['a,b\n1,5" tall\n', "a,b\r1,2\r", 'a,b\n1,"x"y\n'])
def test_cells_that_polars_misreads_are_read_by_python(tmp_path, text):
    (tmp_path / "t.csv").write_text(text, newline="")
    rows = [*csv.reader(text.splitlines())]
    if '"x"y' in text:
        with pytest.raises(TableError, match="line 2"):
            open_table(tmp_path / "t.csv", label_column="b")
    else:
        table = open_table(tmp_path / "t.csv", label_column="b")
        assert table.labels.tolist() == as_labels([row[1] for row in rows[1:]])


def test_an_error_never_carries_a_value(tmp_path):
    (tmp_path / "t.csv").write_text("a,w\n1,2\nMeier,3\n4,many\n")
    with pytest.raises(TableError, match="line 3, column 'a'") as refused:
        open_table(tmp_path / "t.csv", ignore=["w"])
    assert "Meier" not in str(refused.value)
    np.savez(tmp_path / "t.npz", features=np.zeros((2, 1)), labels=[1.0, 61.25])
    with pytest.raises(TableError, match="label at sample 1") as refused:
        open_table(tmp_path / "t.npz")
    assert "61" not in str(refused.value)
