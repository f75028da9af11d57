"""Predictions -> figures: counts that add up, metrics, pages.

`evaluate` counts a model's answers at a site, `Figures` measures counts, `Report` presents them,
and `fit_temperature` makes a model's probabilities fit them. Pages are made of `Table`, `Chart`
and `Mix`, which `draw` turns into pictures.
"""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.basics.templates import render_page
    from safle.evaluation.charts import Cell, Chart, Mix, Series, Table, draw, require_matplotlib
    from safle.evaluation.counts import (
        Evaluation,
        decode_evaluation,
        encode_evaluation,
        read_evaluation,
        require_answers,
        write_evaluation,
    )
    from safle.evaluation.evaluating import evaluate, fit_temperature
    from safle.evaluation.figures import Figure, Figures
    from safle.evaluation.report import Report

__all__ = [
    "Cell",
    "Chart",
    "Evaluation",
    "Figure",
    "Figures",
    "Mix",
    "Report",
    "Series",
    "Table",
    "decode_evaluation",
    "draw",
    "encode_evaluation",
    "evaluate",
    "fit_temperature",
    "read_evaluation",
    "render_page",
    "require_answers",
    "require_matplotlib",
    "write_evaluation",
]

__getattr__ = front_door(__name__)
