"""What a caller asked for: which file, which arrays or columns of it."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from safle.encoders.schema import LABEL_COLUMN, Schema
from safle.errors import SafleError, TableError

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
        for option in options:
            value = getattr(self, option)
            if value != getattr(type(self), option):
                raise TableError(
                    f"{path}: {option}={str(value)!r} does not apply to {path.suffix} files; "
                    "leave it out"
                )

    def keys(self, path: Path, available: Iterable[str]) -> tuple[str, str | None]:
        """The keys of the features and of the labels, the latter None if there are none."""
        self.refuse(path, *COLUMN_OPTIONS)
        present = sorted(available)
        pairs = _find_pairs(present)
        if self.features_key is not None:
            if self.split is not None:
                raise TableError(
                    f"{path}: split={self.split!r} and features_key={self.features_key!r} "
                    "were both given; name the features by one of them"
                )
            features_key = _existing(path, self.features_key, present, "features_key")
        elif self.split is None and "" in pairs:
            features_key = pairs[""]
        else:
            features_key = pairs[self._split(path, pairs, present)]
        if self.labels_key is not None:
            return features_key, _existing(path, self.labels_key, present, "labels_key")
        return features_key, next((k for k in _partners(features_key) if k in present), None)

    def _split(self, path: Path, pairs: Iterable[str], present: list[str]) -> str:
        instead = "no splits, only " + (listed(present) or "nothing")
        split = choose_split(path, self.split, filter(None, pairs), TableError, instead)
        if split is None:
            raise TableError(
                f"{path}: has {listed(present) or 'no arrays'}; expected 'features' or "
                "'<split>_features': name the array with --features-key KEY "
                "(features_key= in Python)"
            )
        return split

    def passed_over(self, where: str, names: list[str]) -> set[str]:
        """Columns that are neither features nor labels."""
        own = {"id_column": self.id_column, "weight_column": self.weight_column}
        given = [_existing(where, key, names, name) for name, key in own.items() if key is not None]
        declared = () if self.schema is None else (*self.schema.ignore, *self.schema.sparse)
        return {*self.ignore, *declared, *given}

    def label_in(self, where: str, names: list[str]) -> str | None:
        """The column of labels among ``names``; it may be missing unless it was asked for."""
        usual = LABEL_COLUMN if self.schema is None else self.schema.label_column
        return find_label(where, self.label_column, names, usual)


def _find_pairs(present: list[str]) -> dict[str, str]:
    """Each split's name, empty without one, and the key of its features."""
    found: dict[str, str] = {}
    for name, _ in _PAIRS:
        for key in present:
            split = "" if key == name else key.removesuffix(f"_{name}")
            if key == name or split not in ("", key):
                found.setdefault(split, key)
    return found


def _partners(features_key: str) -> list[str]:
    """Where the labels of these features may be, likeliest first."""
    for name, partner in _PAIRS:
        if features_key == name or features_key.endswith(f"_{name}"):
            return [features_key.removesuffix(name) + partner]
    return [partner for _, partner in _PAIRS]


def _existing(where: object, key: str, present: list[str], option: str) -> str:
    if key not in present:
        raise TableError(
            f"{where}: {option} is {key!r}, but it has {listed(present) or 'no arrays'}"
        )
    return key


def find_label(
    where: object, wanted: str | None, names: list[str], usual: str = LABEL_COLUMN
) -> str | None:
    """The column of labels among ``names``; the ``usual`` one may be missing, a wanted one not."""
    if wanted is None:
        return usual if usual in names else None
    if wanted not in names:
        raise TableError(f"{where}: no column {wanted!r}; it has {listed(names)}")
    return wanted


def existing_file(path: str | os.PathLike[str], error: type[SafleError]) -> Path:
    """``path``, if it is a regular file with something in it.

    >>> existing_file("nowhere.csv", SafleError)
    Traceback (most recent call last):
    safle.errors.SafleError: nowhere.csv: no such file or folder
    """
    file = Path(path)
    if file.is_dir():
        raise error(f"{file}: is a directory; expected a file in it")
    if not file.exists():
        raise error(f"{file}: no such file or folder")
    if not file.is_file():
        raise error(f"{file}: not a regular file; copy its contents into one")
    if file.stat().st_size == 0:
        raise error(f"{file}: is empty; copy or export it again")
    return file


def choose_split(
    where: object,
    wanted: str | None,
    available: Iterable[str | None],
    error: type[SafleError],
    instead: str = "no splits: leave it out",
) -> str | None:
    """The split to read; None if there are none. ``instead`` says what else there is.

    >>> choose_split("data", "test", ["train", "test"], SafleError)
    'test'
    """
    names = sorted({name for name in available if name is not None})
    if wanted is None and len(names) > 1:
        raise error(
            f"{where}: has the splits {listed(names)}; say which with --split NAME "
            "(split= in Python)"
        )
    if wanted is not None and wanted not in names:
        raise error(f"{where}: no split {wanted!r}; it has {listed(names) or instead}")
    return wanted if wanted is not None else next(iter(names), None)


def listed(names: Iterable[str], most: int = 20) -> str:
    """Names separated by commas, the first ``most`` of them.

    >>> listed("abc", most=2)
    'a, b, ...'
    """
    known = list(names)
    return ", ".join(known[:most]) + (", ..." if len(known) > most else "")
