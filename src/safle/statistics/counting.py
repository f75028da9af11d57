"""Counting: a stream of features and labels -> statistics, in memory that depends on D only.

Batches of any size are gathered into chunks of a fixed number of samples; sums of
integers do not depend on where a chunk ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.encoders import Encoder
from safle.encoders.codes import Codes
from safle.encoders.features import ClassName, as_class_names, as_features, as_labels
from safle.errors import InvalidInput
from safle.statistics.kernels import count as kernels
from safle.statistics.kernels import triangle
from safle.statistics.products import add_products
from safle.statistics.value import RunningTotal, Statistics

GATHERED = 8_192
"""Samples gathered before they are counted: a code first seen later makes the gram move."""
SMALLEST_PASS = 2_048
"""Samples counted in one pass over the gram: their one-hot rows for a block of columns
should stay in the L2 cache, and enough of them should meet in a row to pay for it."""
ROWS_WORTH_A_PASS = 128
WIDE_TABLE = 160
"""Mean seen symbols per expert above which single increments beat added rows."""


def count(
    encoder: Encoder,
    features: ArrayLike,
    labels: ArrayLike,
    *,
    classes: Sequence[ClassName] | None = None,
) -> Statistics:
    """Statistics of one array of features, (samples, feature_dim), and its labels."""
    counter = Counter(encoder, classes=classes)
    counter.add(features, labels)
    return counter.statistics()


class Counter:
    """Streaming counts. ``classes`` declares the only names that labels may have."""

    def __init__(self, encoder: Encoder, *, classes: Sequence[ClassName] | None = None) -> None:
        self.encoder = encoder
        self._declared = None if classes is None else as_class_names(classes)
        self._found: set[ClassName] = set()
        self._total = RunningTotal.of(encoder)
        self._pending: list[tuple[Codes, NDArray[Any]]] = []
        self._pending_samples = 0
        self._used_up = False
        sizes = encoder.layout.table_sizes
        mean_size = sum(sizes) // max(len(sizes), 1)
        self._pass = int(np.clip(ROWS_WORTH_A_PASS * mean_size, SMALLEST_PASS, GATHERED))

    def add(self, features: ArrayLike, labels: ArrayLike) -> None:
        """Count a batch; nothing of a refused batch is counted."""
        if self._used_up:
            raise InvalidInput("this counter has given its statistics; count on in a new one")
        checked = as_features(features, self.encoder.feature_dim)
        names = as_labels(labels, len(checked))
        found = self._check_names(names)
        self._total.reserve(self._pending_samples + len(checked))
        self._found |= found
        for first in range(0, len(checked), GATHERED):
            part = slice(first, first + GATHERED)
            self._add_part(self.encoder.encode_checked(checked[part]), names[part])

    def statistics(self) -> Statistics:
        """What has been counted so far; the counter is used up."""
        self._flush()
        self._used_up = True
        return self._total.statistics()

    def _add_part(self, codes: Codes, labels: NDArray[Any]) -> None:
        self._pending.append((codes, labels))
        self._pending_samples += len(labels)
        if self._pending_samples >= GATHERED:
            self._flush()

    def _check_names(self, labels: NDArray[Any]) -> set[ClassName]:
        found = set(labels.tolist())
        if self._declared is not None and not found <= set(self._declared):
            unknown = sorted(found - set(self._declared), key=str)
            raise InvalidInput(
                f"labels contain {_listing(unknown)}, which are not among the declared classes "
                f"{_listing(self._declared)}"
            )
        as_class_names([*(self._found | found)])
        return found

    def _flush(self) -> None:
        if not self._pending:
            return
        codes = [part for part, _ in self._pending]
        symbols = np.concatenate([part.symbols for part in codes])
        dense = np.concatenate([part.dense for part in codes])
        names, labels = np.unique(
            np.concatenate([labels for _, labels in self._pending]), return_inverse=True
        )
        self._pending, self._pending_samples = [], 0
        total = self._total
        total.widen_classes(names.tolist())
        places = np.array([total.class_names.index(name) for name in names.tolist()], np.int64)
        labels = places[labels]
        total.class_counts += np.bincount(labels, minlength=len(total.class_counts))
        if self.encoder.layout.experts:
            self._make_room(symbols)
            for first in range(0, len(labels), self._pass):
                part = slice(first, first + self._pass)
                self._count_symbols(symbols[part], dense[part], labels[part])
        if self.encoder.layout.dense_dim:
            gram = total.gram[-triangle.packed_size(self.encoder.layout.dense_dim) :]
            add_products(gram, total.cross[len(total.codes) :], dense, labels)

    def _make_room(self, symbols: NDArray[Any]) -> None:
        seen = np.zeros(self.encoder.layout.code_count, np.bool_)
        kernels.mark_seen(symbols, self.encoder.layout.bases, seen)
        self._total.widen_codes(np.flatnonzero(seen))

    def _count_symbols(
        self, symbols: NDArray[Any], dense: NDArray[np.int16], labels: NDArray[np.int64]
    ) -> None:
        total, layout = self._total, self.encoder.layout
        ranks = np.zeros(layout.code_count, np.int32)
        ranks[total.codes] = np.arange(len(total.codes))
        offsets = np.searchsorted(total.codes, layout.bases).astype(np.int64)
        columns = np.empty((layout.experts, len(symbols)), np.int32)
        kernels.to_columns(symbols, layout.bases, ranks, columns)
        order = np.empty(columns.shape, np.uint32)
        starts = np.empty(len(total.codes), np.int64)
        kernels.group_samples(columns, offsets, order, starts)
        wide = len(total.codes) > WIDE_TABLE * layout.experts
        pairs = kernels.count_single_pairs if wide else kernels.count_block_pairs
        pairs(columns, offsets, order, starts, total.dim, total.gram)
        kernels.count_margins(columns, labels, offsets, total.dim, total.gram, total.cross)
        if layout.dense_dim:
            kernels.count_mixed(offsets, order, starts, dense, total.dim, total.gram)


def _listing(names: Sequence[ClassName]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
