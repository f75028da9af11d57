"""A file of ranges, one for each feature -> the declared range that calibrates and makes grids."""

from __future__ import annotations

import os
from pathlib import Path

from safle.basics.places import naming
from safle.encoders.calibration import DeclaredRange
from safle.encoders.schema import Schema
from safle.errors import TableError
from safle.tables.sheets import read_csv


def read_ranges(path: str | os.PathLike[str]) -> DeclaredRange:
    r"""The ranges in a CSV or TOML file, in the order of the features' names.

    A CSV file has columns ``low`` and ``high``, and ``name`` where features have names; without
    it, lines are in the order of the features. A TOML file is a schema of numbers alone.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     written = file.write("name,low,high\nratio,0,1\nplatelets,100,500\n")
    ...     file.flush()
    ...     read_ranges(file.name).names
    ('platelets', 'ratio')
    """
    file = Path(path)
    if file.suffix.lower() == ".toml":
        return _from_schema(Schema.read(file), file)
    sheet = read_csv(file)
    columns = {name: sheet.texts(name).to_list() for name in sheet.names}
    with naming(file):
        return _from_columns(columns)


def _from_schema(schema: Schema, path: Path) -> DeclaredRange:
    if categories := [column.name for column in schema.columns if column.is_category]:
        raise TableError(
            f"{path}: {', '.join(categories)} have levels; expected ranges of numbers alone: an "
            "encoder of numbers and categories is made with --schema"
        )
    ends = [(column.low, column.high) for column in schema.columns]
    return DeclaredRange([low for low, _ in ends], [high for _, high in ends], names=schema.names)


def _from_columns(columns: dict[str, list[str]]) -> DeclaredRange:
    found = {name.casefold(): cells for name, cells in columns.items()}
    if not {"low", "high"} <= {*found} <= {"name", "low", "high", "unit"}:
        raise TableError(
            f"a header of {', '.join(columns)}; expected name, low and high, and nothing but "
            "'unit' beside them"
        )
    low, high = (_numbers(name, found[name]) for name in ("low", "high"))
    names = [cell.strip() for cell in found.get("name", [])]
    order = sorted(range(len(names)), key=names.__getitem__) or range(len(low))
    return DeclaredRange(
        [low[at] for at in order],
        [high[at] for at in order],
        names=[names[at] for at in order if names],
    )


def _numbers(name: str, cells: list[str]) -> list[float]:
    if not cells:
        raise TableError("has no ranges; expected one line for each feature")
    try:
        return [float(cell) for cell in cells]
    except ValueError as error:
        raise TableError(f"column {name!r}: {error}; expected a number in every line") from None
