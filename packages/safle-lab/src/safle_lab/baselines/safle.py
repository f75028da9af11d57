"""SAFLe: buckets, shuffled groups, one table per group; solved from one round of counts.

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

from safle import (
    Accumulator,
    Calibration,
    Encoder,
    Histogram,
    Model,
    Solution,
    Statistics,
    count,
    declared_range,
    encode,
    kinds,
    solve,
)
from safle.basics import describe
from safle_lab.baselines.base import Count, Method, MethodSettings, Result, Task


class Coding(MethodSettings, frozen=True):
    """How features become codes.

    Attributes
    ----------
    columns : a kind of encoder
    group_size : digits per group, or "auto"
    calibration : "histogram": every client sends exact counts of its values on a common grid,
        before the round; their sum does not depend on the partition. "range": the grid itself,
        which everybody knows (pixels), so nothing is sent. The grid ends at the least power of two
        above all magnitudes, and begins at 0 if nothing is negative
    bins : number of bins of the histograms
    """

    columns: Literal["embedding", "linear", "random-features"] = "embedding"
    bucketing: str = "binary-overlap"
    buckets: int = 8
    group_size: int | str = 2
    calibration: Literal["histogram", "range"] = "histogram"
    bins: Count = 256


class Settings(Coding, frozen=True):
    """The settings of SAFLe.

    Attributes
    ----------
    units : number of random features, if the columns are random features
    transform : of features, if the columns are linear
    by_class : of linear columns and random features; "auto" as safle's default encoder has it
    fraction_bits : of linear columns, see `safle.encoders.LinearEncoder`
    ridge, criterion, head : as `safle.solve` takes them
    priors : how frequent classes are taken to be: as they were counted, or all equally
    """

    ridge: float | str = "auto"
    criterion: str = "gcv"
    head: str = "least-squares"
    priors: Literal["counted", "uniform"] = "counted"
    units: int | str = "auto"
    transform: str = "auto"
    by_class: bool | str = False
    fraction_bits: int | str = "auto"


def shared_encoder(task: Task, settings: Coding) -> tuple[Encoder, float]:
    """The encoder that the settings ask for, and the mean bytes that each client sends for it."""
    calibration, cost = calibrate(task, settings)
    kind = kinds()[settings.columns]
    given = {"seed": task.seed, **structs.asdict(settings)}
    # The kind has defaults for everything that is "auto".
    declared = describe(kind.settings_type)
    chosen = {name: given[name] for name in declared if given.get(name, "auto") != "auto"}
    return kind.calibrated(calibration, class_count=task.class_count, **chosen), cost


def calibrate(task: Task, settings: Coding) -> tuple[Calibration, float]:
    """Where thresholds come from, and the mean bytes that each client sends for it."""
    high = float(2.0 ** np.ceil(np.log2(max(np.abs(task.features).max(), 1e-30))))
    low = 0.0 if task.features.min() >= 0 else -high
    if settings.calibration == "range":
        return declared_range(low, high, task.feature_dim), 0.0
    zero = Histogram.empty(low, high, task.feature_dim, bins=settings.bins)
    total = zero
    sizes = []
    for features, _ in task.clients():
        histogram = zero.count(features)
        sizes.append(len(encode(histogram)))
        total += histogram
    return total.calibration(), float(np.mean(sizes))


def count_clients(task: Task, encoder: Encoder) -> tuple[Statistics, float]:
    """The sum of all clients' statistics, and the mean size of their files."""
    total, sizes = Accumulator(encoder), []
    for features, labels in task.clients(reporting=0.9):
        statistics = count(encoder, features, labels)
        sizes.append(len(encode(statistics)))
        total.add(statistics)
    return total.snapshot(), float(np.mean(sizes))


def gram_density(statistics: Statistics) -> float:
    """Share of all pairs of columns, seen or not, that occur together."""
    dim = statistics.layout.dim
    pairs = 2 * int(np.count_nonzero(statistics.gram.packed)) - int(
        np.count_nonzero(statistics.diagonal)
    )
    return pairs / dim**2


def run(task: Task, settings: Settings) -> Result:
    """One round of SAFLe."""
    encoder, cost = shared_encoder(task, settings)
    statistics, size = count_clients(task, encoder)
    solution = solve_by(settings, statistics)
    model = Model.of(encoder, solution)
    facts = {
        "statistics_bytes": size,
        "calibration_bytes": cost,
        "ridge": solution.ridge,
        "columns": encoder.layout.dim,
        "experts": encoder.layout.experts,
        "table_size": int(encoder.layout.table_sizes.max(initial=0)),
        "gram_density": gram_density(statistics),
    }
    content = model.to_bytes()
    received = len(encoder.to_bytes()) + len(content)
    return Result(model, content, bytes_up=size + cost, bytes_down=received, facts=facts)


def solve_by(settings: Settings, statistics: Statistics, **other: Any) -> Solution:
    """The solution with the settings' ridge, criterion and head, or with others."""
    chosen: dict[str, Any] = {
        "ridge": settings.ridge,
        "criterion": settings.criterion,
        "head": settings.head,
        "priors": None if settings.priors == "counted" else settings.priors,
    }
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
UNIFORM = _method(
    "safle-uniform",
    "safle's default, uniform priors (ours)",
    structs.replace(_DEFAULT, priors="uniform"),
)
