"""Labels as safle uses them: int64 numbers or strings, one per sample, from arrays or text."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.encoders import features
from safle.errors import InvalidInput, TableError
from safle.tables.arrays import read_npy

_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")


def as_labels(values: ArrayLike, *, where: str) -> NDArray[Any]:
    """Labels, (samples,) or (samples, 1), as int64 or str, (samples,).

    Integers and strings stay what they are, booleans become 0 and 1, floats
    with integral values become integers; everything else is refused.
    """
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise TableError(f"{where} has shape {array.shape}; expected one label a sample")
    if array.dtype.kind == "f":
        # Beyond 2**53 neighbouring integers share one float64.
        fits = np.isfinite(array) & (array == np.round(array)) & (np.abs(array) <= 2.0**53)
        if not fits.all():
            sample = int(np.argmin(fits))
            raise TableError(
                f"{where} has a label at sample {sample} that is no whole number; expected "
                "classes, not measurements: save the labels as integers or strings"
            )
    if array.dtype.kind == "S":
        try:
            array = np.strings.decode(array, "utf-8")
        except UnicodeDecodeError:
            raise TableError(f"{where} has bytes that are not UTF-8; save text") from None
    if array.dtype.kind == "U":
        # Spaces around it would make a class of its own.
        array = np.strings.strip(array)
    try:
        return features.as_labels(array, len(array))
    except InvalidInput as error:
        raise TableError(f"{where}: {error}") from None


def parse_labels(texts: Sequence[str], *, where: str) -> NDArray[Any]:
    """Labels from text: int64 if every one is an integer, else all are strings.

    >>> [parse_labels(texts, where="here").tolist() for texts in (["7", "8"], ["7", "b"])]
    [[7, 8], ['7', 'b']]
    """
    if all(_INTEGER.fullmatch(text) for text in texts):
        try:
            return np.array([int(text) for text in texts], dtype=np.int64)
        except (OverflowError, ValueError):
            raise TableError(
                f"{where} has an integer label that does not fit in 64 signed bits; "
                "put a letter before the numbers to make them names"
            ) from None
    return np.array([text.strip() for text in texts], dtype=np.str_)


def name_labels(labels: NDArray[Any], names: tuple[str, ...], *, where: str) -> NDArray[Any]:
    """The ``names`` of class 0, 1, ... for class numbers; labels that are names already stay."""
    if labels.dtype.kind == "U":
        return labels
    unknown = (labels < 0) | (labels >= len(names))
    if unknown.any():
        raise TableError(
            f"{where} has a label at sample {int(np.argmax(unknown))} that is no class, its "
            f"metadata names {len(names)} classes, 0 to {len(names) - 1}; correct 'classes' or the "
            "labels"
        )
    named: NDArray[np.str_] = np.array(names, dtype=np.str_)[labels]
    return named


def read_label_file(path: Path) -> NDArray[Any]:
    """Labels from a .npy array or from a .txt or .csv file with one label a line."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return as_labels(read_npy(path), where=str(path))
    if suffix not in (".txt", ".csv"):
        raise TableError(
            f"{path}: labels in a {suffix or 'suffixless'} file; "
            "expected .npy, or .txt or .csv with one label a line"
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise TableError(f"{path}: not UTF-8 text; save it as UTF-8") from None
    rows = [*csv.reader(lines)] if suffix == ".csv" else [[line] for line in lines]
    for number, row in enumerate(rows, start=1):
        if len(row) > 1:
            raise TableError(
                f"{path}: line {number} has {len(row)} cells; expected one label a line "
                "and no header (a table of features is given as the first file)"
            )
        if not "".join(row).strip():
            raise TableError(f"{path}: line {number} is empty; expected one label a line")
    return parse_labels([row[0] for row in rows], where=str(path))
