"""What a merge finds in the drafts of four hospitals, and does not write before it is settled."""

from __future__ import annotations

import os
import shlex
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from safle import Column, Schema, draft_schema, merge_schemas, open_table
from safle.errors import SafleWarning, SettingsError
from safle.tables.column_files import read_csv
from safle.tables.doubts import find_lone
from safle.tables.points import RULES, settle

SITES = "abcd"
ROWS = 120
REAL_TABLES = Path(os.environ.get("SAFLE_BENCH_TABLES", "nowhere"))
"""The folder of the benchmark `tables`, if there is one."""


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make_hospital(number: int) -> pl.DataFrame:
    """The patients of one of four hospitals that measure and write alike."""
    generator = np.random.default_rng(number)
    return pl.DataFrame(
        {
            "age": generator.integers(25, 86, ROWS),
            "sex": generator.choice(["F", "M"], ROWS),
            "smoker": generator.integers(0, 2, ROWS),
            "chol": generator.normal(240, 45, ROWS).round().clip(120, 420),
            "creatinine": generator.uniform(0.6, 1.6, ROWS).round(2),
            "nodes": generator.geometric(0.3, ROWS) - 1,
            "Death": generator.choice(["alive", "dead"], ROWS),
            "height": generator.normal(170, 9, ROWS).round(),
            "nyha": generator.integers(1, 5, ROWS),
            "grade": generator.choice(["low", "mid", "high"], ROWS),
        }
    )


def recode(column, **levels):
    return lambda frame: frame.with_columns(pl.col(column).replace(levels))


def rename(old, new):
    return lambda frame: frame.rename({old: new})


def scale(column, factor):
    return lambda frame: frame.with_columns((pl.col(column) * factor).round(2))


def put(column, value, cells):
    """Write ``value`` into the first ``cells`` of a column."""
    numbered = pl.int_range(pl.len()) < cells
    chosen = pl.when(numbered).then(pl.lit(value)).otherwise(pl.col(column))
    return lambda frame: frame.with_columns(chosen.alias(column))


def put_scale(column, factor):
    """Half of the rows in another unit."""
    half = pl.when(pl.int_range(pl.len()) % 2 == 0).then(factor).otherwise(1)
    return lambda frame: frame.with_columns((pl.col(column) * half).round(2))


