"""Drafts of several clients -> one schema that fits the tables of all, and their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from safle.basics.paths import naming
from safle.basics.texts import name_some
from safle.errors import SettingsError
from safle.tables.checks import ClassName, as_class_names
from safle.tables.points import Drafts, Point, columns_by_name, find_points
from safle.tables.schema import NUMBER_ADVICE, Column, Schema


def merge_schemas(
    drafts: Sequence[Schema], sources: Sequence[str] = ()
) -> tuple[Schema, list[Point]]:
    """One schema that fits the tables of all ``drafts``, and what somebody should settle first.

    A merged range spans the ranges of all drafts, and a level or class of any draft is kept. A
    column that some drafts lack is optional; a column that a draft ignores is left out. A column
    that has two types or two units raises `SettingsError`; errors and points name drafts by
    their ``sources``.

    Examples
    --------
    >>> a, b = Column("sex", levels=("f", "m")), Column("sex", levels=("f", "m", "x"))
    >>> schema, points = merge_schemas([Schema((a,)), Schema((b, Column("dose", 1, 9)))])
    >>> schema.to_json()["columns"]
    {'dose': {'low': 1.0, 'high': 9.0, 'optional': True}, 'sex': {'levels': ['f', 'm', 'x']}}
    >>> points
    []
    >>> years, months = Column("age", 20, 80), Column("age", 240, 960)
    >>> merge_schemas([Schema((years,)), Schema((months,))])[1][0][0]
    'units:age'
    """
    sources = sources or [f"draft {place}" for place in range(1, len(drafts) + 1)]
    by_source = dict(zip(sources, drafts, strict=True))
    if len(by_source) < len(drafts) or not drafts:
        raise SettingsError(
            f"schemas of {name_some(sources) or 'nothing'}; expected at least one, and each once"
        )
    by_name = columns_by_name(by_source)
    _check_labels(by_source)
    if not any(len(found) == len(drafts) for found in by_name.values()):
        raise SettingsError(
            "no column is in every schema; do the header lines name the same ones? "
            f"{sources[0]} has {name_some(drafts[0].names, 5)}, {sources[-1]} has "
            f"{name_some(drafts[-1].names, 5)}"
        )
    ignored = {name for draft in drafts for name in draft.ignore}
    kept = [name for name in by_name if name not in ignored]
    sparse = {name for draft in drafts for name in draft.sparse} - {*kept}
    with naming(", ".join(sources)):
        schema = Schema(
            tuple(_merge_columns(by_name[name], len(drafts)) for name in kept),
            tuple(dict.fromkeys(text for draft in drafts for text in draft.missing)),
            tuple(ignored | sparse),
            as_class_names([*{name for draft in drafts for name in draft.classes}]),
            drafts[0].label_column,
            least=max(draft.least for draft in drafts),
        )
    return schema, find_points(by_source)


def _check_labels(drafts: Drafts) -> None:
    """`SettingsError` unless the labels have one column, and classes of one type."""
    columns = {draft.label_column: source for source, draft in drafts.items()}
    if len(columns) > 1:
        names = sorted(columns)
        files = ", ".join(f"{name!r} in {columns[name]}" for name in names)
        raise SettingsError(
            f"the column of labels is {' and '.join(map(repr, names))} ({files}); expected one "
            "name in all tables: rename it, and draft again with --label-column NAME"
        )
    types: dict[type[ClassName], str] = {}
    for source, draft in drafts.items():
        for name in draft.classes[:1]:
            types[type(name)] = f"{name_some(draft.classes, 5)} in {source}"
    if len(types) > 1:
        raise SettingsError(
            f"classes are {' and '.join(types.values())}; expected all integers or all texts: "
            "write the label one way everywhere and draft again"
        )


def _merge_columns(by_source: Mapping[str, Column], draft_count: int) -> Column:
    """One column from those of the drafts that have it."""
    columns = [*by_source.values()]
    name = columns[0].name
    optional = len(columns) < draft_count or any(column.optional for column in columns)
    missing = tuple(dict.fromkeys(text for column in columns for text in column.missing))
    categories = {source: column for source, column in by_source.items() if column.is_category}
    numbers = {source: column for source, column in by_source.items() if not column.is_category}
    if categories and numbers:
        raise SettingsError(
            f"column {name!r} is a number in {', '.join(numbers)} and a category in "
            f"{', '.join(categories)}: {NUMBER_ADVICE}"
        )
    units = {column.unit: source for source, column in by_source.items() if column.unit}
    if len(units) > 1:
        files = ", ".join(f"{unit} in {units[unit]}" for unit in sorted(units))
        raise SettingsError(
            f"column {name!r} is in {' and in '.join(sorted(units))} ({files}): convert one table, "
            "and correct its schema"
        )
    if categories:
        levels = {level for column in columns for level in column.levels}
        others = any(column.others for column in columns)
        return Column(name, levels=tuple(levels), optional=optional, others=others, missing=missing)
    low = min(column.low for column in columns)
    high = max(column.high for column in columns)
    return Column(name, low, high, "".join(units), optional=optional, missing=missing)
