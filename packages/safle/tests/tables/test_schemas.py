"""Schemas: drafted without naming few samples, merged, saved, and what tables become by them."""

from __future__ import annotations

import numpy as np
import pytest

from safle import Column, Encoder, Schema, count, make_encoder, merge_schemas, of_schema, open_table
from safle.errors import SafleWarning, SettingsError, TableError
from safle.tables.drafting import draft_schema
from safle_private.noise import Sensitivity

SCHEMA = Schema(
    (Column("age", 0, 100), Column("size", 0, 90, "mm"), Column("sex", levels=("f", "m"))),
    ignore=("patient",),
    classes=("ill", "well"),
)
CELLS = ["40,12 mm,f,ill", "NA,30,m,well", "71,?,d,ill", "5,8.5,,well"]
VALUES = [[40, 0, 12], [np.nan, 1, 30], [71, 2, np.nan], [5, np.nan, 8.5]]
"""By columns in the order of their names: age, sex, size."""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["age,size,sex,label", *CELLS]))
    return path


def test_a_schema_survives_its_file_and_its_encoder(tmp_path):
    SCHEMA.save(tmp_path / "s.toml")
    assert Schema.read(tmp_path / "s.toml") == SCHEMA
    encoder = make_encoder(of_schema(SCHEMA), "table")
    again = Encoder.from_bytes(encoder.to_bytes())
    assert again == encoder
    assert again.contract.schema == SCHEMA
    assert again.contract.classes == ("ill", "well")
    assert again.layout.table_sizes.tolist() == [2, 4, 2]


def test_both_ends_of_a_range_are_written(tmp_path):
    Schema((Column("age", 0, 90), Column("depth", -90, 0))).save(tmp_path / "s.toml")
    text = (tmp_path / "s.toml").read_text()
    assert "low = 0.0\nhigh = 90.0" in text
    assert "low = -90.0\nhigh = 0.0" in text


def test_cells_become_levels_numbers_and_gaps_in_csv_and_parquet(table, tmp_path):
    read = np.asarray(open_table(table, schema=SCHEMA).features)
    np.testing.assert_array_equal(read, VALUES)
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "sex": ["f", "m", "d", None],
        "age": [40.0, None, 71.0, 5.0],
        "size": ["12 mm", "30", "?", "8.5"],
        "patient": [1, 2, 3, 4],
        "label": ["ill", "well ", "ill", "well"],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    found = open_table(tmp_path / "a.parquet", schema=SCHEMA)
    np.testing.assert_array_equal(np.asarray(found.features), VALUES)
    assert found.labels.tolist() == ["ill", "well", "ill", "well"]


def test_semicolons_tabs_and_decimal_commas_are_recognised(tmp_path):
    path = tmp_path / "a.csv"
    for mark in ";\t|":
        path.write_text(f"\ufeffa{mark}b{mark}label\n1,5{mark}2{mark}x\n-3,25{mark}4{mark}y\n")
        read = open_table(path)
        assert np.asarray(read.features).tolist() == [[1.5, 2], [-3.25, 4]]
        assert read.labels.tolist() == ["x", "y"]


def test_another_unit_is_refused(table):
    table.write_text(table.read_text().replace("12 mm", "12 cm"))
    with pytest.raises(TableError, match=r"column 'size' .*has a unit"):
        np.asarray(open_table(table, schema=SCHEMA).features)


def test_a_draft_names_nothing_of_few_samples_and_says_what_it_left_out(tmp_path):
    rows = [
        f"{number % 50},{'fm'[number % 2]},N{number},2024-01-0{number % 9 + 1}"
        for number in range(200)
    ]
    rows[7] = "3141.59,hermaphrodite,N7,2024-01-01"
    (tmp_path / "a.csv").write_text("\n".join(["age (y),sex,name,seen", *rows]))
    draft = draft_schema(tmp_path / "a.csv")
    assert draft.schema.columns == (
        Column("age (y)", 1, 49, "y"),
        Column("sex", levels=("f", "m")),
    )
    assert {*draft.left_out} == {*draft.schema.ignore} == {"name", "seen"}
    assert "dates" in draft.left_out["seen"]