GERMAN = {"F": "weiblich", "M": "männlich"}
ENGLISH = {"F": "female", "M": "male"}
DIGITS = {"F": "2", "M": "1"}
TRAPS = {
    "levels": ({"c": recode("sex", **GERMAN)}, "levels:sex", "'männlich', 'weiblich' in c.toml"),
    "three languages": (
        {"b": recode("sex", **DIGITS), "c": recode("sex", **GERMAN), "d": recode("sex", **ENGLISH)},
        "levels:sex",
        "'1', '2' in b.toml",
    ),
    "half of the levels": ({"c": recode("sex", F="W")}, "levels:sex", "'M', 'W' in c.toml"),
    "capitals": ({"b": recode("sex", M="m", F="f")}, "levels:sex", "'M' and 'm' differ in case"),
    "codes": (
        {"d": lambda frame: frame.with_columns(pl.col("smoker") + 1)},
        "levels:smoker",
        "1 to 2 in d.toml",
    ),
    "name's unit": (
        {"a": rename("creatinine", "Creatinine (mg/dL)")},
        "names:creatinine",
        "'Creatinine (mg/dL)' in a.toml and 'creatinine' in b.toml, c.toml, d.toml",
    ),
    "name's unit without brackets": (
        {"a": rename("creatinine", "creatinine_mg_dl"), "b": rename("creatinine", "creatinine, %")},
        "names:creatinine",
        "'creatinine_mg_dl' in a.toml",
    ),
    "name's case": ({"c": rename("age", "Age")}, "names:age", "'Age' in c.toml"),
    "name's blanks": ({"b": rename("smoker", "smo ker")}, "names:smoker", "'smo ker' in b.toml"),
    "classes' case": (
        {"d": recode("Death", alive="Alive ", dead="Dead")},
        "classes",
        "'Alive' and 'alive' differ in case or spaces only (d.toml, a.toml)",
    ),
    "other classes": (
        {"b": recode("Death", alive="no", dead="yes")},
        "classes",
        "'no', 'yes' in b.toml",
    ),
    **{
        f"times {factor}": ({"c": scale("creatinine", factor)}, "units:creatinine", "c.toml says")
        for factor in (10, 12, 18, 88.4, 1000, 0.1, 0.01)
    },
    "months": ({"b": scale("age", 12)}, "units:age", "b.toml says"),
    "dates": (
        {"b": lambda frame: frame.with_columns(pl.lit("2020-01-31").alias("age"))},
        "ignored:age",
        "b.toml ignores it",
    ),
    "two units in one file": (
        {"d": put_scale("creatinine", 88.4)},
        "units:creatinine",
        "d.toml says",
    ),
    "two units of one magnitude in one file": (
        {"d": put_scale("chol", 1 / 38.67)},
        "units:chol",
        "d.toml says 0 to",
    ),
    "-1 among codes": (
        {"c": put("smoker", -1, 8)},
        "missing:smoker",
        "c.toml goes down to -1",
    ),
    "two units that nearly touch": (
        {"d": put_scale("height", 1 / 2.54)},
        "units:height",
        "d.toml says",
    ),
    "codes that touch": (
        {"d": lambda frame: frame.with_columns(pl.col("nyha").replace({1: 4, 2: 6, 3: 7, 4: 9}))},
        "levels:nyha",
        "4 to 9 in d.toml",
    ),
    "a number among words": ({"b": put("grade", "9", 8)}, "missing:grade", "'9' among words"),
    "a dash among words": ({"b": put("grade", "-", 8)}, "missing:grade", "'-' among words"),
    "counted in tens": ({"d": scale("nodes", 10)}, "units:nodes", "d.toml says 0 to"),
    "below zero": (
        {"a": lambda frame: frame.with_columns(pl.col("creatinine") - 1)},
        "missing:creatinine",
        "a.toml goes down to -0.",
    ),
    **{
        f"{cells} times {mark} for {column}": (
            {"c": put(column, mark, cells)},
            f"missing:{column}",
            f"{mark if cells > 4 else 'a number in a few cells'} in c.toml, far from all",
        )
        for column, mark, cells in [
            ("age", -9, 8),
            ("age", -9, 2),
            ("age", -1, 8),
            ("age", 999, 8),
            ("age", 99, 8),
            ("age", 999, 3),
            ("nodes", 99, 8),
            ("chol", 0, 12),
            ("chol", 9999, 6),
            ("smoker", 9, 8),
        ]
    },
}


def draft(safle, folder, changes, **options):
    """Write the four hospitals' files, each changed as ``changes`` says, and draft each one."""
    said = {}
    for number, site in enumerate(SITES):
        frame = changes.get(site, lambda frame: frame)(make_hospital(number))
        frame.write_csv(folder / f"{site}.csv")
        words = ["schema", "draft", f"{site}.csv", "--label-column", "Death"]
        # Where codes are digits, their hospital has to say that they are levels.
        words += ["--category", "sex", *options.get(site, [])]
        said[site] = safle(*words, "--force", "-o", f"{site}.toml")
    return said


MERGE = ("schema", "merge", *(f"{site}.toml" for site in SITES), "-o", "all.toml")


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_stops_the_merge_until_its_point_is_accepted(safle, tmp_path, trap):
    changes, point, expected = TRAPS[trap]
    draft(safle, tmp_path, changes)
    said = safle(*MERGE, code=1)
    assert f"warning: {point}: " in said
    assert expected in said
    asked = shlex.split(said[said.index("--accept", said.index("error:")) :])
    # A mark that widens the range is a doubt about its unit, too.
    assert point in asked[1::2]
    assert {asked_for.partition(":")[2] for asked_for in asked[1::2]} == {point.partition(":")[2]}
    assert not (tmp_path / "all.toml").exists()
    safle(*MERGE, *asked)
    accepted = comments_of(tmp_path / "all.toml")
    assert any(line.startswith(f"# accepted {point}: ") and expected in line for line in accepted)
    assert not any(column.lone for column in Schema.read(tmp_path / "all.toml").columns)


