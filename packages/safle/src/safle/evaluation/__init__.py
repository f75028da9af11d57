"""Predictions -> figures: counts that add up, metrics, pages.

`evaluate` counts a model's answers at a site, `Figures` measures counts, `Report` presents them,
and `fit_temperature` makes a model's probabilities fit them. Pages are made of `Table`, `Chart`
and `Mix`, which `draw` turns into pictures.
"""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.basics.templates import render_page
    from safle.evaluation.blocks import Cell, Chart, Mix, Series, Table
    from safle.evaluation.charts import draw
    from safle.evaluation.evaluating import evaluate
    from safle.evaluation.figures import Figure, Figures
    from safle.evaluation.pictures import require_matplotlib
    from safle.evaluation.report import Report
    from safle.evaluation.temperature import fit_temperature

__all__ = [
    "Cell",
    "Chart",
    "Figure",
    "Figures",
    "Mix",
    "Report",
    "Series",
    "Table",
    "draw",
    "evaluate",
    "fit_temperature",
    "render_page",
    "require_matplotlib",
]

__getattr__ = front_door(__name__)