@pytest.mark.parametrize(
    ("other", "label", "said"),
    [
        (Column("size", 0, 9, "cm"), "label", "in cm and in mm"),
        (
            Column("size", levels=("large", "small")),
            "label",
            "number in draft 1 and a category in draft 2",
        ),
        (Column("weight", 0, 9), "label", "no column is in every schema"),
        (Column("size", 0, 9), "dx", "the column of labels is 'dx' and 'label'"),
    ],
)
def test_drafts_that_contradict_each_other_do_not_merge(other, label, said):
    with pytest.raises(SettingsError, match=said):
        merge_schemas([Schema((SCHEMA.columns[2],)), Schema((other,), label_column=label)])


@pytest.mark.parametrize("high", ["1" + "0" * 400, "nan", "true", "'9'", "2024-01-01"])
def test_schema_range_must_be_finite(tmp_path, high):
    (tmp_path / "schema.toml").write_text(f"[columns.age]\nlow = 0\nhigh = {high}\n")
    with pytest.raises(
        SettingsError, match=r"schema.toml: column 'age'.*(finite|expected a) number"
    ):
        Schema.read(tmp_path / "schema.toml")


@pytest.mark.parametrize("text", ["missing = 'NA'", "ignore = 'name'", "classes = 'ab'", ""])
def test_schema_lists_refuse_a_single_text(tmp_path, text):
    column = "low = 0\nhigh = 1" if text else "levels = 'fm'"
    (tmp_path / "schema.toml").write_text(f"{text}\n[columns.age]\n{column}\n")
    with pytest.raises(SettingsError, match=r"expected a list: \[\.\.\.\]"):
        Schema.read(tmp_path / "schema.toml")


def test_a_schema_and_its_encoder_can_be_inspected(safle, tmp_path):
    SCHEMA.save(tmp_path / "s.toml")
    make_encoder(of_schema(SCHEMA), "table").save(tmp_path / "e.safetensors")
    for name, kind in {"s.toml": "schema", "e.safetensors": "encoder"}.items():
        said = safle("inspect", tmp_path / name)
        assert f"{name}: {kind}" in said
        assert "0 to 90 mm" in said


@pytest.mark.parametrize("levels", [1, 2, 3, 5])
def test_categories_of_few_levels_alone_can_be_counted(levels):
    names = tuple("abcde"[:levels])
    encoder = make_encoder(
        of_schema(Schema((Column("x", levels=names), Column("y", levels=names)))), "table"
    )
    features = np.array([[0, np.nan], [levels - 1, 0], [np.nan, levels - 1]])
    expected = [[1, 0], [levels, 1], [0, levels]]
    assert encoder.encode(features).symbols.tolist() == expected
    assert count(encoder, features, [0, 1, 0]).sample_count == 3


def test_a_merge_keeps_what_one_site_lacks_and_that_site_has_gaps(safle, tmp_path):
    rows = [f"{at},{at % 7},{'ill' if at % 2 else 'well'}" for at in range(60)]
    empty = [f"{at},,{'ill' if at % 2 else 'well'}" for at in range(60)]
    tables = {
        "a": ["age,dose,outcome", *rows],
        "b": ["age,outcome", *(row.split(",")[0] + "," + row.split(",")[2] for row in rows)],
        "c": ["age,dose,outcome", *empty],
    }
    for name, lines in tables.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
        draft = ("schema", "draft", tmp_path / f"{name}.csv", "--label-column", "outcome")
        said = safle(*draft, "-o", tmp_path / f"{name}.toml")
    assert "column 'dose' is left out: it has a value in fewer than 10 samples" in said
    drafts = [tmp_path / f"{name}.toml" for name in tables]
    merged = tmp_path / "schema.toml"
    assert "'dose' is not in every table" in safle("schema", "merge", *drafts, "-o", merged)
    schema = Schema.read(merged)
    assert schema.names == ("age", "dose")
    assert (schema.label_column, schema.ignore) == ("outcome", ())
    with pytest.warns(SafleWarning, match="no column dose"):
        lacking = np.asarray(open_table(tmp_path / "b.csv", schema=schema).features)
    assert np.isnan(lacking[:, 1]).all()
    np.testing.assert_array_equal(
        lacking, np.asarray(open_table(tmp_path / "c.csv", schema=schema).features)
    )
    (tmp_path / "d.csv").write_text("dose,outcome\n1,ill\n")
    with pytest.raises(TableError, match="missing columns: age"):
        open_table(tmp_path / "d.csv", schema=schema)


