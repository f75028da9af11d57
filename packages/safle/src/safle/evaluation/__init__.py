"""Predictions -> figures: counts that add up, metrics, pages.

`evaluate` counts a model's answers at a site, `Figures` measures counts, `EvaluationReport`
presents them, and `fit_temperature` makes a model's probabilities fit them.

Examples
--------
>>> from safle.evaluation.counts import shapes
>>> shapes(2)["confusion"]
(3, 2)
"""
