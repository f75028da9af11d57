"""safle: single-round analytic federated learning.

Clients turn features into integer codes and count co-occurrences; a server adds the
counts and solves one linear system. Names are imported where they are first used, so
``import safle`` stays light.
"""

import logging
from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.encoders import EmbeddingEncoder as EmbeddingEncoder
    from safle.encoders import Encoder as Encoder
    from safle.encoders import LinearEncoder as LinearEncoder
    from safle.encoders import RandomFeatureEncoder as RandomFeatureEncoder
    from safle.encoders import TableEncoder as TableEncoder
    from safle.encoders import load_encoder as load_encoder
    from safle.encoders.calibration import Calibration as Calibration
    from safle.encoders.calibration import declared_moments as declared_moments
    from safle.encoders.calibration import declared_range as declared_range
    from safle.encoders.calibration import of_schema as of_schema
    from safle.encoders.calibration import public_sample as public_sample
    from safle.encoders.registry import make_encoder as make_encoder
    from safle.errors import SafleError as SafleError
    from safle.evaluation.counts import Evaluation as Evaluation
    from safle.evaluation.evaluating import evaluate as evaluate
    from safle.evaluation.evaluating import fit_temperature as fit_temperature
    from safle.evaluation.figures import Figures as Figures
    from safle.model import Model as Model
    from safle.model import load_model as load_model
    from safle.model.estimator import SafleClassifier as SafleClassifier
    from safle.server import Store as Store
    from safle.solver import Solution as Solution
    from safle.solver import solve as solve
    from safle.statistics import Accumulator as Accumulator
    from safle.statistics import Statistics as Statistics
    from safle.statistics import count as count
    from safle.statistics import sum_statistics as sum_statistics
    from safle.statistics.histogram import Histogram as Histogram
    from safle.tables.merging import merge_schemas as merge_schemas
    from safle.tables.schema import Column as Column
    from safle.tables.schema import Schema as Schema
    from safle.wire import read as read
    from safle.wire import write as write

# The logger "safle" is silent until a program gives it a handler.
logging.getLogger("safle").addHandler(logging.NullHandler())

__version__ = "0.1.0"
define_public_names(__name__)
