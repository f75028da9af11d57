"""Features files -> the data of an experiment: of one backbone, of the same features.

A file is any table that safle reads, or tensors of torch. Of two files, neither may come from
another backbone: figures would be measured, and would mean nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from safle import Table, as_features, check_source, open_table
from safle.basics import name_some
from safle.errors import InvalidInput, SafleWarning, TableError
from safle_lab.experiments.data import DataSet
from safle_lab.experiments.tensors import SUFFIXES as TENSORS
from safle_lab.experiments.tensors import read_tensors

COLUMNS = (".csv", ".parquet")


def load_features(
    files: Sequence[Path], test: Path | None = None, *, clients_in: str = ""
) -> DataSet:
    """Labelled training and test samples: one file with both splits, or files of each.

    Parameters
    ----------
    files : of the training samples; where there are several, each is what one client holds
    test : of the test samples; without it, the one file has the splits ``train`` and ``test``
    clients_in : the column, or the array, that names the client of each training sample
    """
    if len(files) > 1 and (test is None or clients_in):
        raise InvalidInput(
            f"{len(files)} features files, one of each client; expected --test beside them, and "
            "no --clients"
        )
    first, last = files[0], test or files[0]
    splits = (None, None) if test else ("train", "test")
    training = [_open_labelled(file, splits[0], id_column=clients_in or None) for file in files]
    testing = _open_tested(last, splits[1], clients_in)
    for file, table in zip((*files[1:], last), (*training[1:], testing), strict=True):
        _check_alike(training[0], table, first=first, where=file)
    arranged = [table.arrange(training[0].names, where=str(first)) for table in training]
    tested = testing.arrange(training[0].names, where=str(last))
    labels = np.concatenate([np.asarray(table.labels) for table in training])
    test_labels = np.asarray(testing.labels)
    names, numbers = np.unique(labels, return_inverse=True)
    unknown = np.setdiff1d(test_labels, names)
    if len(unknown):
        raise TableError(
            f"{last}: test labels {unknown[:5].tolist()} occur in no training sample; expected "
            "the same classes in both splits"
        )
    held: dict[str, Any] = {}
    if len(files) > 1:
        held["clients"] = np.repeat(np.arange(len(files)), [len(table) for table in training])
        held["client_names"] = tuple(file.stem for file in files)
    elif clients_in:
        named = _read_clients(first, splits[0], clients_in, training[0])
        client_names, held["clients"] = np.unique(named, return_inverse=True)
        held["client_names"] = tuple(client_names.tolist())
        held["test_clients"] = _read_test_clients(
            last, splits[1], clients_in, testing, client_names
        )
    return DataSet(
        first.stem,
        np.concatenate([_as_features(table) for table in arranged]),
        numbers,
        _as_features(tested),
        np.searchsorted(names, test_labels),
        tuple(str(name) for name in names),
        training[0].source or first.name,
        **held,
    )


def _open_labelled(file: Path, split: str | None, **columns: Any) -> Table:
    """A table with labels; ``columns`` say which columns are not features, if it has columns."""
    if file.suffix.lower() in TENSORS:
        table = read_tensors(file, split)
    elif file.suffix.lower() in COLUMNS:
        table = open_table(file, split=split, **columns)
    else:
        table = open_table(file, split=split)
    if table.labels is None:
        name = "labels" if split is None else f"{split}_labels"
        raise TableError(f"{file}: has no labels; expected one for each sample, as {name!r}")
    return table


def _check_alike(one: Table, other: Table, *, first: Path, where: Path) -> None:
    """Two tables are of one backbone, of the same features, with one type of labels."""
    beside = f"{first} is of"
    check_source(one.source, other.source, where=str(where), trusted=True, beside=beside)
    if one.source != other.source:
        unnamed = first if other.source else where
        text = f"{unnamed} does not say which backbone made it: check that it is the same one"
        warnings.warn(text, SafleWarning, stacklevel=3)
    apart = sorted({*one.names} ^ {*other.names})
    if one.feature_dim != other.feature_dim or apart:
        only = f", and {name_some(apart)} in one of them only" if apart else ""
        raise TableError(
            f"{where}: {other.feature_dim} features beside {one.feature_dim} of {first}{only}; "
            "expected the same features in both, made in the same way"
        )
    expected, found = (np.asarray(table.labels).dtype.kind for table in (one, other))
    if expected != found:
        words = {"U": "text"}
        raise TableError(
            f"{where}: labels are {words.get(found, 'numbers')}, and those of {first} are "
            f"{words.get(expected, 'numbers')}; expected the same in both"
        )


def _open_tested(file: Path, split: str | None, clients_in: str) -> Table:
    """The test samples; their table may name its clients in the same column, or have none."""
    if clients_in and file.suffix.lower() in COLUMNS:
        with suppress(TableError):
            return _open_labelled(file, split, id_column=clients_in)
    return _open_labelled(file, split)


def _read_clients(file: Path, split: str | None, column: str, table: Table) -> NDArray[np.str_]:
    """The name of the client of each sample."""
    named: Any = _find_clients(file, split, column, table)
    if named is None:
        raise TableError(
            f"{file}: no array {column!r} of names or numbers; expected one that says which client "
            "holds each training sample"
        )
    if named.shape != (len(table),) or named.dtype.kind not in "OUiu" or "" in named.astype(str):
        raise TableError(
            f"{file}: {column!r} is {named.dtype} of shape {named.shape}; expected the name or "
            f"number of a client for each of {len(table)} samples"
        )
    names: NDArray[np.str_] = named.astype(str)
    return names


def _read_test_clients(
    file: Path, split: str | None, column: str, table: Table, client_names: NDArray[np.str_]
) -> NDArray[np.int64] | None:
    """The number of the client of each test sample, if the file says so."""
    if _find_clients(file, split, column, table) is None:
        return None
    named = _read_clients(file, split, column, table)
    unknown = np.setdiff1d(named, client_names)
    if len(unknown):
        raise TableError(
            f"{file}: test samples of clients {unknown[:5].tolist()}, who hold no training sample; "
            "expected the same clients in both"
        )
    return np.searchsorted(client_names, named).astype(np.int64)


def _find_clients(file: Path, split: str | None, column: str, table: Table) -> NDArray[Any] | None:
    """What a file says of its samples' clients; None if it does not."""
    if file.suffix.lower() in COLUMNS:
        return table.ids
    return _find_array(file, column if split is None else f"{split}_{column}")


