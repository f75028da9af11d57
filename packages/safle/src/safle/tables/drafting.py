"""A client's table -> a draft of its schema, in which no value of few samples stands."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from safle.encoders.cells import MISSING, as_texts, is_date, is_number, marks, normal, split_unit
from safle.encoders.frames import as_series, frame_names
from safle.encoders.schema import Column, Schema
from safle.errors import TableError
from safle.tables.common import LABEL_COLUMN, existing_file, find_label
from safle.tables.labels import parse_labels
from safle.tables.sheets import read_sheet

LEAST = 5
MOST_DISTINCT = 100
"""Of the levels of a category: text with more is a name, a number or a remark."""
MOST_UNITS = 4
TOO_LITTLE = ("has a value", "hardly ever varies")
"""Why a column says nothing in one table, and may in another."""
_UNIT_IN_NAME = re.compile(r".*[(\[]\s*([^()\[\]]+?)\s*[)\]]\s*")


@dataclass(frozen=True)
class Draft:
    """What was found.

    Attributes
    ----------
    schema : to be looked at, merged with those of others, and declared
    gaps : how many values are missing, by column
    left_out : why a column is no feature, by column
    """

    schema: Schema
    gaps: dict[str, int]
    left_out: dict[str, str]


def draft_schema(
    table: Any,
    *,
    label_column: str = LABEL_COLUMN,
    ignore: Sequence[str] = (),
    id_column: str | None = None,
    categories: Collection[str] = (),
    least: int = LEAST,
) -> Draft:
    r"""Draft a schema from a table: a .csv or .parquet file, or a pandas, polars or pyarrow frame.

    A range leaves out the ``least - 1`` smallest and largest values and is rounded outwards;
    a level or class that fewer than ``least`` samples have is not named.

    Parameters
    ----------
    categories : columns that are categories though they look like numbers

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "visits.csv")
    >>> rows = ["age,sex,label", *["61,f,ill"] * 9, *["43,m,well"] * 6, "NA,d,ill"]
    >>> _ = path.write_text("\n".join(rows))
    >>> draft_schema(path).schema.to_json()["columns"]
    {'age': {'low': 43.0, 'high': 61.0}, 'sex': {'levels': ['f', 'm']}}
    """
    file, columns = _columns(table)
    wanted = None if label_column == LABEL_COLUMN else label_column
    label = find_label(file, wanted, [*columns], TableError)
    labels = [] if label is None else [cell.strip() for cell in columns.pop(label)]
    ignored = {*ignore, *([id_column] if id_column else [])}
    found, gaps, left_out = [], {}, dict[str, str]()
    sparse = []
    for name, cells in columns.items():
        if name in ignored:
            continue
        present = [cell.strip() for cell in cells if normal(cell) not in marks(MISSING)]
        drafted = _draft_column(name, present, category=name in categories, least=least)
        if isinstance(drafted, Column):
            found.append(drafted)
            gaps[name] = len(cells) - len(present)
        else:
            left_out[name] = drafted
            sparse += [name] if drafted.startswith(TOO_LITTLE) else []
    if not found:
        raise TableError(f"{file}: no column that could be a feature; {left_out or 'it has none'}")
    classes = _frequent([*filter(None, labels)], least)
    schema = Schema(
        tuple(found),
        ignore=tuple({*left_out, *(ignored & {*columns})} - {*sparse}),
        classes=tuple(parse_labels(classes, where=str(file)).tolist()),
        label_column=label_column,
        sparse=tuple(sparse),
    )
    return Draft(schema, gaps, left_out)


def _columns(table: Any) -> tuple[Path | str, dict[str, list[str]]]:
    """What the table is called, and the texts of its columns."""
    if names := frame_names(table):
        return "the frame", {name: as_texts(as_series(table[name])).to_list() for name in names}
    file = existing_file(table, TableError)
    sheet = read_sheet(file)
    return file, {name: sheet.texts(at).to_list() for at, name in enumerate(sheet.names)}


def _draft_column(name: str, present: Sequence[str], *, category: bool, least: int) -> Column | str:
    """A column from its cells that are not missing, or why it is none."""
    if len(present) < 2 * least:
        return f"{TOO_LITTLE[0]} in fewer than {2 * least} samples"
    if not category:
        values, units = _numbers(present)
        if len(units) == 1:
            return _draft_number(name, values, *units, least=least)
        if 1 < len(units) <= MOST_UNITS:
            return f"is in several units: {', '.join(sorted(units))}"
        if sum(map(is_date, present)) > len(present) / 2:
            return "holds dates: turn them into an age or a number of days"
    if len({*present}) > MOST_DISTINCT:
        return f"holds text of more than {MOST_DISTINCT} kinds: names, numbers or remarks?"
    levels = _frequent(present, least)
    return Column(name, levels=tuple(levels)) if levels else "has no level that is frequent enough"


def _numbers(present: Sequence[str]) -> tuple[list[float], set[str]]:
    """The cells as numbers, and the units behind them; no units if they are no numbers."""
    values, units = [], set()
    for cell in present:
        value, unit = (float(cell), "") if is_number(cell) else split_unit(cell)
        if not (unit or is_number(cell)) or not math.isfinite(value):
            return [], set()
        values.append(value)
        units.add(unit)
    # Where some say it, the others mean it.
    return values, units - {""} or units


def _draft_number(name: str, values: Sequence[float], unit: str, *, least: int) -> Column | str:
    inner = np.sort(values)[least - 1 : len(values) - least + 1]
    low, high = float(inner[0]), float(inner[-1])
    if low == high:
        return TOO_LITTLE[1]
    # To two digits of the width: nobody's value stands there.
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    low, high = (
        float(f"{bound * step:.12g}") for bound in (math.floor(low / step), math.ceil(high / step))
    )
    in_name = _UNIT_IN_NAME.fullmatch(name)
    return Column(name, low, high, unit or (in_name[1] if in_name else ""))


def _frequent(texts: Sequence[str], least: int) -> list[str]:
    return [text for text, times in Counter(texts).items() if times >= least]