@pytest.mark.parametrize("least", [5, 20])
def test_a_draft_is_counted_by_its_own_table(safle, tmp_path, least):
    """Rare levels, and the ends of ranges that stay unnamed, are no sign of another spelling."""
    wards = [f"w{at}" if at < 30 else "abc"[at % 3] for at in range(120)]
    rows = [f"{at},{ward},{'ill' if at % 2 else 'well'}" for at, ward in enumerate(wards)]
    (tmp_path / "a.csv").write_text("\n".join(["age,ward,label", *rows]))
    draft = ("schema", "draft", tmp_path / "a.csv", "--least", least)
    safle(*draft, "-o", tmp_path / "a.toml")
    schema = Schema.read(tmp_path / "a.toml")
    assert schema.columns[1] == Column("ward", levels=("a", "b", "c"), others=least == 5)
    merged, _ = merge_schemas([Schema((schema.columns[1],)), schema])
    assert (merged.columns[1].others, merged.least) == (least == 5, least)
    safle("encoder", "make", "--schema", tmp_path / "a.toml", "-o", tmp_path / "e.safetensors")
    count = ("count", tmp_path / "a.csv", "--encoder", tmp_path / "e.safetensors")
    safle(*count, "-o", tmp_path / "a.stats")


def test_a_draft_says_which_samples_its_count_refuses(tmp_path):
    rows = [*["1,ill"] * 9, *["2,well"] * 9, *["3,odd"] * 2]
    (tmp_path / "a.csv").write_text("\n".join(["age,label", *rows]))
    with pytest.warns(SafleWarning, match="fewer than 5 samples .* refuses their 2 samples"):
        assert draft_schema(tmp_path / "a.csv").schema.classes == ("ill", "well")


def write_columns(path, **columns):
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]))
    return path


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (range(3, 63), "an identifier? --id NAME"),
        ([20200131 + at % 20 * 10_000 for at in range(60)], "are they dates?"),
        (["1.320", "2.045", "870"] * 20, "thousands separators?"),
        (["+", "-", "-"] * 20, "is it a copy of the label? --ignore NAME"),
        (["0", "1", "1"] * 20, "a copy of the label?"),
        (["+", "-", "NA"] * 20, "a copy of the label?"),
        ([17, 4, 11] * 20, "a copy of the label?"),
        ([1.32, 2.045, 870] * 20, "a copy of the label?"),
        ([at * 7 % 60 for at in range(60)], ""),
        (["0.320", "2.045", "870", "4"] * 15, ""),
        (["+", "-", "-", "+"] * 15, ""),
        (
            [*[1, 2, 3] * 18, *[">10"] * 2, *["unknown"] * 4],
            "is a category in the draft, but has numbers in all but 6 of its 60 cells",
        ),
        ([*[1, 2] * 25, *["many", "none"] * 5], ""),
    ],
)
def test_a_draft_doubts_what_is_hardly_a_feature(safle, tmp_path, cells, said):
    age = [20 + at * 7 % 30 for at in range(60)]
    table = write_columns(tmp_path / "a.csv", x=cells, age=age, label=["ill", "well", "well"] * 20)
    out = safle("schema", "draft", table, "-o", tmp_path / "a.toml")
    assert "x" in Schema.read(tmp_path / "a.toml").names
    warned = [line for line in out.splitlines() if line.startswith("warning: column")]
    assert len(warned) == bool(said)
    assert all(said in line and "'x'" in line for line in warned)


