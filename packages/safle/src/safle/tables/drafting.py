"""A client's table -> a draft of its schema, which shows no value that few samples have."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.encoders.cells import MISSING, find_gaps, is_date, is_number, split_unit
from safle.encoders.features import ClassName
from safle.encoders.frames import Sheet, frame_names, frame_sheet
from safle.encoders.outside import allowed_outside
from safle.encoders.schema import FEWEST_SAMPLES, LABEL_COLUMN, NUMBER_ADVICE, Column, Schema
from safle.errors import SafleWarning, TableError
from safle.tables.columns import clean_labels, parse_labels
from safle.tables.sheets import read_sheet
from safle.tables.table import Selection, existing_file, find_columns

if TYPE_CHECKING:
    from polars import Series

MOST_DISTINCT = 100
"""Most different texts of a category: a column with more holds names, numbers or remarks."""
MOST_SHARE_OF_TEXTS = 0.1
"""Up to this share, texts seem to be gaps or mistakes in a column of numbers."""
MOST_UNITS = 4
MOST_REASONS = 5
"""Most columns whose reasons an error names."""
SPARSE_REASONS = ("has a value", "hardly ever varies")
"""How the reasons begin for which a column is no feature here, but may be one in another table."""
FEWEST_IDENTIFIERS = 100
"""This many whole numbers, or more, are not all different by chance."""
FEWEST_PER_VALUE = 5
"""Samples for each value of a column, on average, before it may be called a copy of the label."""
_DAY = r"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"
_UNIT_IN_NAME = re.compile(r".*[(\[]\s*([^()\[\]]+?)\s*[)\]]\s*")


@dataclass(frozen=True)
class Draft:
    """A drafted schema, and what people should know about it.

    Attributes
    ----------
    schema : people check it, merge it with other drafts, and declare the result
    gaps : how many values are missing, by column
    left_out : why a column is no feature, by column
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
    least: int = FEWEST_SAMPLES,
) -> Draft:
    """Draft a schema from a .csv or .parquet table, or from a pandas, polars or pyarrow frame.

    A range leaves out the ``least - 1`` smallest and largest values and is rounded outwards;
    a level or class that fewer than ``least`` samples have is not named.

    Parameters
    ----------
    labels : one for each sample, if they are no column of the table
    categories : columns that are categories though they look like numbers

    Examples
    --------
    >>> import polars
    >>> frame = polars.DataFrame({"age": [61] * 9 + [43] * 6, "sex": ["f"] * 9 + ["m"] * 6})
    >>> draft_schema(frame, ["ill"] * 9 + ["well"] * 6).schema.to_json()["columns"]
    {'age': {'low': 43.0, 'high': 61.0}, 'sex': {'levels': ['f', 'm']}}
    """
    is_frame = bool(frame_names(source))
    sheet = frame_sheet(source) if is_frame else read_sheet(existing_file(source, TableError))
    if not len(sheet.frame):
        raise TableError(
            f"{sheet.where}: has no samples, so there is nothing to draft; is it the right file?"
        )
    wanted = None if label_column == LABEL_COLUMN else label_column
    selection = Selection(label_column=wanted, ignore=tuple(ignore), id_column=id_column)
    label_name = selection.find_label(sheet.where, sheet.names) if labels is None else None
    ignored = selection.find_excluded(sheet.where, sheet.names) & {*sheet.names}
    category_names = find_columns(sheet.where, categories, sheet.names)
    found: list[Column] = []
    gaps: dict[str, int] = {}
    left_out: dict[str, str] = {}
    doubts: dict[str, str] = {}
    label_cells = _label_cells(sheet, label_name, labels)
    for name in sheet.names:
        if name == label_name or name in ignored:
            continue
        if sheet.frame[name].dtype.is_nested():
            left_out[name] = "holds lists"
            continue
        cells = sheet.texts(name).str.strip_chars()
        present = cells.filter(~find_gaps(cells, MISSING))
        drafted = _draft_column(name, present, category=name in category_names, least=least)
        if isinstance(drafted, Column):
            found.append(drafted)
            doubt = _doubt(present) or _doubt_copy(cells, label_cells)
            if drafted.is_category and name not in category_names:
                few_texts = _describe_few_texts(present)
                doubt = f"is a category in the draft, but {few_texts}" if few_texts else doubt
            if doubt:
                doubts[name] = doubt
            gaps[name] = len(cells) - len(present)
        else:
            left_out[name] = drafted
    if not found:
        reasons = [f"{name!r} {why}" for name, why in [*left_out.items()][:MOST_REASONS]]
        more = f" and {len(left_out) - MOST_REASONS} more" * (len(left_out) > MOST_REASONS)
        raise TableError(
            f"{sheet.where}: no column that could be a feature; "
            f"{', '.join(reasons) or 'it has none'}{more}"
        )
    sparse = {name for name, why in left_out.items() if why.startswith(SPARSE_REASONS)}
    schema = Schema(
        tuple(found),
        ignore=tuple({*left_out, *ignored} - sparse),
        classes=_draft_classes(_read_labels(sheet, label_name, labels), sheet.where, least),
        label_column=label_column,
        sparse=tuple(sparse),
        least=least,
    )
    return Draft(schema, gaps, left_out, doubts)


