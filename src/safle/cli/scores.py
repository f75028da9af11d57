"""Scores of a classifier, all from its confusion matrix."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.cli.reading import batches, open_labelled
from safle.cli.session import Advance
from safle.encoders.features import ClassName, as_class_names
from safle.encoders.source import check_source
from safle.errors import InvalidInput
from safle.model import Model

MATRIX_SHOWN = 20
"""More classes than this do not fit a terminal; their worst confusions are listed."""
PAIRS_SHOWN = 10


@dataclass(frozen=True)
class Scores:
    """What can be said about predictions.

    Attributes
    ----------
    names : classes of the model and of the labels
    matrix : int64, (class_count, class_count); rows are true, columns predicted
    """

    names: tuple[ClassName, ...]
    matrix: NDArray[np.int64]

    @property
    def support(self) -> NDArray[np.int64]:
        return self.matrix.sum(axis=1)

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.matrix) / self.matrix.sum())

    @property
    def recall(self) -> NDArray[np.float64]:
        """NaN where a class has no samples."""
        return _ratio(np.diagonal(self.matrix), self.support)

    @property
    def precision(self) -> NDArray[np.float64]:
        """NaN where a class is never predicted."""
        return _ratio(np.diagonal(self.matrix), self.matrix.sum(axis=0))

    @property
    def balanced(self) -> float:
        """Mean recall of the classes that have samples."""
        return float(np.nanmean(self.recall))

    def facts(self) -> dict[str, object]:
        right, total = int(np.trace(self.matrix)), int(self.matrix.sum())
        return {
            "accuracy": f"{self.accuracy:.2%} ({right:,} of {total:,})",
            "balanced accuracy": f"{self.balanced:.2%}",
        }

    def rows(self) -> list[list[str]]:
        """Name, precision, recall, F1, support of each class."""
        f1 = _ratio(2 * np.diagonal(self.matrix), self.support + self.matrix.sum(axis=0))
        columns = zip(self.names, self.precision, self.recall, f1, self.support, strict=True)
        return [[str(name), *map(_share, three), f"{n:,}"] for name, *three, n in columns]

    def confusion_lines(self) -> list[str]:
        """The matrix as text, or its largest errors if there are many classes."""
        if len(self.names) > MATRIX_SHOWN:
            return self._worst_lines()
        cells = [["true \\ predicted", *map(str, self.names)]]
        for name, row in zip(self.names, self.matrix.tolist(), strict=True):
            cells.append([str(name), *(str(count) if count else "." for count in row)])
        widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
        return [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in cells
        ]

    def _worst_lines(self) -> list[str]:
        errors = self.matrix - np.diag(np.diagonal(self.matrix))
        order = np.argsort(-errors, axis=None, kind="stable")[:PAIRS_SHOWN]
        pairs = [divmod(int(at), len(self.names)) for at in order]
        return [
            f"the most frequent confusions of {len(self.names)} classes:",
            *(
                f"  {self.names[true]} taken for {self.names[taken]}: {errors[true, taken]}"
                for true, taken in pairs
                if errors[true, taken]
            ),
        ]

    def to_json(self) -> dict[str, Any]:
        """All figures; null where one is not defined."""
        return {
            "samples": int(self.matrix.sum()),
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced,
            "classes": [
                {
                    "name": name,
                    "precision": _or_null(precision),
                    "recall": _or_null(recall),
                    "support": int(support),
                }
                for name, precision, recall, support in zip(
                    self.names, self.precision, self.recall, self.support, strict=True
                )
            ],
            "confusion": self.matrix.tolist(),
        }


def score(model: Model, path: Path, batch: int, advance: Advance, **selection: Any) -> Scores:
    """Scores of ``model`` on a labelled table, read batch by batch."""
    table = open_labelled(path, **selection)
    # What does not say is let pass here: nothing is added to anyone's sum.
    check_source(model.encoder.source, table.source, where=str(path), trusted=True)
    if table.labels is None or not len(table):
        raise InvalidInput(f"{path}: has no samples; nothing can be evaluated")
    try:
        names = as_class_names([*{*model.class_names, *table.labels.tolist()}])
    except InvalidInput as error:
        raise InvalidInput(f"{path}: labels and the model's classes differ: {error}") from error
    places = {name: at for at, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)), np.int64)
    for features, labels, named in batches(path, table, batch, advance):
        with named():
            predicted = model.predict(features).tolist()
        true = labels.tolist()
        rows, columns = ([places[name] for name in side] for side in (true, predicted))
        np.add.at(matrix, (rows, columns), 1)
    return Scores(names, matrix)


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)


def _share(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1%}"


def _or_null(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