def test_draft_refuses_a_table_without_features_with_reasons(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age,sex,label\n")
    with pytest.raises(TableError, match=r"a.csv: has no samples"):
        draft_schema(path)
    path.write_text("age,sex,label\n" + "61,f,ill\n" * 2)
    with pytest.raises(TableError, match=r"a feature; 'age' has a value .*, 'sex' has [^{}]*$"):
        draft_schema(path)


def test_a_draft_says_which_column_a_few_texts_keep_out(safle, tmp_path):
    dose = [*(at * 7 % 141 for at in range(141)), *["unknown"] * 3]
    columns = {"dose": dose, "age": [*range(30, 78)] * 3, "label": ["ill", "well"] * 72}
    table = write_columns(tmp_path / "a.csv", **columns)
    draft = ("schema", "draft", table, "--force", "-o", tmp_path / "a.toml")
    out = safle(*draft)
    assert "'dose' is left out: it has numbers in all but 3 of its 144 cells" in out
    assert "more than 100 different texts" in safle(*draft, "--category", "dose")


def test_a_column_of_two_types_has_a_next_step(safle, tmp_path):
    """A few texts make a column a category; --category says that it is meant."""
    paths = [tmp_path / "a.toml", tmp_path / "b.toml"]
    for path, more in zip(paths, (4, "unknown"), strict=True):
        columns = {"nodes": [*[1, 2, 3] * 18, *[more] * 6], "label": ["ill", "well"] * 30}
        table = write_columns(tmp_path / "a.csv", **columns)
        safle("schema", "draft", table, "-o", path)
    merge = ("schema", "merge", *paths, "-o", tmp_path / "all.toml")
    refused = safle(*merge, code=1)
    assert f"'nodes' is a number in {paths[0]} and a category in {paths[1]}" in refused
    meant = safle("schema", "draft", table, "--category", "nodes", "-o", tmp_path / "c.toml")
    assert "column 'nodes'" not in meant
    # What the refusal advises.
    text = paths[1].read_text().replace('levels = ["1", "2", "3", "unknown"]', "low = 1\nhigh = 4")
    paths[1].write_text(text.replace('missing = ["",', 'missing = ["", "unknown",'))
    safle(*merge)
    values = np.asarray(open_table(table, schema=Schema.read(tmp_path / "all.toml")).features)
    assert np.isnan(values[-6:]).all()


def test_a_merge_names_the_draft_in_another_unit(safle, tmp_path):
    paths = []
    for at, high in enumerate((10, 12, 9, 0.011)):
        paths.append(tmp_path / f"{at}.toml")
        Schema((Column("kappa", 0, high), Column("age", 20, 80 - 3 * at))).save(paths[-1])
    out = safle("schema", "merge", *paths[:3], "--force", "-o", tmp_path / "all.toml")
    assert "unit" not in out
    out = safle("schema", "merge", *paths, "--force", "-o", tmp_path / "all.toml", code=1)
    expected = (
        f"column 'kappa': {paths[3]} says 0 to 0.011, unlike {paths[0]} (0 to 10) and most other "
        "drafts: are they in the same unit?"
    )
    assert expected in out
    assert out.count("unit?") == 1


@pytest.mark.parametrize(
    ("low", "high", "suspect"),
    [
        (340, 1010, True),
        (100, 180, True),
        (0, 450, True),
        (0, 400, True),
        (10, 400, False),
        (81, 120, False),
        (45, 60, False),
    ],
    ids=["months", "elsewhere", "wide", "from-zero", "less-wide", "adjacent", "within"],
)
def test_merge_compares_two_drafts(safle, tmp_path, low, high, suspect):
    paths = [tmp_path / "a.toml", tmp_path / "c.toml"]
    for path, ends in zip(paths, [(29, 81), (low, high)], strict=True):
        Schema((Column("age", *ends), Column("sex", levels=("f", "m")))).save(path)
    out = safle("schema", "merge", *paths, "-o", tmp_path / "all.toml", code=int(suspect))
    said = f"column 'age': {paths[0]} says 29 to 81, unlike {paths[1]} ({low} to {high}): are they"
    assert (said in out) == suspect
    assert out.count("unit?") == suspect


def test_a_schema_with_levels_says_how_its_sums_are_published(safle, tmp_path):
    Schema((Column("age", 0, 90), Column("sex", levels=("f", "m")))).save(tmp_path / "s.toml")
    made = tmp_path / "e.safetensors"
    words = ("encoder", "make", "--schema", tmp_path / "s.toml", "--force", "-o", made)
    refused = safle(*words, "--publishable", code=2)
    instead = ("--kind", "table", "--norm-clip", "1", "--units", "1")
    assert " ".join(instead) in " ".join(refused.replace("│", "").split())
    out = safle(*words, *instead)
    assert Sensitivity.of(Encoder.from_bytes(made.read_bytes()).layout).gram > 0
    assert "no classes were found in a column 'label'" in out
    assert "no classes" not in safle(*words, "--only-classes", "ill,well")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Age ", "is 'Age' meant to be 'age'? Rename it"),
        ("years", "rename it, or declare it optional in the schema and make the encoder again"),
    ],
)
def test_a_missing_column_has_a_next_step(safle, tmp_path, name, said):
    encoder = tmp_path / "e.safetensors"
    make_encoder(of_schema(Schema((Column("age", 0, 90), Column("dose", 0, 9)))), "table").save(
        encoder
    )
    table = write_columns(
        tmp_path / "a.csv", **{name: [50] * 9, "dose": [*range(9)], "label": ["ill"] * 9}
    )
    out = safle("count", table, "--encoder", encoder, "-o", tmp_path / "a.stats", code=1)
    assert said in out


