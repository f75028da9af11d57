"""A schema: what the columns of a table of numbers and categories are, declared for everybody.

A column is a number, with the range in which its values usually lie, or a category, with the
levels that have a symbol of their own. A level's feature value is its place among the levels;
any other text is one place further, and a missing value is NaN. A schema is a TOML file first,
then a part of the encoder that is made with it (`safle.encoders.calibration.of_schema`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from safle.basics import atomic
from safle.basics.paths import as_toml, naming, read_toml
from safle.basics.settings import as_settings
from safle.basics.texts import printable
from safle.errors import SettingsError
from safle.tables.cells import MISSING
from safle.tables.checks import ClassName, Ranges, as_class_names, as_names, check_texts

MAX_COLUMNS = 1 << 16
MAX_LEVELS = (1 << 16) - 2
"""With a symbol for gaps and one for other levels, they fit 16 bits."""
LABEL_COLUMN = "label"
MIN_SAMPLES = 5
"""By default, each drafted level, class and end of a range rests on this many samples."""
RARE = "rare"
"""In a draft, in place of a number that few samples have."""
NUMBER_ADVICE = (
    "if the column is numeric, correct or empty its other cells and draft again, or set low and "
    "high in the draft by hand and add the texts of these cells to 'missing' there; if it is a "
    "category, draft it "
    "with --category NAME"
)


@dataclass(frozen=True)
class Column:
    """One column: a category if it has levels, else a number from about ``low`` to ``high``.

    >>> Column("sex", levels=("m", "f")).levels
    ('f', 'm')
    """

    name: str
    low: float = 0.0
    high: float = 0.0
    unit: str = ""
    levels: tuple[str, ...] = ()
    optional: bool = False
    """Whether a table may lack the column: all its values are then missing."""
    others: bool = False
    """Whether other levels are expected, each too rare to be named."""
    missing: tuple[str, ...] = ()
    """Texts that mean a missing value in this column alone."""
    lone: tuple[str, ...] = ()
    """Of a draft: numbers far from all others, which may mark missing values; `RARE` for one in few
    cells. A merge asks about them, and drops them."""

    def __post_init__(self) -> None:
        levels = check_texts(self.levels, what=f"column {self.name!r}: levels")
        if len(levels) > MAX_LEVELS:
            raise SettingsError(f"column {self.name!r} has more than {MAX_LEVELS} levels")
        for what, texts in {
            "unit": [self.unit],
            "missing": self.missing,
            "lone": self.lone,
        }.items():
            check_texts(texts, what=f"column {self.name!r}: {what}")
        if {type(self.optional), type(self.others)} != {bool}:
            raise SettingsError(
                f"column {self.name!r}: optional or others is neither true nor false"
            )
        low = float(self.low)
        high = float(self.high)
        if not (math.isfinite(low) and math.isfinite(high)):
            raise SettingsError(
                f"column {self.name!r} has a low or high that is not a finite number"
            )
        for name, value in (("levels", tuple(sorted(levels))), ("low", low), ("high", high)):
            object.__setattr__(self, name, value)
        if self.levels and (self.unit or low or high):
            raise SettingsError(
                f"column {self.name!r} has levels and a range or unit; expected one of them"
            )
        if not self.levels and not self.low < self.high:
            raise SettingsError(
                f"column {self.name!r} has range [{self.low:g}, {self.high:g}] and no levels; "
                "expected low < high, or levels"
            )

    @property
    def is_category(self) -> bool:
        return bool(self.levels)

    @property
    def text(self) -> str:
        """The levels, or the range, for people."""
        return ", ".join(self.levels) or f"{self.low:g} to {self.high:g} {self.unit}".rstrip()


@dataclass(frozen=True)
class Schema:
    """Columns, in the order of their names.

    Attributes
    ----------
    columns : each is a feature
    missing : texts that mean a missing value, in upper or lower case
    ignore : columns that tables may have and that are not features
    classes : the only labels that are allowed; empty if all are
    label_column : the column of labels
    sparse : columns that are ignored because the drafted table has too few values in them; a merge
        makes them features if another draft has them as features
    least : fewest samples that had each drafted level or class; up to ``least - 1`` values of a
        number may lie below its drafted range, and as many above

    Examples
    --------
    >>> from safle import make_encoder, of_schema
    >>> schema = Schema((Column("age", 0, 100), Column("sex", levels=("f", "m"))))
    >>> make_encoder(of_schema(schema), "table").layout.table_sizes.tolist()
    [2, 4]
    """

    columns: tuple[Column, ...]
    missing: tuple[str, ...] = MISSING
    ignore: tuple[str, ...] = ()
    classes: tuple[ClassName, ...] = ()
    label_column: str = LABEL_COLUMN
    sparse: tuple[str, ...] = ()
    least: int = MIN_SAMPLES

    def __post_init__(self) -> None:
        if type(self.least) is not int or self.least < 1:
            raise SettingsError(f"least = {str(self.least)[:40]}; expected an integer above 0")
        if not 1 <= len(self.columns) <= MAX_COLUMNS:
            raise SettingsError(f"{len(self.columns)} columns; expected 1..{MAX_COLUMNS}")
        # The features have one order; a file may have another.
        columns = sorted(self.columns, key=lambda column: str(column.name))
        object.__setattr__(self, "columns", tuple(columns))
        as_names([*self.names], len(columns))
        check_texts(self.missing, what="missing")
        check_texts([self.label_column], what="label_column")
        for name in ("ignore", "sparse"):
            texts = sorted(check_texts(getattr(self, name), what=name))
            object.__setattr__(self, name, tuple(texts))
        object.__setattr__(self, "classes", as_class_names(self.classes))
        not_features = {*self.ignore, *self.sparse, self.label_column}
        if both := sorted(not_features & {*self.names}):
            raise SettingsError(
                f"column {both[0]!r} is a feature, and ignored or the label; expected one of them"
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def feature_dim(self) -> int:
        return len(self.columns)

    @cached_property
    def ranges(self) -> Ranges:
        """The lowest and highest expected feature values, float64, (columns,) each."""
        # A level's value is its place; all unnamed levels have the place after the last.
        ends = [
            (0, len(c.levels) - 1 + c.others) if c.levels else (c.low, c.high) for c in self.columns
        ]
        low, high = np.array(ends, np.float64).T
        return low, high

    def to_json(self) -> dict[str, Any]:
        """The schema as plain values, without fields that have their defaults."""
        columns = {column.name: _changed_fields(column) for column in self.columns}
        for described in columns.values():
            del described["name"]
        return _changed_fields(self) | {"columns": columns}

    @staticmethod
    def from_json(content: Any) -> Schema:
        """The inverse of `to_json`; `SettingsError` on nonsense."""
        described = content.get("columns") if isinstance(content, dict) else None
        if not isinstance(described, dict) or {*map(type, described.values())} - {dict}:
            raise SettingsError("not a schema; expected [columns.NAME] for each of its columns")
        # Each column is checked on its own, so that an error names it.
        columns = [
            as_settings(Column, {**table, "name": name}, where=f"column {name!r}: ")
            for name, table in described.items()
        ]
        return as_settings(Schema, {**content, "columns": columns})

    def save(self, path: str | os.PathLike[str], comments: Sequence[str] = ()) -> None:
        """Write a TOML file, atomically, that begins with ``comments``."""
        content = self.to_json() | {"missing": [*self.missing]}
        lines = [f"# {printable(comment)}" for comment in comments]
        lines += [f"{key} = {as_toml(content[key])}" for key in content if key != "columns"]
        for column in self.columns:
            # Both ends are written, even a zero: people would think it forgotten.
            ends = {} if column.is_category else {"low": column.low, "high": column.high}
            described = ends | content["columns"][column.name]
            lines += ["", f"[columns.{as_toml(column.name)}]"]
            lines += [f"{key} = {as_toml(value)}" for key, value in described.items()]
        atomic.write_text(path, "\n".join(lines) + "\n")

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Schema:
        """The schema in a TOML file; `SettingsError` for anything that is not one."""
        if str(path).lower().endswith((".csv", ".parquet")):
            raise SettingsError(
                f"{path}: it looks like a table; expected a schema, a .toml file: 'safle schema "
                "draft' makes one of a table"
            )
        content = read_toml(path, "a schema")
        with naming(path):
            return Schema.from_json(content)


def _changed_fields(value: Column | Schema) -> dict[str, Any]:
    """The fields that do not have their defaults; tuples become lists."""
    defaults = {field.name: field.default for field in fields(value)}
    changed = {name: held for name, held in asdict(value).items() if held != defaults[name]}
    return {name: [*held] if isinstance(held, tuple) else held for name, held in changed.items()}
