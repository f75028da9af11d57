"""``safle schema``: clients draft what the columns of their tables are; the operator merges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.facts import show_schema, warn_of_no_classes
from safle.cli.session import Session, command, examples
from safle.encoders.features import near_duplicates
from safle.encoders.schema import LABEL_COLUMN, Column, Schema, merge_schemas
from safle.tables.drafting import draft_schema

EXAMPLES = (
    "safle schema draft hospital_a.csv --id patient -o a.toml",
    "safle schema merge a.toml b.toml c.toml -o schema.toml",
    "safle encoder make --schema schema.toml -o encoder.safetensors",
)
MOST_WIDER = 8
"""A range more than this many times wider than another is suspect: hospitals differ by less."""
LEAST = "Name no level or class that fewer samples have, and no range of fewer."


@click.group(epilog=examples(*EXAMPLES))
def schema() -> None:
    """Say what the columns of a table are: numbers, categories, gaps, units.

    Every client drafts a schema of its own table, looks at it, and sends it to the operator,
    who merges them and makes an encoder of kind table with the result: every client's tables
    are read by it from then on.
    """


@command(*EXAMPLES, of=schema)
@click.argument("table", type=opt.FILE, help="A .csv or .parquet table.")
@opt.column_options("label")
@opt.names_option("--category categories", "Categories that look like numbers.")
@opt.option("--least", LEAST, "N", type=opt.COUNT, default=5)
@opt.output("The schema to write, a .toml file: look at it before it leaves the house.", "schema")
def draft(session: Session, /, table: Path, output: Path, **options: Any) -> None:
    """Draft a schema from a client's table; no value of few samples stands in it.

    A number has its usual range, without the smallest and largest values and rounded outwards;
    a category the levels that are frequent. Dates and free text are left out. Cells may be
    separated by commas, semicolons, tabs or bars.
    """
    options["label_column"] = options["label_column"] or LABEL_COLUMN
    drafted = draft_schema(table, **options)
    drafted.schema.save(output)
    show_schema(session, output, drafted.schema, drafted.gaps)
    if not drafted.schema.classes:
        warn_of_no_classes(session, options["label_column"])
    for name, reason in drafted.left_out.items():
        session.warn(f"column {name!r} is left out: it {reason}")
    for name, doubt in drafted.doubts.items():
        session.warn(f"column {name!r} {doubt}")


@command(*EXAMPLES, of=schema)
@click.argument("drafts", type=opt.FILE, nargs=-1, required=True, help="Schemas to merge.")
@opt.output("The schema to write, a .toml file; it may be changed by hand.", "schema")
def merge(session: Session, /, drafts: tuple[Path, ...], output: Path) -> None:
    """Merge drafts into one schema that fits the tables of all.

    Ranges reach as far as any, and levels and classes are those of any. A column that not all
    have is optional: who lacks it has gaps. Two units or two types of one column are refused.
    """
    schemas = [Schema.read(path) for path in drafts]
    merged = merge_schemas(schemas, [str(path) for path in drafts])
    merged.save(output)
    show_schema(session, output, merged, None)
    drafted_names = {name for schema in schemas for name in schema.names}
    for name in sorted(drafted_names - {*merged.names}):
        session.warn(f"column {name!r} is left out: one of the schemas ignores it")
    for text in _find_other_units(dict(zip(drafts, schemas, strict=True)), merged):
        session.warn(text)
    for column in merged.columns:
        if column.optional:
            session.warn(f"column {column.name!r} is not in every table: who lacks it has gaps")
    for column in merged.columns:
        for spellings in near_duplicates(column.levels):
            session.warn(
                f"column {column.name!r}: levels {spellings} differ in case or spaces only; write "
                "them one way everywhere"
            )


def _find_other_units(drafts: Mapping[Path, Schema], merged: Schema) -> Iterator[str]:
    """Warnings of numbers whose range in one draft is unlike the ranges in most other drafts."""
    for name in merged.names:
        columns = {
            path: column
            for path, schema in drafts.items()
            for column in schema.columns
            if column.name == name and not column.is_category
        }
        named: set[Path] = set()
        for path, column in columns.items():
            unlike = [other for other in columns if _differ_in_unit(column, columns[other])]
            is_suspect = len(unlike) > (len(columns) - 1) / 2
            # Of two drafts, each is unlike the other: one sentence is enough.
            if not is_suspect or path in named:
                continue
            named.add(unlike[0])
            others = " and most other drafts" if len(columns) > 2 else ""
            yield (
                f"column {name!r}: {path} says {column.text}, unlike {unlike[0]} "
                f"({columns[unlike[0]].text}){others}: are they in the same unit?"
            )


def _differ_in_unit(one: Column, other: Column) -> bool:
    """Whether two ranges do not overlap, or one is so much wider that their units may differ."""
    widths = sorted([one.high - one.low, other.high - other.low])
    apart = one.high < other.low or other.high < one.low
    return apart or widths[1] > MOST_WIDER * widths[0]
