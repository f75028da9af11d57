"""The demo's page: who held what, what each client sent, the ridge, what came of it. One file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.templates import render_page
from safle.evaluation.charts import Chart, Mix, Series, draw

if TYPE_CHECKING:
    from safle.demo.demo import Result
    from safle.solver import RidgeCurve


@dataclass(frozen=True, eq=False)
class DemoPage:
    """What the page shows; the last of ``results`` is shown in full.

    Attributes
    ----------
    mix : samples, (clients, class_count)
    matrix : confusions of the last result's model, (class_count, class_count)
    curve : of its ridge
    """

    results: Sequence[Result]
    mix: NDArray[Any]
    matrix: NDArray[Any]
    curve: RidgeCurve
    names: Sequence[object]

    def render(self) -> str:
        """The page as HTML that needs nothing else."""
        result = self.results[-1]
        kilobytes = np.array(result.bytes_sent) / 1e3
        return render_page(
            "safle.demo",
            "demo.html.j2",
            draw=draw,
            result=result,
            results=self.results,
            clients=len(self.mix),
            samples=int(self.mix.sum()),
            empty=int((self.mix.sum(axis=1) == 0).sum()),
            largest=int(self.mix.sum(axis=1).max()),
            tested=int(self.matrix.sum()),
            known=int(np.median((self.mix > 0).sum(axis=1))),
            most=float(kilobytes.max()),
            held=Mix(
                "One bar for each client, one colour for each digit.",
                self.mix.tolist(),
                [str(name) for name in self.names],
            ),
            sent=Mix(
                "The one file that each client sent, in the same order.",
                kilobytes[:, None].tolist(),
                ["statistics"],
                unit="kB",
            ),
            ridge=self._ridge(),
            confusion=self._confusion(),
        )

    def _ridge(self) -> Chart:
        usable = np.isfinite(self.curve.scores)
        line = Series("score", self.curve.ridges[usable], self.curve.scores[usable])
        return Chart(
            "Lower is better. The server has tried every ridge on the sum of the counts.",
            "ridge",
            "estimated error",
            [line],
            log_base=10,
            marks=[(f"chosen: {self.curve.best:.3g}", self.curve.best)],
        )

    def _confusion(self) -> list[dict[str, Any]]:
        """A row for each true class: its name, and counts with a shade between 0 and 1."""
        shares = self.matrix / np.maximum(self.matrix.sum(axis=1, keepdims=True), 1)
        # Errors are rare: a linear scale would paint them all white.
        shades = np.sqrt(shares).round(2).tolist()
        rows = zip(self.names, self.matrix.tolist(), shades, strict=True)
        return [
            {"name": str(name), "cells": list(zip(counts, shade, strict=True))}
            for name, counts, shade in rows
        ]
