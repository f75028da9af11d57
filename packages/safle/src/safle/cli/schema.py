"""``safle schema``: clients draft what the columns of their tables are; the operator merges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.facts import show_schema, warn_of_no_classes
from safle.cli.session import Session, command, examples
from safle.tables.drafting import draft_schema
from safle.tables.merging import merge_schemas
from safle.tables.points import find_points, settle
from safle.tables.schema import LABEL_COLUMN, Schema

EXAMPLES = (
    "safle schema draft hospital_a.csv --id patient -o a.toml",
    "safle schema merge a.toml b.toml c.toml -o schema.toml",
    "safle encoder make --schema schema.toml -o encoder.safetensors",
)
LEAST = "Leave out levels and classes of fewer samples, and ranges that fewer samples set."
MARKS = "A mark of missing values: -9 in all columns, chol=0 in one."
ACCEPT = "A reported point, such as units:age, that is right as it is."


@click.group(epilog=examples(*EXAMPLES))
def schema() -> None:
    """Say what the columns of a table are: numbers, categories, gaps, units.

    Every client drafts a schema of its own table, looks at it, and sends it to the operator. The
    operator merges the drafts and makes an encoder of kind table with the result. From then on it
    decides how every client's tables are read.
    """


@command(*EXAMPLES, of=schema)
@click.argument("table", type=opt.FILE, help="A .csv or .parquet table.")
@opt.column_options("label")
@opt.names_option("--category categories", "Categories that look like numbers.")
@opt.option("--missing", MARKS, "MARK", multiple=True)
@opt.option("--least", LEAST, "N", type=opt.COUNT, default=5)
@opt.output("The schema to write, a .toml file: look at it before it leaves the house.")
def draft(session: Session, /, table: Path, output: Path, **options: Any) -> None:
    """Draft a schema from a client's table; it contains no value of few samples.

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
@opt.option("--accept", ACCEPT, "POINT", multiple=True)
@opt.output("The schema to write, a .toml file; it may be changed by hand.")
def merge(
    session: Session, /, drafts: tuple[Path, ...], accept: tuple[str, ...], output: Path
) -> None:
    """Merge drafts into one schema that fits the tables of all.

    Ranges are the union of all ranges, and levels and classes those of any draft. A column that
    some tables lack becomes optional: its values there are missing. Two units or two types of one
    column are refused.

    Where drafts seem to mean different things (other units, levels, names, marks of missing
    values), nothing is written until each point is corrected, or accepted with --accept.
    """
    schemas = [Schema.read(path) for path in drafts]
    sources = [str(path) for path in drafts]
    # Before any error: all findings are shown at once, so that all can be mended at once.
    for name, text in find_points(dict(zip(sources, schemas, strict=True))):
        session.warn(f"{name}: {text}")
    merged, points = merge_schemas(schemas, sources)
    settle(points, accept)
    merged.save(output, [f"accepted {name}: {text}" for name, text in points])
    show_schema(session, output, merged, None)
    for column in merged.columns:
        if column.optional:
            session.warn(f"column {column.name!r} is not in every table: others have gaps there")
