"""``safle schema``: what the columns of mixed tables are; drafted by clients, merged by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.facts import show_schema
from safle.cli.session import Session, command, examples
from safle.encoders.features import near_duplicates
from safle.encoders.schema import LABEL_COLUMN, Schema, merge_schemas
from safle.tables.drafting import draft_schema

EXAMPLES = (
    "safle schema draft hospital_a.csv --id patient -o a.toml",
    "safle schema merge a.toml b.toml c.toml -o schema.toml",
    "safle encoder make --schema schema.toml -o encoder.safetensors",
)
MOST_WIDER = 8
"""Times that a range may be wider or narrower than the others': two hospitals differ by less."""
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
    found = draft_schema(table, **options)
    found.schema.save(output)
    show_schema(session, output, found.schema, found.gaps)
    if not found.schema.classes:
        session.warn(warn_no_classes(options["label_column"]))
    for name, why in found.left_out.items():
        session.warn(f"column {name!r} is left out: it {why}")
    for name, doubt in found.doubts.items():
        session.warn(f"column {name!r} {doubt}")


def warn_no_classes(label_column: str) -> str:
    """What is said of a schema without classes."""
    return (
        f"no classes were found in a column {label_column!r}; if another column is the diagnosis, "
        "it is taken for a feature: draft again with --label-column NAME"
    )


@command(*EXAMPLES, of=schema)
@click.argument("drafts", type=opt.FILE, nargs=-1, required=True, help="Schemas to merge.")
@opt.output("The schema to write, a .toml file; it may be changed by hand.", "schema")
def merge(session: Session, /, drafts: tuple[Path, ...], output: Path) -> None:
    """Merge drafts into one schema that fits the tables of all.

    Ranges reach as far as any, and levels and classes are those of any. A column that not all
    have is optional: who lacks it has gaps. Two units or two types of one column are refused.
    """
    read = [Schema.read(path) for path in drafts]
    merged = merge_schemas(read)
    merged.save(output)
    show_schema(session, output, merged, None)
    for name in sorted({n for each in read for n in each.names} - {*merged.names}):
        session.warn(f"column {name!r} is left out: one of the schemas ignores it")
    for text in _other_widths(dict(zip(drafts, read, strict=True)), merged):
        session.warn(text)
    for column in merged.columns:
        if column.optional:
            session.warn(f"column {column.name!r} is not in every table: who lacks it has gaps")
    for column in merged.columns:
        for alike in near_duplicates(column.levels):
            session.warn(
                f"column {column.name!r}: levels {alike} differ in case or spaces only; write them "
                "one way everywhere"
            )


def _other_widths(drafts: Mapping[Path, Schema], merged: Schema) -> Iterator[str]:
    """Numbers whose range is so much wider or narrower in a draft that the unit must be another."""
    for name in merged.names:
        columns = {path: c for path, each in drafts.items() for c in each.columns if c.name == name}
        widths = {path: c.high - c.low for path, c in columns.items() if not c.is_category}
        for path, width in widths.items():
            usual = median(widths.values())
            if not usual / MOST_WIDER <= width <= usual * MOST_WIDER:
                yield (
                    f"column {name!r}: {path} says {columns[path].text}, {width / usual:.2g} times "
                    "as wide as the drafts' median: is it in the same unit?"
                )
