"""Evaluation counts: a model's answers on a site's own samples, as integers.

- ``confusion[t, c]`` samples of class t were predicted as class c; the last t is for all classes
  that the model does not know;
- ``scores[c, 1, b]`` samples of class c, and ``scores[c, 0, b]`` of others, were given a
  probability of class c in bin b of 1024;
- ``confidence[r, b]`` answers were right (r = 1) or wrong with such a probability.

A probability p is in bin ``floor(asinh(log(p / (1 - p))) * 72 + 512)``, kept within 0 to 1023:
narrow near 1/2. All arrays add up over sites, and count the same samples. The file, of type 9, has
these sections in planes; its header has ``model`` (SHA-256 of the model's file),
``classes`` (the model's, ascending) and ``planes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from math import prod
from operator import add
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from safle.basics.memory import require_free_memory
from safle.basics.settings import as_settings
from safle.basics.texts import list_names, require_type
from safle.errors import CountOverflow, EncoderMismatch, InvalidInput, InvariantError
from safle.statistics.exposure import Exposure, expose_cells
from safle.statistics.histogram import MAX_SAMPLES
from safle.tables.checks import ClassName, as_class_names, is_digest
from safle.wire import container
from safle.wire.formats import Admit, FileFormat, Sections, read_header

BINS = 1024
BINS_PER_UNIT = 72
"""Bins per unit of asinh(log odds); p = 0.5 is the border in the middle."""
MAX_CLASSES = 10_000
Counts = NDArray[np.int64]


@cache
def odds_borders() -> NDArray[np.float64]:
    """Odds at which a bin ends and the next begins, (BINS - 1,), the same on any machine."""
    from decimal import Decimal

    exponentials = [
        (Decimal(step) / BINS_PER_UNIT).exp() for step in range(1 - BINS // 2, BINS // 2)
    ]
    return np.array([float(((g - 1 / g) / 2).exp()) for g in exponentials])


@cache
def bin_log_odds() -> NDArray[np.float64]:
    """The logarithm of the odds in the middle of each bin, (BINS,)."""
    return np.sinh((np.arange(BINS) - BINS / 2 + 0.5) / BINS_PER_UNIT)


@cache
def bin_probabilities() -> NDArray[np.float64]:
    """The probability in the middle of each bin, (BINS,)."""
    return 1 / (1 + np.exp(-bin_log_odds()))


class _Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: str
    classes: Annotated[list[ClassName], msgspec.Meta(max_length=MAX_CLASSES)]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Counts of a model's answers; they add up with ``+``.

    Attributes
    ----------
    model : digest of the model that answered
    class_names : of the model
    confusion : int64, (class_count + 1, class_count); rows are true classes, the last one of
        samples whose class the model does not know
    scores : int64, (class_count, 2, BINS): of other classes, of this one
    confidence : int64, (2, BINS): wrong answers, right ones

    Examples
    --------
    >>> import safle
    >>> encoder = safle.LinearEncoder.calibrated(safle.declared_range(0, 1, feature_dim=1))
    >>> features, labels = [[0.1], [0.2], [0.8], [0.9]], ["low", "low", "high", "high"]
    >>> model = safle.Model.of(encoder, safle.solve(safle.count(encoder, features, labels)))
    >>> site = safle.evaluate(model, features, labels)
    >>> (site + site).confusion.tolist()
    [[4, 0], [0, 4], [0, 0]]
    """

    format: ClassVar[str] = "evaluation counts"
    model: str
    class_names: tuple[ClassName, ...]
    confusion: Counts
    scores: Counts
    confidence: Counts

    def __post_init__(self) -> None:
        classes = len(self.class_names)
        if not 1 <= classes <= MAX_CLASSES or as_class_names(self.class_names) != self.class_names:
            raise InvalidInput(
                f"{classes} classes; expected 1 to {MAX_CLASSES}, in ascending order"
            )
        for name, shape in shapes(classes).items():
            counts = self.arrays[name]
            if counts.shape != shape or counts.dtype != np.int64:
                raise InvalidInput(
                    f"{name} is {counts.dtype} {counts.shape}; expected int64 {shape}"
                )
            if counts.min() < 0:
                raise InvariantError(f"{name} holds negative counts")
            # In floating point: the integer sum could wrap around.
            if counts.sum(dtype=np.float64) > MAX_SAMPLES * classes:
                raise CountOverflow(f"{name} counts more than {MAX_SAMPLES} samples")
            counts.setflags(write=False)
        self._verify()

    def _verify(self) -> None:
        """Refuse arrays that do not count the samples of the confusion matrix."""
        true_counts = self.confusion[:-1].sum(axis=1)
        right = int(np.trace(self.confusion))
        n = self.sample_count
        expected = {
            "scores of a class": (self.scores[:, 1].sum(axis=1), true_counts),
            "scores of others": (self.scores[:, 0].sum(axis=1), n - true_counts),
            "confidence": (self.confidence.sum(axis=1), np.array([n - right, right])),
        }
        for name, (found, counted) in expected.items():
            if not np.array_equal(found, counted):
                raise InvariantError(
                    f"{name} count {found[:3].tolist()} samples where the confusion matrix counts "
                    f"{counted[:3].tolist()}"
                )

    @staticmethod
    def empty(model: str, class_names: Sequence[ClassName]) -> Evaluation:
        """Counts of no answers."""
        empty = {name: np.zeros(size, np.int64) for name, size in shapes(len(class_names)).items()}
        return Evaluation(model, tuple(class_names), **empty)

    @property
    def arrays(self) -> dict[str, Counts]:
        """Its counts by name, in the order of its file."""
        return {name: getattr(self, name) for name in shapes(self.columns)}

    @property
    def cells(self) -> Iterator[Counts]:
        """Its counts of samples: all its entries."""
        return iter(self.arrays.values())

    @cached_property
    def sample_count(self) -> int:
        """How many samples were answered."""
        return int(self.confusion.sum())

    @property
    def class_counts(self) -> Counts:
        """Samples of each class, and of all unknown classes, (class_count + 1,)."""
        return self.confusion.sum(axis=1)

    @property
    def columns(self) -> int:
        return len(self.class_names)

    @property
    def made_with(self) -> Mapping[str, str]:
        return {"model": self.model}

    @property
    def most_samples(self) -> int:
        return MAX_SAMPLES

    def samples_by_class(self) -> dict[ClassName, int]:
        counts = zip((*self.class_names, "(unknown)"), self.class_counts.tolist(), strict=True)
        return {name: count for name, count in counts if count}

    def holds(self) -> str:
        return (
            f"how often each of {self.columns:,} classes was taken for which, and given which "
            "probability"
        )

    def facts(self) -> dict[str, str]:
        classes = list_names(self.class_names)
        return {"samples": f"{self.sample_count:,}", "classes": classes, "model": self.model}

    def exposure(self) -> Exposure:
        return expose_cells(self.sample_count, self.cells)

    def check_same(self, other: Evaluation) -> None:
        """`EncoderMismatch` for answers of another model."""
        require_type("the value", other, Evaluation)
        require_answers(other.model, other.class_names, self.model, self.class_names)

    def __add__(self, other: Evaluation) -> Evaluation:
        return self._combine(other, np.add)

    def __sub__(self, other: Evaluation) -> Evaluation:
        """Take a contribution back: the counts that never saw it."""
        return self._combine(other, np.subtract)

    def _combine(self, other: Evaluation, operation: np.ufunc) -> Evaluation:
        if type(other) is not type(self):
            return NotImplemented
        self.check_same(other)
        both = {name: operation(own, other.arrays[name]) for name, own in self.arrays.items()}
        return Evaluation(self.model, self.class_names, **both)

    def add_all(self, others: Iterable[Evaluation]) -> Evaluation:
        """The sum with all others."""
        return reduce(add, others, self)

    def declaration(self) -> dict[str, Any]:
        """The model and its classes, as JSON."""
        return {"model": self.model, "classes": [*self.class_names]}

    @classmethod
    def declared(cls, content: Mapping[str, Any]) -> Evaluation:
        """The zero of a `declaration`."""
        given = as_settings(_Declaration, content, where="evaluation counts: ")
        _check(given)
        require_free_memory(
            32 * _count_values(given.classes),
            purpose=f"evaluation counts of {len(given.classes):,} classes",
            advice="use a larger machine",
        )
        return Evaluation.empty(given.model, given.classes)

    def to_vector(self, zero: Evaluation) -> Counts:
        """The number of samples; then all arrays, in the order of the file."""
        zero.check_same(self)
        arrays = [counts.reshape(-1) for counts in self.arrays.values()]
        return np.concatenate([[self.sample_count], *arrays])

    def from_vector(self, vector: Counts) -> Evaluation:
        """Of a zero: the counts with this vector, verified."""
        ends = np.cumsum([counts.size for counts in self.arrays.values()])
        parts = zip(self.arrays.items(), np.split(vector[1:], ends[:-1]), strict=True)
        arrays = {name: part.reshape(counts.shape) for (name, counts), part in parts}
        value = Evaluation(self.model, self.class_names, **arrays)
        if value.sample_count != vector[0]:
            raise InvariantError(
                f"the counts are of {value.sample_count} samples; the vector says {vector[0]}"
            )
        return value

    def vector_bounds(self) -> Counts:
        bounds = np.ones(1 + _count_values(self.class_names), np.int64)
        bounds[0] = 0
        return bounds

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and (self.model, self.class_names) == (other.model, other.class_names)
            and all(np.array_equal(own, other.arrays[name]) for name, own in self.arrays.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Evaluation({self.sample_count:,} samples, {len(self.class_names)} classes, "
            f"model {self.model[:12]}…)"
        )


def require_answers(
    found: str, classes: Sequence[ClassName], model: str, class_names: Sequence[ClassName]
) -> None:
    """Refuse answers of another model than ``model``, or of other classes than its own.

    >>> require_answers("a1", ["ill", "well"], "b2", ["ill", "well"])
    Traceback (most recent call last):
    safle.errors.EncoderMismatch: counts of answers of model a1…; expected those of b2…: \
evaluate the same model everywhere
    """
    if (found, tuple(classes)) != (model, tuple(class_names)):
        raise EncoderMismatch(
            f"counts of answers of model {found[:12]}…; expected those of {model[:12]}…: evaluate "
            "the same model everywhere"
        )


def shapes(classes: int) -> dict[str, tuple[int, ...]]:
    """Shapes of an evaluation's arrays, by name, in the order of its file."""
    return {
        "confusion": (classes + 1, classes),
        "scores": (classes, 2, BINS),
        "confidence": (2, BINS),
    }


def find_cells(
    odds: NDArray[np.float64], predicted: NDArray[Any], true: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Entries of each flat array that count an answer, (samples, entries), by name.

    ``odds``, (samples, class_count), are inf if the answer is certain. ``predicted`` and ``true``
    are places of classes, (samples,); unknown classes have the place after the last.
    """
    classes = np.arange(odds.shape[1])
    bins = np.searchsorted(odds_borders(), odds, side="right")
    own = true[:, None] == classes
    best = bins[np.arange(len(bins)), predicted]
    return {
        "confusion": (true * len(classes) + predicted)[:, None],
        "scores": (classes * 2 + own) * BINS + bins,
        "confidence": ((predicted == true) * BINS + best)[:, None],
    }


class _Header(_Declaration, frozen=True, forbid_unknown_fields=True):
    """The header of a file of evaluation counts."""

    planes: dict[str, int]


def _describe(evaluation: Evaluation) -> tuple[dict[str, Any], Sections]:
    return evaluation.declaration(), evaluation.arrays


def _restore(
    opened: container.Container,
    like: Evaluation | None = None,
    admit: Admit = lambda _classes: None,
) -> Evaluation:
    header = read_header(_Header, opened)
    _check(header)
    classes = tuple(header.classes)
    if like is not None:
        require_answers(header.model, classes, like.model, like.class_names)
    admit(classes)
    opened.reserve(16 * _count_values(classes), f"evaluation counts of {len(classes)} classes")
    counts = {name: opened.array(name, shape) for name, shape in shapes(len(classes)).items()}
    opened.finish()
    return Evaluation(header.model, classes, **counts)


def _check(given: _Declaration) -> None:
    # Equal counts must have equal bytes.
    if not is_digest(given.model) or as_class_names(given.classes) != (*given.classes,):
        raise InvalidInput("the model is not a digest, or its classes are not ascending")


def _count_values(classes: Sequence[ClassName]) -> int:
    return sum(map(prod, shapes(len(classes)).values()))


FORMAT = FileFormat(container.EVALUATION, _describe, _restore, Evaluation)
