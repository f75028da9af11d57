"""Which arrays of a file are the features and the labels."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from safle.encoders.schema import Schema
from safle.errors import TableError
from safle.tables.common import LABEL_COLUMN, choose_split, find_label, listed, refuse_options

COLUMN_OPTIONS = ("label_column", "ignore", "id_column", "weight_column")
"""What applies only to files whose columns have names."""
# Our names first, scikit-learn's second.
_PAIRS = (("features", "labels"), ("X", "y"))


@dataclass(frozen=True)
class Selection:
    """What the caller asked for; see :func:`safle.tables.open_table`."""

    split: str | None = None
    features_key: str | None = None
    labels_key: str | None = None
    label_column: str | None = None
    ignore: tuple[str, ...] = ()
    id_column: str | None = None
    weight_column: str | None = None
    schema: Schema | None = None

    def refuse(self, path: Path, *options: str) -> None:
        """Raise if one of ``options``, which this kind of file has no use for, was given."""
        refuse_options(path, f"{path.suffix} files", self, *options, error=TableError)

    def keys(self, path: Path, available: Iterable[str]) -> tuple[str, str | None]:
        """The keys of the features and of the labels, the latter None if there are none."""
        self.refuse(path, *COLUMN_OPTIONS)
        present = sorted(available)
        features_key = self._features_key(path, present)
        if self.labels_key is not None:
            return features_key, _existing(path, self.labels_key, present, "labels_key")
        return features_key, next((k for k in _partners(features_key) if k in present), None)

    def passed_over(self, path: Path, names: list[str]) -> set[str]:
        """Columns that are neither features nor labels."""
        own = {"id_column": self.id_column, "weight_column": self.weight_column}
        given = [_existing(path, key, names, name) for name, key in own.items() if key is not None]
        declared = () if self.schema is None else (*self.schema.ignore, *self.schema.sparse)
        return {*self.ignore, *declared, *given}

    def label_in(self, path: Path, names: list[str]) -> str | None:
        """The column of labels among ``names``; it may be missing unless it was asked for."""
        usual = LABEL_COLUMN if self.schema is None else self.schema.label_column
        return find_label(path, self.label_column, names, TableError, usual)

    def _features_key(self, path: Path, present: list[str]) -> str:
        if self.features_key is not None:
            if self.split is not None:
                raise TableError(
                    f"{path}: split={self.split!r} and features_key={self.features_key!r} "
                    "were both given; name the features by one of them"
                )
            return _existing(path, self.features_key, present, "features_key")
        plain = next((name for name, _ in _PAIRS if name in present), None)
        if self.split is None and plain is not None:
            return plain
        splits = _splits(present)
        instead = "no splits, only " + (listed(present) or "nothing")
        split = choose_split(path, self.split, splits, TableError, instead)
        if split is None:
            raise TableError(
                f"{path}: has {listed(present) or 'no arrays'}; expected 'features' or "
                "'<split>_features': name the array with --features-key KEY "
                "(features_key= in Python)"
            )
        return splits[split]


def _splits(present: list[str]) -> dict[str, str]:
    """Each split's name and the key of its features."""
    found: dict[str, str] = {}
    for name, _ in _PAIRS:
        for key in present:
            split = key.removesuffix(f"_{name}")
            if split not in ("", key):
                found.setdefault(split, key)
    return found


def _partners(features_key: str) -> list[str]:
    """Where the labels of these features may be, likeliest first."""
    for name, partner in _PAIRS:
        prefix = features_key.removesuffix(name)
        if prefix != features_key and (not prefix or prefix.endswith("_")):
            return [prefix + partner]
    return [partner for _, partner in _PAIRS]


def _existing(path: Path, key: str, present: list[str], option: str) -> str:
    if key not in present:
        raise TableError(
            f"{path}: {option} is {key!r}, but it has {listed(present) or 'no arrays'}"
        )
    return key
