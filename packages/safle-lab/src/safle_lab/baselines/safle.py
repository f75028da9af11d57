"""SAFLe: buckets, shuffled groups, one table a group; solved from one round of counts.

"Single-Round Scalable Analytic Federated Learning", CVPR 2026.

Nothing is simulated: every client's counts become the bytes of its statistics file, and
the server solves their sum. ``columns = "linear"`` has linear columns in the tables' place, and
``"random-features"`` rectified sums (safle's default encoder, docs/heads.md); ``head =
"discriminant"`` reads the same sums as LDA, and ``"quadratic"``, from linear columns counted
``by_class``, with a covariance for each class. These are ours, not the paper's.
"""

from typing import Any, Literal

import numpy as np
from msgspec import structs

from safle import DeclaredRange, Grid, Histogram
from safle.encoders import EmbeddingEncoder, Encoder, kinds
from safle.model import Model
from safle.solver import Solution, solve
from safle.statistics import Accumulator, Statistics, count
from safle.wire import encode_histogram, encode_statistics
from safle_lab.baselines.base import Count, Features, Method, MethodSettings, Result, Task

Calibration = DeclaredRange | Histogram


class Coding(MethodSettings, frozen=True):
    """How features become codes.

    Attributes
    ----------
    group_size : digits per group, or "auto"
    calibration : see `Calibrated`
    bins : of the histograms
    """

    bucketing: str = "binary-overlap"
    buckets: int = 8
    group_size: int | str = 2
    calibration: Literal["histogram", "range"] = "histogram"
    bins: Count = 256


class Settings(Coding, frozen=True):
    """The settings of SAFLe.

    Attributes
    ----------
    columns : a kind of encoder
    units : random features, where the columns are those
    transform : of features, where the columns are linear
    by_class : of linear columns and random features; "auto" as safle's default encoder has it
    fraction_bits : of linear columns, see `safle.encoders.LinearEncoder`
    ridge, criterion, head : as `safle.solve` takes them
    """

    columns: Literal["embedding", "linear", "random-features"] = "embedding"
    ridge: float | str = "auto"
    criterion: str = "gcv"
    head: str = "least-squares"
    units: int | str = "auto"
    transform: str = "auto"
    by_class: bool | str = False
    fraction_bits: int | str = "auto"


class Calibrated:
    """Thresholds that all clients share, and what agreeing on them costs each.

    "histogram": every client sends exact counts of its values on a common grid, before
    the round; their sum does not depend on who holds what. "range": the grid itself, which
    everybody knows (pixels), so nothing is sent.
    """

    def __init__(self, task: Task, settings: Coding) -> None:
        low, high = _declared_range(task.features)
        self.bytes_up = 0.0
        self.calibration: Calibration
        if settings.calibration == "range":
            self.calibration = DeclaredRange(low, high, task.feature_dim)
            return
        grid = Grid(low, high, settings.bins)
        counts = np.zeros((task.feature_dim, grid.bins + 2), np.int64)
        sizes = []
        for features, _ in task.clients():
            own = Histogram.of(features, grid)
            sizes.append(len(encode_histogram(own)))
            counts += own.counts
        self.calibration = Histogram(grid, counts)
        self.bytes_up = float(np.mean(sizes))


def _declared_range(features: Features) -> tuple[float, float]:
    """The least power of two above all magnitudes; from 0 if nothing is negative."""
    high = float(2.0 ** np.ceil(np.log2(max(np.abs(features).max(), 1e-30))))
    return (0.0 if features.min() >= 0 else -high), high


def embedding_of(calibration: Calibration, settings: Coding, seed: int) -> EmbeddingEncoder:
    """The paper's encoder."""
    return EmbeddingEncoder.calibrated(calibration, **_chosen(EmbeddingEncoder, settings, seed))


def encoder_of(calibration: Calibration, settings: Settings, task: Task) -> Encoder:
    """The encoder that the settings ask for; all classes of the task are declared."""
    kind = kinds()[settings.columns]
    chosen = _chosen(kind, settings, task.seed)
    return kind.calibrated(calibration, class_count=task.class_count, **chosen)


def _chosen(kind: type[Encoder], settings: Coding, seed: int) -> dict[str, Any]:
    """What of the method's settings the kind has; "auto" is left to its default."""
    given = {"seed": seed, **structs.asdict(settings)}
    return {
        name: given[name]
        for name in kind.settings_type.declared()
        if given.get(name, "auto") != "auto"
    }


def counted(task: Task, encoder: Encoder) -> tuple[Statistics, float]:
    """The sum of all clients' statistics, and the mean size of their files."""
    total, sizes = Accumulator(encoder), []
    for features, labels in task.clients(reporting=0.9):
        own = count(encoder, features, labels)
        sizes.append(len(encode_statistics(own)))
        total.add(own)
    return total.snapshot(), float(np.mean(sizes))


def gram_density(statistics: Statistics) -> float:
    """Share of all pairs of columns, seen or not, that occur together."""
    dim = statistics.layout.embedding_dim
    pairs = 2 * int(np.count_nonzero(statistics.gram.packed)) - int(
        np.count_nonzero(statistics.diagonal)
    )
    return pairs / dim**2


def run(task: Task, settings: Settings) -> Result:
    """One round of SAFLe."""
    calibrated = Calibrated(task, settings)
    encoder = encoder_of(calibrated.calibration, settings, task)
    statistics, size = counted(task, encoder)
    solution = solve_as_told(statistics, settings)
    model = Model(encoder, solution)
    facts = {
        "statistics_bytes": size,
        "calibration_bytes": calibrated.bytes_up,
        "ridge": solution.ridge,
        "columns": encoder.layout.embedding_dim,
        "experts": encoder.layout.experts,
        "table_size": max(encoder.layout.table_sizes, default=0),
        "gram_density": gram_density(statistics),
    }
    down, up = model.to_bytes(), size + calibrated.bytes_up
    return Result(model, down, bytes_up=up, bytes_down=len(down), facts=facts)


def solve_as_told(statistics: Statistics, settings: Settings, **other: Any) -> Solution:
    """The solution with the settings' ridge, criterion and head, or with others."""
    chosen = {"ridge": settings.ridge, "criterion": settings.criterion, "head": settings.head}
    return solve(statistics, **{**chosen, **other})


def _method(name: str, title: str, settings: Settings, **more: Any) -> Method[Settings]:
    return Method(name, title, "analytic", run, settings, invariant=True, **more)


_DEFAULT = Settings(columns="random-features", head="auto", by_class="auto")
_SMALLEST = Settings(
    columns="linear",
    transform="square-root",
    by_class=True,
    fraction_bits=6,
    head="quadratic",
)
METHOD = _method("safle", "SAFLe", Settings(), grid={"buckets": (4, 8)})
SMALLEST = _method("safle-smallest", "safle's smallest (ours)", _SMALLEST)
DEFAULT = _method("safle-default", "safle's default (ours)", _DEFAULT)