def _find_array(file: Path, key: str) -> NDArray[Any] | None:
    """An array of a file that `open_table` has read, if it is there."""
    if file.suffix.lower() == ".npz":
        with np.load(file, allow_pickle=False) as archive, suppress(ValueError):
            if key in archive.files:
                return np.asarray(archive[key])
    elif file.suffix.lower() == ".safetensors":
        with safe_open(file, framework="numpy") as tensors:
            if key in tensors.keys():  # noqa: SIM118
                return np.asarray(tensors.get_tensor(key))
    return None


def _as_features(table: Table) -> NDArray[np.float32]:
    # A copy of what a file maps: torch warns of arrays that cannot be written to.
    return as_features(np.array(table.features, np.float32))


def describe_classes(data: DataSet, path: Path) -> DataSet:
    """The data with texts that describe their classes.

    Parameters
    ----------
    path : a table of the texts' embeddings, each labelled with the class it describes; the
        plainest text of a class ("a photo of a dog") comes before its others
    """
    table = open_table(path)
    if table.labels is None:
        raise TableError(f"{path}: no labels; expected the class that each text describes")
    rows = as_features(np.asarray(table.features, np.float32))
    labels = table.labels.astype(str)
    texts = [rows[labels == name] for name in data.class_names]
    unknown = np.setdiff1d(labels, data.class_names)
    counts = sorted({len(class_texts) for class_texts in texts})
    if len(unknown) or len(counts) > 1 or 0 in counts or rows.shape[1] != data.train.shape[1]:
        others = f", and of {unknown[:5].tolist()}, which no sample has" if len(unknown) else ""
        raise TableError(
            f"{path}: {' or '.join(map(str, counts))} texts for a class, of {rows.shape[1]} "
            f"features{others}; expected equally many for each of the {data.class_count} classes, "
            f"of {data.train.shape[1]} features"
        )
    return replace(data, texts=np.stack(texts))