def _read_labels(sheet: Sheet, label_name: str | None, labels: ArrayLike | None) -> NDArray[Any]:
    if labels is not None:
        return clean_labels(labels, where="the array of labels")
    cells = [] if label_name is None else sheet.texts(label_name).str.strip_chars().to_list()
    return parse_labels([*filter(None, cells)], where=sheet.where)


def _label_cells(sheet: Sheet, label_name: str | None, labels: ArrayLike | None) -> list[str]:
    """The label of each sample as text; empty if there are no labels."""
    if labels is not None:
        return np.asarray(labels).astype(str).tolist()
    return [] if label_name is None else sheet.texts(label_name).to_list()


def _doubt(present: Series) -> str:
    """What a column may be instead of a feature, judged by its present cells; empty if no doubt."""
    distinct = present.n_unique()
    whole = bool(present.str.contains(r"^\d+$").all())
    if whole and present.str.contains(_DAY).all():
        return "holds whole numbers like 20200131; dates? Turn them into an age or a number of days"
    ascending = whole and present.cast(float).is_sorted()
    if whole and distinct == len(present) and (ascending or distinct >= FEWEST_IDENTIFIERS):
        return (
            "holds whole numbers that are all different; an identifier? --id NAME or --ignore NAME"
        )
    fractions = present.filter(present.str.contains(r"\."))
    others = present.filter(~present.str.contains(r"\."))
    thousands = fractions.str.contains(r"^[1-9]\d{0,2}\.\d{3}$").all()
    if len(fractions) and len(others) and thousands and others.str.contains(r"^\d{1,3}$").all():
        return "has fractions of exactly three digits beside whole numbers; thousands separators?"
    return ""


def _describe_few_texts(present: Series) -> str:
    """What to do if nearly all cells are numbers, and a few are not; else empty."""
    is_number = present.cast(float, strict=False).is_finite().fill_null(value=False)
    text_count = int((~is_number).sum())
    if not 0 < text_count <= MOST_SHARE_OF_TEXTS * len(present):
        return ""
    return f"has numbers in all but {text_count:,} of its {len(present):,} cells: {NUMBER_ADVICE}"


def _doubt_copy(cells: Series, labels: Sequence[str]) -> str:
    """A doubt if the column has few values, and each occurs with one label only."""
    import polars as pl

    if len(labels) != len(cells):
        return ""
    pairs = pl.DataFrame([cells.alias("cell"), pl.Series("label", labels, pl.String)])
    has_few_values = 1 < cells.n_unique() <= len(cells) / FEWEST_PER_VALUE
    if not has_few_values or pairs["label"].n_unique() < 2 or pairs.n_unique() > cells.n_unique():
        return ""
    return "determines the label of every sample; a copy of it? --ignore NAME"


def _draft_classes(labels: NDArray[Any], where: str, least: int) -> tuple[ClassName, ...]:
    names, times = np.unique(labels, return_counts=True)
    rare = times < least
    if rare.any():
        warnings.warn(
            f"{where}: classes that fewer than {least} samples have are not named: the schema's "
            f"encoder refuses their {times[rare].sum()} samples. Add the names to 'classes' in the "
            "schema, or drop the samples",
            SafleWarning,
            stacklevel=3,
        )
    classes: list[ClassName] = names[~rare].tolist()
    return tuple(classes)


def _draft_column(name: str, present: Series, *, category: bool, least: int) -> Column | str:
    """A column from its present cells, or why it is no feature."""
    if len(present) < 2 * least:
        return f"{SPARSE_REASONS[0]} in fewer than {2 * least} samples"
    distinct, inverse, times = np.unique(
        np.array(present.to_list()), return_inverse=True, return_counts=True
    )
    if not category:
        numbers, units = _numbers(distinct)
        if len(units) == 1:
            return _draft_number(name, numbers[inverse], *units, least=least)
        if 1 < len(units) <= MOST_UNITS:
            return f"is in several units: {', '.join(sorted(units))}"
        if times[[is_date(text) for text in distinct]].sum() > len(present) / 2:
            return "holds dates: turn them into an age or a number of days"
    if len(distinct) > MOST_DISTINCT:
        if not category and (few_texts := _describe_few_texts(present)):
            return few_texts
        return f"holds more than {MOST_DISTINCT} different texts: names, numbers or remarks?"
    levels = tuple(distinct[times >= least].tolist())
    if not levels:
        return "has no level that is frequent enough"
    others = bool(times[times < least].sum() > allowed_outside(len(present), least))
    return Column(name, levels=levels, others=others)


def _numbers(distinct: NDArray[np.str_]) -> tuple[NDArray[np.float64], set[str]]:
    """The cells as numbers, and the set of their units; an empty set if a cell is no number."""
    values, units = [], set()
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
    low, high = float(inner[0]), float(inner[-1])
    if low == high:
        return SPARSE_REASONS[1]
    # Rounding to two digits of the width hides the exact values of the samples at the ends.
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    low, high = (
        float(f"{bound * step:.12g}") for bound in (math.floor(low / step), math.ceil(high / step))
    )
    in_name = _UNIT_IN_NAME.fullmatch(name)
    return Column(name, low, high, unit or (in_name[1] if in_name else ""))
