"""A second message, after the model: how good its answers are at each client.

A client answers with evaluation counts of a table that its node's configuration names,
``test="/data/held-out.csv"``, and that was not counted for the model.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from safle.basics import atomic
from safle.encoders import load_encoder
from safle.encoders.features import ClassName
from safle.encoders.source import check_source
from safle.errors import EncoderMismatch, FederationError, SettingsError
from safle.evaluation import Report
from safle.model import Model
from safle.server.limits import Limits
from safle.site.counting import evaluate_blocks
from safle.statistics.evaluation import Evaluation, require_answers
from safle.wire import decode_evaluation, encode_evaluation, write_evaluation
from safle_flower import messages
from safle_flower.client import Client, Settings, open_configured
from safle_flower.messages import Answer

if TYPE_CHECKING:
    from flwr.app import RecordDict

log = logging.getLogger("flwr")
COUNTS, PAGE = "evaluation.eval", "evaluation.html"


def answer_evaluation(client: Client, node: Settings, settings: Settings, payload: bytes) -> Answer:
    """Count the answers of the server's model on this node's test table."""
    del settings
    if not node.get("test"):
        raise SettingsError('this node has nothing to test on; configure test="/path/to/table"')
    where = str(node["test"])
    model = Model.from_bytes(payload)
    # A test table may have the columns of the node's own, and is evaluated line by line.
    ignored = f"{node.get('ignore', '')},{node.get('weight-column', '')}"
    config = {**node, "features": where, "ignore": ignored, "weight-column": ""}
    table = open_configured(config, model.encoder.schema)
    client = replace(client, table=table, where=where)
    if client.pinned is not None and load_encoder(client.pinned) != model.encoder:
        raise EncoderMismatch("the server's model is of another encoder than this client's")
    check_source(model.encoder.source, client.table.source, where=where, trusted=client.trusted)
    client = client.with_columns(model.encoder.feature_names)
    counts, _ = evaluate_blocks(model, client.batches(), where=where)
    data, encoder = encode_evaluation(counts), model.encoder.fingerprint
    return client.release(counts, data, encoder=encoder)


class EvaluationTask:
    """Evaluation counts of one model, added up as they come."""

    message_type = messages.EVALUATE

    def __init__(self, model: Model, limits: Limits) -> None:
        self._model, self._limits, self._payload = model, limits, model.to_bytes()
        self.sites: dict[str, Evaluation] = {}

    def content(self) -> RecordDict:
        return messages.question({}, self._payload)

    def names(self) -> Collection[str]:
        return self.sites

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        if client in self.sites:
            raise FederationError(f"client {client!r} has sent its counts already")
        counts = decode_evaluation(data, admit=self._admit)
        self._limits.check_samples(counts.sample_count)
        self.sites[client] = counts
        return counts.sample_count, ""

    def _admit(self, model: str, classes: tuple[ClassName, ...]) -> None:
        require_answers(model, classes, self._model.digest, self._model.class_names)

    def write(self, folder: Path) -> None:
        """The sum, and a page of all sites; nothing where nobody has a sample."""
        sites = {name: counts for name, counts in self.sites.items() if counts.sample_count}
        if not sites:
            log.warning("nobody has evaluated the model")
            return
        none = Evaluation.none(self._model.digest, self._model.class_names)
        total = sum(sites.values(), start=none)
        write_evaluation(folder / COUNTS, total)
        report = Report(total, sites)
        atomic.write_text(folder / PAGE, report.to_html())
        for title, figure in report.facts().items():
            log.info("%s: %s", title, figure)