def comments_of(path):
    return [line for line in path.read_text().splitlines() if line.startswith("#")]


def test_four_hospitals_that_write_alike_are_merged_without_a_word(safle, tmp_path):
    said = draft(safle, tmp_path, {})
    assert "warning" not in "".join(said.values()) + safle(*MERGE)
    assert "#" not in (tmp_path / "all.toml").read_text()


def test_several_points_are_accepted_one_by_one_and_no_others(safle, tmp_path):
    draft(safle, tmp_path, {"c": recode("sex", **GERMAN), "d": scale("age", 12)})
    some = safle(*MERGE, "--accept", "levels:sex", code=1)
    assert "1 point is open, so nothing is written" in some
    assert some.rstrip().endswith("--accept levels:sex --accept units:age")
    both = ("--accept", "levels:sex", "--accept", "units:age")
    unknown = safle(*MERGE, *both, "--accept", "units:chol", code=1)
    assert (
        "--accept units:chol is not a point that was found; found were: 'units:age', 'levels:sex'"
        in unknown
    )
    assert not (tmp_path / "all.toml").exists()
    safle(*MERGE, *both)
    accepted = [line.split(": ")[0] for line in comments_of(tmp_path / "all.toml")]
    assert accepted == ["# accepted units:age", "# accepted levels:sex"]


def test_a_unit_that_one_draft_states_is_named(safle, tmp_path):
    draft(safle, tmp_path, {})
    text = (tmp_path / "b.toml").read_text()
    (tmp_path / "b.toml").write_text(
        text.replace('[columns."age"]', '[columns."age"]\nunit = "years"')
    )
    said = safle(*MERGE, code=1)
    assert "units:age: column 'age': the unit years is stated in b.toml only, not in a.toml" in said


def test_mark_of_missing_values_is_found_and_corrected_at_its_hospital(safle, tmp_path):
    changes = {"c": put("chol", 0, 12)}
    said = draft(safle, tmp_path, changes)
    assert "'chol' has 12 cells of 0, far from all others" in said["c"]
    assert "draft again with --missing chol=0" in said["c"]
    draft(safle, tmp_path, changes, c=["--missing", "chol=0"])
    assert "warning" not in safle(*MERGE)
    schema = Schema.read(tmp_path / "all.toml")
    by_name = {column.name: column for column in schema.columns}
    assert by_name["chol"].missing == ("0",)
    assert by_name["chol"].low > 100
    table = open_table(tmp_path / "c.csv", schema=schema)
    features = dict(zip(table.names, np.asarray(table.features).T, strict=True))
    assert np.isnan(features["chol"]).sum() == 12
    # It is a mark in its column alone.
    assert (features["smoker"] == 0).any()


def test_a_draft_names_no_number_of_few_samples(safle, tmp_path):
    draft(safle, tmp_path, {"c": put("age", 999, 4)})
    text = (tmp_path / "c.toml").read_text()
    assert 'lone = ["rare"]' in text
    assert "999" not in text
    draft(safle, tmp_path, {"c": put("age", 999, 5)})
    assert 'lone = ["999"]' in (tmp_path / "c.toml").read_text()


def test_a_mark_that_is_a_value_elsewhere_is_named(safle, tmp_path):
    draft(safle, tmp_path, {"b": put("nodes", 3, 9)}, b=["--missing", "nodes=3"])
    said = safle(*MERGE, code=1)
    assert "missing:nodes: column 'nodes': b.toml takes 3 for a missing value, but a.toml" in said


