"""A client's table -> a draft of its schema, which shows only values of many samples."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.errors import SafleWarning, TableError
from safle.tables.cells import MISSING, find_missing, is_date, is_number, split_unit
from safle.tables.checks import ClassName
from safle.tables.column_files import open_columns
from safle.tables.columns import clean_labels, parse_labels
from safle.tables.doubts import describe_few_texts, find_doubt, find_lone
from safle.tables.findings import allowed_outside
from safle.tables.schema import LABEL_COLUMN, MIN_SAMPLES, RARE, Column, Schema
from safle.tables.sources import ColumnSource, frame_names, from_frame
from safle.tables.table import (
    existing_file,
    find_columns,
    find_excluded,
    find_label,
    require_name,
)

if TYPE_CHECKING:
    from polars import Series

MAX_DISTINCT = 100
"""Most different texts of a category: a column with more holds names, numbers or remarks."""
MAX_UNITS = 4
ALL = ""
"""In place of a column's name: all columns. No column has an empty name."""
MAX_REASONS = 5
"""Most columns whose reasons an error names."""
SPARSE_REASONS = ("has a value", "hardly ever varies")
"""Beginnings of the reasons why a column is not a feature here, but may be one in another table."""
_UNIT_IN_NAME = re.compile(r".*[(\[]\s*([^()\[\]]+?)\s*[)\]]\s*")


@dataclass(frozen=True)
class Draft:
    """A drafted schema, and what people should know about it.

    Attributes
    ----------
    schema : people check it, merge it with other drafts, and declare the result
    gaps : how many values are missing, by column
    left_out : why a column is not a feature, by column
    doubts : what a column that is drafted as a feature may be instead, by column

    Examples
    --------
    >>> Draft(Schema((Column("age", 0, 90),)), gaps={"age": 2}, left_out={}).schema.names
    ('age',)
    """

    schema: Schema
    gaps: dict[str, int]
    left_out: dict[str, str]
    doubts: dict[str, str] = field(default_factory=dict)


def draft_schema(
    source: str | os.PathLike[str] | Any,
    labels: ArrayLike | None = None,
    *,
    label_column: str = LABEL_COLUMN,
    ignore: Sequence[str] = (),
    id_column: str | None = None,
    categories: Sequence[str] = (),
    missing: Sequence[str] = (),
    least: int = MIN_SAMPLES,
) -> Draft:
    """Draft a schema from a .csv or .parquet table, or from a pandas, polars or pyarrow frame.

    A range leaves out the ``least - 1`` smallest and largest values and is rounded outwards;
    a level or class that fewer than ``least`` samples have is not named.

    Parameters
    ----------
    labels : one for each sample, if they are not a column of the table
    categories : columns that are categories though they look like numbers
    missing : texts that mean a missing value: ``"-9"`` in all columns, ``"chol=0"`` in one

    Examples
    --------
    >>> import polars
    >>> frame = polars.DataFrame({"age": [61] * 9 + [43] * 6, "sex": ["f"] * 9 + ["m"] * 6})
    >>> draft_schema(frame, ["ill"] * 9 + ["well"] * 6).schema.to_json()["columns"]
    {'age': {'low': 43.0, 'high': 61.0}, 'sex': {'levels': ['f', 'm']}}
    """
    is_frame = bool(frame_names(source))
    opened = from_frame(source) if is_frame else open_columns(existing_file(source, TableError))
    if not len(opened.frame):
        raise TableError(
            f"{opened.where}: has no samples, so there is nothing to draft; is it the right file?"
        )
    wanted = None if label_column == LABEL_COLUMN else label_column
    label_name = find_label(opened.where, opened.names, wanted) if labels is None else None
    ignored = find_excluded(opened.where, opened.names, ignore, id_column) & {*opened.names}
    category_names = find_columns(opened.where, categories, opened.names)
    marks = _split_marks(missing, opened)
    found: list[Column] = []
    gaps: dict[str, int] = {}
    left_out: dict[str, str] = {}
    doubts: dict[str, str] = {}
    present_labels, label_cells = _read_labels(opened, label_name, labels)
    for name in opened.names:
        if name == label_name or name in ignored:
            continue
        if opened.frame[name].dtype.is_nested():
            left_out[name] = "holds lists"
            continue
        cells = opened.texts(name).str.strip_chars()
        own_marks = marks.get(name, ())
        present = cells.filter(~find_missing(cells, (*MISSING, *marks[ALL], *own_marks)))
        drafted = _draft_column(name, present, category=name in category_names, least=least)
        if isinstance(drafted, str):
            left_out[name] = drafted
            continue
        lone = [] if drafted.is_category else find_lone(_values(present), least)
        # What few samples have is not named.
        texts = {f"{value:.12g}" if times >= least else RARE for value, times, _ in lone}
        found.append(replace(drafted, missing=own_marks, lone=tuple(sorted(texts))))
        gaps[name] = len(cells) - len(present)
        is_guess = drafted.is_category and name not in category_names
        if is_guess and (few_texts := describe_few_texts(present)):
            doubts[name] = f"is a category in the draft, but {few_texts}"
        elif doubt := find_doubt(name, cells, present, label_cells, lone):
            doubts[name] = doubt
    if not found:
        reasons = [f"{name!r} {why}" for name, why in [*left_out.items()][:MAX_REASONS]]
        if more := len(left_out) - len(reasons):
            reasons.append(f"and {more} more")
        raise TableError(
            f"{opened.where}: no column that could be a feature; "
            f"{', '.join(reasons) or 'it has none'}"
        )
    sparse = {name for name, why in left_out.items() if why.startswith(SPARSE_REASONS)}
    schema = Schema(
        tuple(found),
        missing=tuple(dict.fromkeys((*MISSING, *marks[ALL]))),
        ignore=tuple({*left_out, *ignored} - sparse),
        classes=_draft_classes(present_labels, opened.where, least),
        label_column=label_column,
        sparse=tuple(sparse),
        least=least,
    )
    return Draft(schema, gaps, left_out, doubts)


