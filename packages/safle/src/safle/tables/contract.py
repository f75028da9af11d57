"""A contract: what an encoder expects of features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike, NDArray

from safle.tables.checks import (
    ClassName,
    Ranges,
    as_class_names,
    as_features,
    as_names,
    as_ranges,
    as_source,
)
from safle.tables.schema import Schema
from safle.tables.sources import arrange_frame


@dataclass(frozen=True, eq=False)
class Contract:
    """What an encoder expects of features; an encoder itself sees float arrays only.

    Attributes
    ----------
    feature_dim : how many features a sample has
    source : what makes the features: empty, or a backbone's name, weights and preprocessing
    names : what the features are called, in order: empty, or a name for each
    ranges : lowest and highest expected values, (feature_dim,) each, where that was declared;
        values outside are still encoded, and their number is reported: see `safle.tables.findings`
    classes : the only labels that are counted: empty if any are
    schema : what the columns of tables are, where that was declared
    gaps : whether features may be missing: NaN

    Examples
    --------
    >>> Contract(2, names=("age", "dose")).check([[46, 4.5]]).tolist()
    [[46.0, 4.5]]
    """

    feature_dim: int
    source: str = ""
    names: tuple[str, ...] = ()
    ranges: Ranges | None = None
    classes: tuple[ClassName, ...] = ()
    schema: Schema | None = None
    gaps: bool = False

    def __post_init__(self) -> None:
        as_source(self.source)
        object.__setattr__(self, "names", as_names(self.names, self.feature_dim))
        object.__setattr__(self, "classes", as_class_names(self.classes))
        if self.ranges is not None:
            object.__setattr__(self, "ranges", as_ranges(*self.ranges, self.feature_dim))

    @staticmethod
    def of_schema(schema: Schema) -> Contract:
        """The names, ranges and classes of a schema, which allows gaps.

        >>> from safle import Column
        >>> Contract.of_schema(Schema((Column("age", 0, 90),))).names
        ('age',)
        """
        return Contract(
            schema.feature_dim,
            names=schema.names,
            ranges=schema.ranges,
            classes=schema.classes,
            schema=schema,
            gaps=True,
        )

    def declare(self, **facts: Any) -> Contract:
        """The contract with these fields; a field that is None stays.

        >>> Contract(1).declare(source="a network", names=None).source
        'a network'
        """
        return replace(self, **{name: fact for name, fact in facts.items() if fact is not None})

    def check(self, features: ArrayLike) -> NDArray[Any]:
        """Features as `Encoder.encode_checked` takes them, (samples, feature_dim).

        The columns of a frame (pandas, polars, pyarrow) are matched by name, and read as the
        schema says, if there is one.
        """
        arranged = arrange_frame(features, self.names, self.schema)
        return as_features(arranged, self.feature_dim, gaps=self.gaps)

    def to_json(self) -> dict[str, Any]:
        """What is declared, as plain values; a schema has its own, and contains its ranges."""
        content: dict[str, Any] = {
            "source": self.source,
            "features": [*self.names],
            "classes": [*self.classes],
        }
        if self.ranges is not None and self.schema is None:
            content["ranges"] = [end.tolist() for end in self.ranges]
        return {name: value for name, value in content.items() if value}