def test_classes_of_two_types_name_their_files(safle, tmp_path):
    draft(safle, tmp_path, {"c": recode("Death", alive="0", dead="1")})
    said = safle(*MERGE, code=1)
    assert "0, 1 in c.toml" in said
    assert "'alive', 'dead' in" in said


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([Column("x", 0, 9), Column("x", levels=("1", "2"))], ("number in a.toml", "in b.toml")),
        ([Column("x", 0, 9, "m"), Column("x", 0, 9, "km")], ("m in a.toml", "km in b.toml")),
        ([Column("x", 0, 9), Column("y", 0, 9)], ("a.toml has 'x'", "b.toml has 'y'")),
    ],
    ids=["types", "units", "columns"],
)
def test_a_contradiction_names_its_files_and_cannot_be_accepted(columns, words):
    drafts = [Schema((column,)) for column in columns]
    with pytest.raises(SettingsError) as refused:
        merge_schemas(drafts, ["a.toml", "b.toml"])
    assert all(word in str(refused.value) for word in words)


def test_labels_in_two_columns_name_their_files():
    drafts = [Schema((Column("x", 0, 9),), label_column=name) for name in ("dx", "outcome")]
    with pytest.raises(SettingsError, match=r"'dx' in a.toml, 'outcome' in b.toml"):
        merge_schemas(drafts, ["a.toml", "b.toml"])
    with pytest.raises(SettingsError, match="expected at least one, and each once"):
        merge_schemas(drafts, ["a.toml", "a.toml"])


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 0.11), (0, 0.09), (0.001, 0.08), (0.021, 0.081)],
        [(0.001, 0.029), (0.004, 0.02), (0.004, 0.017), (0.004, 0.018)],
    ],
)
def test_merge_accepts_small_values_that_begin_elsewhere(ranges):
    """The guide's hospitals: with few samples, the smallest of them are not as small."""
    drafts = [Schema((Column("depth", low, high),)) for low, high in ranges]
    assert merge_schemas(drafts)[1] == []


def test_merge_accepts_a_site_with_one_class():
    drafts = [
        Schema((Column("x", 0, 9),), classes=classes)
        for classes in [("ill",), ("well",), ("ill", "well"), ()]
    ]
    assert merge_schemas(drafts)[1] == []


def test_a_point_is_settled_by_its_name_alone():
    drafts = [Schema((Column("age", *ends),)) for ends in [(20, 80), (240, 960)]]
    points = merge_schemas(drafts)[1]
    with pytest.raises(SettingsError, match="--accept units:age"):
        settle(points, [])
    settle(points, ["units:age"])
    assert {kind for kind, _, _ in RULES} == {"levels", "units", "missing"}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rows", [60, 400])
def test_random_parts_of_one_table_are_merged_without_a_word(seed, rows):
    """Continuous, skewed, counted, coded and rare columns."""
    generator = np.random.default_rng(seed)
    size = 4 * rows
    frame = pl.DataFrame(
        {
            "normal": generator.normal(0, 1, size),
            "shifted": generator.normal(130, 20, size).round(),
            "skewed": generator.lognormal(0, 1.2, size).round(3),
            "counted": generator.poisson(1.2, size),
            "rare": generator.binomial(1, 0.1, size),
            "inflated": generator.exponential(40, size).round() * generator.integers(0, 2, size),
            "stage": generator.integers(1, 5, size),
            "region": generator.choice([f"r{n}" for n in range(20)], size, p=zipf(20)),
            "race": generator.choice(["white", "black", "asian"], size, p=[0.8, 0.12, 0.08]),
        }
    )
    assert merge_random_parts(frame, generator.choice(["ill", "well"], size), seed) == []


def zipf(count):
    weights = 1 / np.arange(1, count + 1)
    return weights / weights.sum()


def merge_random_parts(frame, labels, seed):
    owners = np.random.default_rng(seed).integers(0, 4, len(frame))
    drafts = []
    for owner in range(4):
        part = frame.filter(pl.Series(owners == owner))
        drafts.append(draft_schema(part, labels[owners == owner]).schema)
    return merge_schemas(drafts)[1]


REAL = ("acath", "colon", "datadivat1", "flchain", "framingham", "heartvalve", "nwtco", "oldmort")


