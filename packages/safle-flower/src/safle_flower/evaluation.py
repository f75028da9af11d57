"""A second message, after the model: how good its answers are at each client."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from safle.basics import atomic
from safle.errors import FederationError
from safle.evaluation import (
    Evaluation,
    Report,
    decode_evaluation,
    require_answers,
    write_evaluation,
)
from safle.model import Model
from safle.server import Limits
from safle.site import airlock

log = logging.getLogger("flwr")
COUNTS, PAGE = "evaluation.eval", "evaluation.html"


class EvaluationTask:
    """Evaluation counts of one model, added up as they come."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self._model, self._limits = model, limits
        files = {airlock.MODEL: model.to_bytes()}
        self.question = airlock.Question(airlock.EVALUATE, files, {"model": model.digest})
        self.sites: dict[str, Evaluation] = {}

    def names(self) -> Collection[str]:
        return self.sites

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        if client in self.sites:
            raise FederationError(f"client {client!r} has sent its counts already")
        counts = decode_evaluation(data, admit=self._admit)
        self._limits.check_samples(counts.sample_count)
        self.sites[client] = counts
        return counts.sample_count, ""

    def _admit(self, model: str, classes: tuple[int | str, ...]) -> None:
        require_answers(model, classes, self._model.digest, self._model.class_names)

    def write(self, folder: Path) -> None:
        """The sum, and a page of all sites; nothing where nobody has a sample."""
        sites = {name: counts for name, counts in self.sites.items() if counts.sample_count}
        if not sites:
            log.warning("nobody has evaluated the model")
            return
        none = Evaluation.none(self._model.digest, self._model.class_names)
        total = sum(sites.values(), start=none)
        report = Report(total, sites)
        write_evaluation(folder / COUNTS, total)
        atomic.write_text(folder / PAGE, report.to_html())
        for title, figure in report.facts().items():
            log.info("%s: %s", title, figure)
