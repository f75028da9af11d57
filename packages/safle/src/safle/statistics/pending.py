"""Samples put aside until there are enough of them to count at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.encoders.code_space import CodeSpace
from safle.encoders.codes import Codes
from safle.encoders.features import ClassName, as_class_names
from safle.statistics import counting
from safle.statistics.samples import Samples
from safle.statistics.value import Margins


class Pending:
    """Codes and labels in the order in which they came; as long as there are samples in it."""

    def __init__(self) -> None:
        self._parts: list[tuple[Codes, NDArray[Any]]] = []
        self._samples = 0

    def __len__(self) -> int:
        return self._samples

    def add(self, codes: Codes, labels: NDArray[Any]) -> None:
        """Put samples aside."""
        self._parts.append((codes, labels))
        self._samples += len(labels)

    def take(self) -> tuple[Codes, list[ClassName], NDArray[np.int64]]:
        """All as one batch: codes, class names, and labels as places in them; none is left."""
        gathered = self._gather()
        self._parts, self._samples = [], 0
        return gathered

    def as_few(self, space: CodeSpace) -> tuple[Margins, Samples]:
        """What follows from these samples alone, and they themselves in place of their gram."""
        layout, (codes, names, labels) = space.layout, self._gather()
        seen = counting.seen_codes(codes.symbols, layout)
        rows = counting.rows_of(codes.symbols, layout, seen)
        cross = np.zeros((len(seen) + layout.dense_dim, len(names)), np.int64)
        counting.add_cross(cross, rows, codes.dense, labels)
        counts = np.bincount(labels, minlength=len(names))
        classes = as_class_names(names)
        margins = Margins(space, seen, cross, classes, counts)
        return margins, Samples(rows, codes.dense, margins.offsets)

    def _gather(self) -> tuple[Codes, list[ClassName], NDArray[np.int64]]:
        codes = [part for part, _ in self._parts]
        symbols = np.concatenate([part.symbols for part in codes])
        dense = np.concatenate([part.dense for part in codes])
        labels = np.concatenate([labels for _, labels in self._parts])
        names, places = np.unique(labels, return_inverse=True)
        return Codes(symbols, dense), names.tolist(), places