@pytest.mark.skipif(not REAL_TABLES.is_dir(), reason="needs the tables of the benchmarks")
@pytest.mark.parametrize("name", [*REAL, "rott2", "heart/cleveland", "heart/hungarian"])
def test_random_parts_of_a_real_table_are_merged_without_a_word(name):
    frame = read_csv(REAL_TABLES / f"{name}.csv").frame
    label = frame.columns[-1]
    for seed in range(3):
        assert merge_random_parts(frame.drop(label), frame[label].to_numpy(), seed) == []


@pytest.mark.skipif(not REAL_TABLES.is_dir(), reason="needs the tables of the benchmarks")
def test_four_real_hospitals_differ_in_marks_of_missing_values_and_below_zero():
    sites = [REAL_TABLES / "heart" / f"{name}.csv" for name in HEART]
    drafts = [draft_schema(path, label_column="num").schema for path in sites]
    points = merge_schemas(drafts, HEART)[1]
    assert [name for name, _ in points] == ["missing:chol", "missing:oldpeak", "missing:trestbps"]
    chol, below, pressure = [text for _, text in points]
    assert all(" in va, far from all other" in text for text in (chol, pressure))
    assert "switzerland goes down to -1" in below


HEART = ("cleveland", "hungarian", "switzerland", "va")


@pytest.mark.parametrize("sign", [1, -1])
def test_lone_numbers_are_found_at_both_ends(sign):
    ages = np.repeat(np.arange(20.0, 90.0), 3)
    marked = sign * np.concatenate([ages, [777.0] * 6, [888.0] * 5, [999.0] * 7])
    assert [sign * value for value, _, _ in find_lone(marked, 5)] == [999, 888, 777]
    assert find_lone(sign * ages, 5) == []
    assert find_lone(np.full(50, 9.0), 5) == []


@pytest.mark.parametrize(
    ("delimiter", "mark", "twin", "said"),
    [(",", "-9", "-9.0", True), (";", "-9", "-9,0", True), (",", "-9.0", "-9", True),
     (",", "-9", "-9", False)],
)  # fmt: skip
def test_a_mark_written_as_another_number_is_missing_and_said(
    safle, tmp_path, delimiter, mark, twin, said
):
    cells = [twin if at % 6 == 0 else f"{20 + at}" for at in range(60)]
    rows = [delimiter.join([cell, f"{at % 7}", "ill" if at % 3 else "well"])
            for at, cell in enumerate(cells)]  # fmt: skip
    (tmp_path / "a.csv").write_text("\n".join([delimiter.join(["age", "dose", "label"]), *rows]))
    columns = (Column("age", 20, 80), Column("dose", 0, 6))
    Schema(columns, missing=("NA", mark)).save(tmp_path / "s.toml")
    safle("encoder", "make", "--schema", "s.toml", "-o", "e.safetensors")
    counting = {"count": ("-o", "a.stats"), "rehearse": ()}
    for command, more in counting.items():
        out = safle(command, "a.csv", "--encoder", "e.safetensors", *more)
        expected = "10 cells of 'age' hold the number of a missing mark in another"
        assert out.count(expected) == said
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SafleWarning)
        table = open_table(tmp_path / "a.csv", schema=Schema.read(tmp_path / "s.toml"))
    assert np.isnan(np.asarray(table.features)[:, 0]).sum() == 10


def test_a_frame_of_numbers_has_the_gaps_of_the_same_file(tmp_path):
    frame = pl.DataFrame({"age": [-9, 40, 50], "sex": [9, 1, 2], "label": ["ill", "well", "ill"]})
    schema = Schema((Column("age", 0, 90), Column("sex", levels=("1", "9"))), missing=("-9", "9"))
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    expected = [[np.nan, 1], [40, 0], [50, 2]]
    for suffix in ("csv", "parquet"):
        found = np.asarray(open_table(tmp_path / f"a.{suffix}", schema=schema).features)
        np.testing.assert_array_equal(found, expected)


def test_merge_contradiction_also_names_other_points(safle, tmp_path):
    draft(safle, tmp_path, {"c": recode("Death", alive="0", dead="1"), "d": scale("age", 12)})
    said = safle(*MERGE, code=1)
    assert "warning: units:age: column 'age': d.toml says" in said
    assert "error: classes are" in said