def test_schema_read_refuses_a_table_with_a_next_step(safle, tmp_path, table):
    SCHEMA.save(tmp_path / "a.toml")
    out = safle("schema", "merge", tmp_path / "a.toml", table, "-o", tmp_path / "s.toml", code=1)
    assert f"{table}: it looks like a table; expected a schema, a .toml file: 'safle schema" in out


def test_a_text_among_numbers_has_a_next_step(safle, tmp_path):
    encoder = tmp_path / "e.safetensors"
    make_encoder(of_schema(Schema((Column("age", 0, 90), Column("dose", 0, 9)))), "table").save(
        encoder
    )
    table = write_columns(tmp_path / "a.csv", age=[50] * 3, dose=[1, "lost", 2], label=["ill"] * 3)
    out = safle("count", table, "--encoder", encoder, "-o", tmp_path / "a.stats", code=1)
    assert "line 3, column 'dose' is not a number; expected one: correct or empty it, or, if" in out
    assert "add the text to 'missing' in the schema" in out
    assert "--label-column" not in out
    assert "lost" not in out


def test_a_thousands_separator_has_a_next_step(safle, tmp_path):
    encoder = tmp_path / "e.safetensors"
    make_encoder(of_schema(Schema((Column("age", 0, 90), Column("dose", 0, 9000)))), "table").save(
        encoder
    )
    table = tmp_path / "a.csv"
    table.write_text('age,dose,label\n50,"1,320",ill\n51,1.5,well\n')
    out = safle("count", table, "--encoder", encoder, "-o", tmp_path / "a.stats", code=1)
    assert "a decimal comma or a thousands separator: write 1.320 or 1320" in out
