"""``safle schema``: what the columns of mixed tables are; drafted by clients, merged by one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from safle.cli import options as opt
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.encoders.schema import Schema

EXAMPLES = (
    "safle schema draft hospital_a.csv --id patient -o a.toml",
    "safle schema merge a.toml b.toml c.toml -o schema.toml",
    "safle encoder make --schema schema.toml -o encoder.safetensors",
)
LEAST = "Name no level or class that fewer samples have, and no range of fewer."


@click.group(panel="Before the round", epilog=opt.examples(*EXAMPLES))
def schema() -> None:
    """Say what the columns of a table are: numbers, categories, gaps, units.

    Every client drafts a schema of its own table, looks at it, and sends it to the operator,
    who merges them and makes an encoder of kind table with the result: every client's tables
    are read by it from then on.
    """


@opt.command(None, *EXAMPLES, of=schema)
@click.argument("table", type=opt.FILE, help="A .csv or .parquet table.")
@opt.option("--label-column", "The column of labels.", "NAME", default="label")
@opt.option("--ignore", "A column that is no feature; may be said again.", "NAME", multiple=True)
@opt.option("--id id_column", "The column that names the samples; no feature.", "NAME")
@opt.option(
    *("--category categories", "A category that looks like a number; may be said again.", "NAME"),
    multiple=True,
)
@opt.option("--least", LEAST, "N", type=opt.COUNT, default=5)
@opt.output("The schema to write, a .toml file: look at it before it leaves the house.", ".toml")
def draft(
    session: Session,
    /,
    table: Path,
    label_column: str,
    ignore: tuple[str, ...],
    id_column: str | None,
    categories: tuple[str, ...],
    least: int,
    output: Path,
) -> None:
    """Draft a schema from a client's table; no value of few samples stands in it.

    A number has its usual range, without the smallest and largest values and rounded outwards;
    a category the levels that are frequent. Dates and free text are left out. Cells may be
    separated by commas, semicolons, tabs or bars.
    """
    from safle.tables.drafting import draft_schema

    opt.refuse_overwriting(output, table)
    found = draft_schema(
        table,
        label_column=label_column,
        ignore=ignore,
        id_column=id_column,
        categories=categories,
        least=least,
    )
    found.schema.save(output)
    show_schema(session, output, found.schema, found.gaps)
    if not found.schema.classes:
        session.warn(
            f"no classes were found in a column {label_column!r}; if another column is the "
            "diagnosis, it is taken for a feature: draft again with --label-column NAME"
        )
    for name, why in found.left_out.items():
        session.warn(f"column {name!r} is left out: it {why}")


@opt.command(None, *EXAMPLES, of=schema)
@click.argument("drafts", type=opt.FILE, nargs=-1, required=True, help="Schemas to merge.")
@opt.output("The schema to write, a .toml file; it may be changed by hand.", ".toml")
def merge(session: Session, /, drafts: tuple[Path, ...], output: Path) -> None:
    """Merge drafts into one schema that fits the tables of all.

    Ranges reach as far as any, and levels and classes are those of any. A column that not all
    have is optional: who lacks it has gaps. Two units or two types of one column are refused.
    """
    from safle.encoders.features import near_duplicates
    from safle.encoders.schema import Schema, merge_schemas

    opt.refuse_overwriting(output, *drafts)
    read = [Schema.read(path) for path in drafts]
    merged = merge_schemas(read)
    merged.save(output)
    show_schema(session, output, merged)
    for name in sorted({n for each in read for n in each.names} - {*merged.names}):
        session.warn(f"column {name!r} is left out: one of the schemas ignores it")
    for column in merged.columns:
        if column.optional:
            session.warn(f"column {column.name!r} is not in every table: who lacks it has gaps")
    for column in merged.columns:
        for alike in near_duplicates(column.levels):
            session.warn(
                f"column {column.name!r}: levels {alike} differ in case or spaces only; write them "
                "one way everywhere"
            )


def show_schema(
    session: Session, path: Path, schema: Schema, gaps: dict[str, int] | None = None
) -> None:
    """A schema's columns, and how many values are missing in each where that is known."""
    from safle.cli.describe import listing, warn_of_classes

    rows = [
        [
            column.name,
            "category" if column.is_category else "number",
            listing(column.levels)
            if column.is_category
            else f"{column.low:g} to {column.high:g} {column.unit}".rstrip(),
            *([] if gaps is None else [f"{gaps[column.name]:,}"]),
        ]
        for column in schema.columns
    ]
    titles = ["column", "kind", "range or levels", *([] if gaps is None else ["missing"])]
    session.table(titles, rows, names=3)
    facts: dict[str, object] = {"columns": len(rows), "ignored": ", ".join(schema.ignore) or "none"}
    session.facts(f"{path}: schema", facts | {"classes": listing(schema.classes)})
    warn_of_classes(session, schema.classes)
