"""The demo's page: who held what, what each client sent, the ridge, what came of it. One file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.templates import render_page
from safle.evaluation.charts import Chart, Mix, Series, draw

if TYPE_CHECKING:
    from safle.demo.demo import Result
    from safle.solver import RidgeCurve


def render_demo(
    results: Sequence[Result],
    mix: NDArray[Any],
    matrix: NDArray[Any],
    curve: RidgeCurve,
    names: Sequence[object],
) -> str:
    """The page as HTML that needs nothing else; the last of ``results`` is shown in full.

    Parameters
    ----------
    mix : samples, (clients, class_count)
    matrix : confusions of the last result's model, (class_count, class_count)
    curve : of its ridge
    """
    result, held = results[-1], mix.sum(axis=1)
    kilobytes = np.array(result.bytes_sent) / 1e3
    return render_page(
        "safle.demo",
        "demo.html.j2",
        draw=draw,
        result=result,
        results=results,
        clients=len(mix),
        samples=int(mix.sum()),
        empty=int((held == 0).sum()),
        largest=int(held.max()),
        tested=int(matrix.sum()),
        known=int(np.median((mix > 0).sum(axis=1))),
        most=float(kilobytes.max()),
        held=Mix(
            "One bar for each client, one colour for each digit.",
            mix.tolist(),
            [str(name) for name in names],
        ),
        sent=Mix(
            "The one file that each client sent, in the same order.",
            kilobytes[:, None].tolist(),
            ["statistics"],
            unit="kB",
        ),
        ridge=_ridge(curve),
        class_names=names,
        confusion=dict(zip(names, matrix.tolist(), strict=True)),
    )


def _ridge(curve: RidgeCurve) -> Chart:
    usable = np.isfinite(curve.scores)
    return Chart(
        "Lower is better. The server has tried every ridge on the sum of the counts.",
        "ridge",
        "estimated error",
        [Series("score", curve.ridges[usable], curve.scores[usable])],
        log_base=10,
        marks=[(f"chosen: {curve.best:.3g}", curve.best)],
    )
