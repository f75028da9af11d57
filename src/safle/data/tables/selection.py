"""Which arrays of a file are the features and the labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from safle.data.tables.table import Rows
from safle.errors import TableError

LABEL_COLUMN = "label"

# Our names first, scikit-learn's second.
_PAIRS = (("features", "labels"), ("X", "y"))


class Contents(NamedTuple):
    """What a reader found: labels are still as the file has them, or None."""

    features: NDArray[Any] | Rows
    labels: NDArray[Any] | None
    class_names: tuple[str, ...] | None = None
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What the caller asked for; see :func:`safle.data.tables.open_table`."""

    split: str | None = None
    features_key: str | None = None
    labels_key: str | None = None
    label_column: str = LABEL_COLUMN

    def refuse(self, path: Path, *options: str) -> None:
        """Raise if one of ``options``, which this kind of file has no use for, was given."""
        for option in options:
            if getattr(self, option) != getattr(Selection, option):
                raise TableError(
                    f"{path}: {option}={getattr(self, option)!r} does not apply to "
                    f"{path.suffix} files; leave it out"
                )

    def keys(self, path: Path, available: Iterable[str]) -> tuple[str, str | None]:
        """The keys of the features and of the labels, the latter None if there are none."""
        self.refuse(path, "label_column")
        present = sorted(available)
        features_key = self._features_key(path, present)
        if self.labels_key is not None:
            return features_key, _existing(path, self.labels_key, present, "labels_key")
        return features_key, next((k for k in _partners(features_key) if k in present), None)

    def _features_key(self, path: Path, present: list[str]) -> str:
        if self.features_key is not None:
            if self.split is not None:
                raise TableError(
                    f"{path}: split={self.split!r} and features_key={self.features_key!r} "
                    "were both given; name the features by one of them"
                )
            return _existing(path, self.features_key, present, "features_key")
        if self.split is None:
            plain = next((name for name, _ in _PAIRS if name in present), None)
            if plain is not None:
                return plain
        return self._split_key(path, present)

    def _split_key(self, path: Path, present: list[str]) -> str:
        splits = _splits(present)
        if self.split is not None:
            if self.split not in splits:
                raise TableError(
                    f"{path}: no split {self.split!r}; it has "
                    f"{_listed(splits) or 'no splits, only ' + (_listed(present) or 'nothing')}"
                )
            return splits[self.split]
        if len(splits) > 1:
            raise TableError(
                f"{path}: has the splits {_listed(splits)}; say which with --split NAME "
                "(split= in Python)"
            )
        if not splits:
            raise TableError(
                f"{path}: has {_listed(present) or 'no arrays'}; expected 'features' or "
                "'<split>_features': name the array with --features-key KEY "
                "(features_key= in Python)"
            )
        return next(iter(splits.values()))


def _splits(present: list[str]) -> dict[str, str]:
    """Each split's name and the key of its features."""
    found: dict[str, str] = {}
    for name, _ in _PAIRS:
        for key in present:
            split = key.removesuffix(f"_{name}")
            if split not in ("", key):
                found.setdefault(split, key)
    return dict(sorted(found.items()))


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
            f"{path}: {option} is {key!r}, but it has {_listed(present) or 'no arrays'}"
        )
    return key


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