def _split_marks(missing: Sequence[str], opened: ColumnSource) -> dict[str, tuple[str, ...]]:
    """The marks of missing values by column; those of `ALL` columns."""
    marks: dict[str, tuple[str, ...]] = {ALL: ()}
    for text in missing:
        name, _, mark = text.rpartition("=")
        column = require_name(opened.where, name, opened.names) if name else ALL
        marks[column] = (*marks.get(column, ()), mark.strip())
    return marks


def _values(present: Series) -> NDArray[np.float64]:
    """The numbers of cells that are numbers, some with a unit."""
    distinct, inverse = np.unique(np.array(present.to_list()), return_inverse=True)
    return _numbers(distinct)[0][inverse]


def _read_labels(
    opened: ColumnSource, label_name: str | None, labels: ArrayLike | None
) -> tuple[NDArray[Any], list[str]]:
    """The labels that there are, and the label of each sample as text; empty without labels."""
    if labels is not None:
        cleaned = clean_labels(labels, where="the array of labels")
        return cleaned, cleaned.astype(str).tolist()
    texts = [] if label_name is None else opened.texts(label_name).str.strip_chars().to_list()
    return parse_labels([*filter(None, texts)], where=opened.where), texts


def _draft_classes(labels: NDArray[Any], where: str, least: int) -> tuple[ClassName, ...]:
    names, times = np.unique(labels, return_counts=True)
    rare = times < least
    if rare.any():
        warnings.warn(
            f"{where}: classes with fewer than {least} samples are not named: the schema's "
            f"encoder refuses their {times[rare].sum()} samples. Add the names to 'classes' in the "
            "schema, or drop the samples",
            SafleWarning,
            stacklevel=3,
        )
    classes: list[ClassName] = names[~rare].tolist()
    return tuple(classes)


def _draft_column(name: str, present: Series, *, category: bool, least: int) -> Column | str:
    """A column from its present cells, or why it is not a feature."""
    if len(present) < 2 * least:
        return f"{SPARSE_REASONS[0]} in fewer than {2 * least} samples"
    distinct, inverse, times = np.unique(
        np.array(present.to_list()), return_inverse=True, return_counts=True
    )
    if not category:
        numbers, units = _numbers(distinct)
        if len(units) == 1:
            return _draft_number(name, numbers[inverse], *units, least=least)
        if 1 < len(units) <= MAX_UNITS:
            return f"is in several units: {', '.join(sorted(units))}"
        if times[[is_date(text) for text in distinct]].sum() > len(present) / 2:
            return "holds dates: turn them into an age or a number of days"
    if len(distinct) > MAX_DISTINCT:
        if not category and (few_texts := describe_few_texts(present)):
            return few_texts
        return f"holds more than {MAX_DISTINCT} different texts: names, numbers or remarks?"
    levels = tuple(distinct[times >= least].tolist())
    if not levels:
        return "has no level that is frequent enough"
    others = bool(times[times < least].sum() > allowed_outside(len(present), least))
    return Column(name, levels=levels, others=others)


def _numbers(distinct: NDArray[np.str_]) -> tuple[NDArray[np.float64], set[str]]:
    """The cells as numbers, and the set of their units; an empty set if a cell is not a number."""
    values = []
    units = set()
    for cell in distinct.tolist():
        value, unit = (float(cell), "") if is_number(cell) else split_unit(cell)
        if not (unit or is_number(cell)) or not math.isfinite(value):
            return np.array([]), set()
        values.append(value)
        units.add(unit)
    # Numbers without a unit have the unit of the others.
    return np.array(values), units - {""} or units


def _draft_number(name: str, values: NDArray[np.float64], unit: str, *, least: int) -> Column | str:
    inner = np.sort(values)[least - 1 : len(values) - least + 1]
    low = float(inner[0])
    high = float(inner[-1])
    if low == high:
        return f"{SPARSE_REASONS[1]}: nearly all its cells are {low:g}"
    # Rounding to two digits of the width hides the exact values of the samples at the ends.
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    low, high = (
        float(f"{bound * step:.12g}") for bound in (math.floor(low / step), math.ceil(high / step))
    )
    in_name = _UNIT_IN_NAME.fullmatch(name)
    return Column(name, low, high, unit or (in_name[1] if in_name else ""))
