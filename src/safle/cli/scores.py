"""Scores of a classifier, by scikit-learn's metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from safle.cli.reading import batches, match, open_labelled
from safle.cli.session import Advance, Session
from safle.encoders.features import ClassName, as_class_names
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
    by_class : float64, (class_count, 4): precision, recall, F1 (NaN where one is not defined)
        and support
    """

    names: tuple[ClassName, ...]
    matrix: NDArray[np.int64]
    by_class: NDArray[np.float64]

    @classmethod
    def of(
        cls, names: tuple[ClassName, ...], true: NDArray[Any], predicted: NDArray[Any]
    ) -> Scores:
        """From the positions in ``names`` of true and predicted classes, (samples,) each."""
        places = np.arange(len(names))
        figures = precision_recall_fscore_support(
            true, predicted, labels=places, zero_division=np.nan
        )
        matrix = confusion_matrix(true, predicted, labels=places)
        return cls(names, matrix, np.stack(figures, axis=1))

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.matrix) / self.matrix.sum())

    @property
    def balanced(self) -> float:
        """Mean recall of the classes that have samples."""
        return float(np.nanmean(self.by_class[:, 1]))

    def facts(self) -> dict[str, object]:
        right, total = int(np.trace(self.matrix)), int(self.matrix.sum())
        return {
            "accuracy": f"{self.accuracy:.2%} ({right:,} of {total:,})",
            "balanced accuracy": f"{self.balanced:.2%}",
        }

    def rows(self) -> list[list[str]]:
        """Name, precision, recall, F1, support of each class."""
        return [
            [str(name), *("-" if np.isnan(x) else f"{x:.1%}" for x in three), f"{support:,.0f}"]
            for name, (*three, support) in zip(self.names, self.by_class.tolist(), strict=True)
        ]

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
        figures = [[None if np.isnan(x) else x for x in row] for row in self.by_class.tolist()]
        columns = zip(self.names, figures, self.matrix.sum(axis=1).tolist(), strict=True)
        return {
            "samples": int(self.matrix.sum()),
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced,
            "classes": [
                {"name": name, "precision": p, "recall": r, "f1": f1, "support": support}
                for name, (p, r, f1, _), support in columns
            ],
            "confusion": self.matrix.tolist(),
        }


def score(
    session: Session, model: Model, path: Path, batch: int, advance: Advance, **selection: Any
) -> Scores:
    """Scores of ``model`` on a labelled table, read batch by batch."""
    # What does not say is let pass here: nothing is added to anyone's sum.
    table = match(session, open_labelled(path, **selection), model.encoder, path, trusted=True)
    if table.labels is None or not len(table):
        raise InvalidInput(f"{path}: has no samples; nothing can be evaluated")
    try:
        names = as_class_names([*{*model.class_names, *table.labels.tolist()}])
    except InvalidInput as error:
        raise InvalidInput(f"{path}: labels and the model's classes differ: {error}") from error
    places = {name: at for at, name in enumerate(names)}
    sides: tuple[list[int], list[int]] = ([], [])
    for features, labels, named in batches(path, table, batch, advance):
        with named():
            predicted = model.predict(features)
        for side, found in zip(sides, (labels, predicted), strict=True):
            side += [places[name] for name in found.tolist()]
    return Scores.of(names, *(np.array(side) for side in sides))
