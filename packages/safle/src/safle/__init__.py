"""safle: single-round analytic federated learning.

Clients turn features into integer codes and count co-occurrences; a server adds the
counts and solves one linear system. Names are imported where they are first used, so
``import safle`` stays light.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.encoders import (
        EmbeddingEncoder,
        Encoder,
        LinearEncoder,
        RandomFeatureEncoder,
        TableEncoder,
        load_encoder,
    )
    from safle.encoders.calibration import DeclaredMoments, DeclaredRange, PublicSample
    from safle.encoders.histogram import Grid, Histogram
    from safle.encoders.registry import make_encoder
    from safle.encoders.schema import Column, Schema, merge_schemas
    from safle.errors import SafleError
    from safle.evaluation.counts import Evaluation, read_evaluation, write_evaluation
    from safle.evaluation.evaluating import evaluate, fit_temperature
    from safle.evaluation.figures import Figures
    from safle.model import Model, load_model
    from safle.model.estimator import SafleClassifier
    from safle.server import Store
    from safle.solver import Solution, solve
    from safle.statistics import Accumulator, Statistics, count, sum_statistics
    from safle.wire import (
        read_histogram,
        read_statistics,
        write_histogram,
        write_statistics,
    )

# What goes on is said to the logger "safle": it is silent until a program asks for it.
logging.getLogger("safle").addHandler(logging.NullHandler())

__all__ = [
    "Accumulator",
    "Column",
    "DeclaredMoments",
    "DeclaredRange",
    "EmbeddingEncoder",
    "Encoder",
    "Evaluation",
    "Figures",
    "Grid",
    "Histogram",
    "LinearEncoder",
    "Model",
    "PublicSample",
    "RandomFeatureEncoder",
    "SafleClassifier",
    "SafleError",
    "Schema",
    "Solution",
    "Statistics",
    "Store",
    "TableEncoder",
    "count",
    "evaluate",
    "fit_temperature",
    "load_encoder",
    "load_model",
    "make_encoder",
    "merge_schemas",
    "read_evaluation",
    "read_histogram",
    "read_statistics",
    "solve",
    "sum_statistics",
    "write_evaluation",
    "write_histogram",
    "write_statistics",
]


_find = front_door(__name__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("safle")
    return _find(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
