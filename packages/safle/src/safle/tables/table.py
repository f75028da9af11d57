"""A table: features with or without labels; and which parts of a file they are."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safle.basics.progress import Progress, no_progress
from safle.basics.texts import name_some, split_names
from safle.errors import InvalidInput, SafleError, SafleWarning, TableError
from safle.tables.checks import match_columns
from safle.tables.schema import LABEL_COLUMN, Schema

BATCH = 4096
"""Samples that are read at a time; no result depends on it."""


@dataclass(frozen=True, eq=False)
class Table:
    """Features and labels of the same samples, in the same order.

    Attributes
    ----------
    features : (sample_count, feature_dim)
        A numpy array, or a memory map of the file.
    labels : int64 or str, (sample_count,), or None
    class_names : tuple of str, or None
        The names of all classes if the file declares them, in its order;
        some may have no sample here.
    source, device : str
        What made the features (a backbone's name, weights and preprocessing), and where it ran:
        "cpu" or "gpu:0". Empty if the file does not declare it.
    names : tuple of str
        The names of the features if the file has a column for each, else empty.
    ids : str, (sample_count,), or None
        The names of the samples: of the images in a features file, or from the ``id_column``.

    Examples
    --------
    >>> table = Table(np.array([[46.0, 4.5], [60.0, 23.0]]), np.array(["cat", "dog"]))
    >>> len(table), table.feature_dim
    (2, 2)
    >>> [labels.tolist() for _, labels in table.batches(1)]
    [['cat'], ['dog']]
    """

    features: NDArray[Any]
    labels: NDArray[Any] | None = None
    class_names: tuple[str, ...] | None = None
    source: str = ""
    names: tuple[str, ...] = ()
    ids: NDArray[Any] | None = None
    device: str = ""

    @property
    def feature_dim(self) -> int:
        return int(self.features.shape[1])

    def __len__(self) -> int:
        return len(self.features)

    def arrange(self, names: Sequence[str], *, where: str) -> Self:
        """The same samples, with the features ``names`` in that order.

        If the table has no names, or ``names`` is empty, columns stay as they are, with a
        warning. `TableError` lists the columns that are missing or unknown.
        """
        if self.names == (*names,):
            return self
        places = match_columns(names, self.names, where=where)
        if places is None:
            return self
        return replace(self, features=self.features[:, places], names=(*names,))

    def batches(self, size: int) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        """All samples in order, ``size`` at a time, the last batch perhaps fewer.

        Yields
        ------
        features : (batch, feature_dim)
        labels : int64 or str, (batch,), or None
        """
        if size < 1:
            raise InvalidInput(f"a batch of {size} samples; expected at least 1")
        native = self.features.dtype.newbyteorder("=")
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            block = np.require(self.features[part], native, ["C", "ALIGNED", "ENSUREARRAY"])
            yield block, None if self.labels is None else self.labels[part]

    def for_each_batch(
        self,
        act: Callable[[NDArray[Any], Any], None],
        *,
        where: object,
        progress: Progress = no_progress,
    ) -> None:
        """Call ``act`` with features and labels of one batch after the other.

        Errors about samples name ``where`` and the first sample of the batch.
        """
        done = 0
        for features, labels in self.batches(BATCH):
            try:
                act(features, labels)
            except InvalidInput as error:
                batch = f", in the batch that begins with sample {done}" if done else ""
                raise InvalidInput(f"{where}{batch}: {error}") from error
            done += len(features)
            progress(done / len(self))


def check_features(features: NDArray[Any], *, where: str) -> None:
    """`TableError` unless ``features`` are a numeric matrix with at least one column."""
    if features.ndim != 2 or features.shape[1] < 1:
        raise TableError(
            f"{where} has shape {tuple(features.shape)}; expected (samples, features) with at "
            "least one feature: reshape images or sequences to one row per sample"
        )
    # Eight bytes: extended precision exists on some machines only.
    if features.dtype.kind not in "fiub" or features.dtype.itemsize > 8:
        raise TableError(
            f"{where} has type {features.dtype}; expected floating point or integer numbers"
        )


def find_label(
    where: str, names: list[str], wanted: str | None = None, default: str = LABEL_COLUMN
) -> str | None:
    """The column of labels among ``names``; the default may be missing."""
    if wanted is None:
        return default if default in names else None
    return require_name(where, wanted, names)


def find_excluded(
    where: str,
    names: list[str],
    ignore: Sequence[str],
    id_column: str | None = None,
    schema: Schema | None = None,
) -> set[str]:
    """Columns that are neither features nor labels."""
    excluded = find_columns(where, ignore, names)
    if schema is not None:
        excluded.update(schema.ignore, schema.sparse)
    if id_column is not None:
        excluded.add(require_name(where, id_column, names))
    return excluded


def refuse_options(path: Path, **options: object) -> None:
    """Raise if the caller gave one of ``options``, which this type of file does not have."""
    for name, value in options.items():
        if value:
            raise TableError(
                f"{path}: {name}={str(value)!r} does not apply to {path.suffix} files; leave it out"
            )


def find_arrays(path: Path, split: str | None, available: Iterable[str]) -> tuple[str, str | None]:
    """The names of the arrays of features and of labels, the latter None if there are none."""
    present = sorted(available)
    features = "features"
    if split is not None or features not in present:
        splits = [name.removesuffix("_features") for name in present if name.endswith("_features")]
        instead = "no splits, only " + (name_some(present) or "nothing")
        chosen = choose_split(path, split, splits, TableError, instead)
        if chosen is None:
            raise TableError(
                f"{path}: has {name_some(present) or 'no arrays'}; expected 'features' or "
                "'<split>_features': save the array under one of these names"
            )
        features = f"{chosen}_features"
    labels = features.removesuffix("features") + "labels"
    return features, labels if labels in present else None


def require_name(where: str, name: str, present: list[str]) -> str:
    """``name``; `TableError` unless it is a column that is ``present``."""
    if name not in present:
        raise TableError(f"{where}: no column {name!r}; it has {name_some(present) or 'none'}")
    return name


def find_columns(where: str, texts: Sequence[str], names: list[str]) -> set[str]:
    """The columns that ``texts`` name; a text may name several, separated by commas.

    A warning lists those that are not among ``names``.
    """
    # A column's name may have a comma in it.
    named = [[text] if text in names else split_names(text) for text in texts]
    chosen = {name for parts in named for name in parts}
    if absent := sorted(chosen - {*names}):
        warnings.warn(f"{where}: no column {', '.join(absent)}", SafleWarning, stacklevel=4)
    return chosen


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
            f"{where}: has the splits {name_some(names)}; say which with --split NAME "
            "(split= in Python)"
        )
    if wanted is not None and wanted not in names:
        raise error(f"{where}: no split {wanted!r}; it has {name_some(names) or instead}")
    return wanted if wanted is not None else next(iter(names), None)
