"""Predictions -> figures: counts that add up, metrics, pages.

`evaluate` counts a model's answers at a site, `Figures` measures counts, `EvaluationReport`
presents them, and `fit_temperature` makes a model's probabilities fit them.

Examples
--------
>>> from safle.evaluation import shapes
>>> shapes(2)["confusion"]
(3, 2)
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.basics.templates import render_page as render_page
    from safle.evaluation.counts import Evaluation as Evaluation
    from safle.evaluation.counts import require_answers as require_answers
    from safle.evaluation.counts import shapes as shapes
    from safle.evaluation.evaluating import evaluate as evaluate
    from safle.evaluation.evaluating import fit_temperature as fit_temperature
    from safle.evaluation.figures import Figure as Figure
    from safle.evaluation.figures import Figures as Figures
    from safle.evaluation.report import EvaluationReport as EvaluationReport

define_public_names(__name__)
