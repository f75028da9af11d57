"""What clients are asked for, and what is done with their answers.

A task has a question, takes answers as they come, and knows which clients have answered.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from safle import (
    LOG,
    Accumulator,
    Encoder,
    Evaluation,
    EvaluationReport,
    Limits,
    Model,
    Store,
    decode,
    write,
)
from safle.basics import atomic
from safle.errors import FederationError
from safle_flower import airlock
from safle_private import Gathering, KeyholderAnswer, Masked, PrivateRound, Request

log = logging.getLogger("flwr")
SUFFIX, ANSWER_SUFFIX = ".masked", ".answer"
COUNTS, PAGE = "evaluation.eval", "evaluation.html"


class Task(Protocol):
    """What nodes are asked for, and what is done with their answers."""

    question: airlock.Question

    def names(self) -> Collection[str]:
        """Clients, or keyholders, whose answers have been accepted, in this run or before."""

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        """Accept an answer, and return its samples and digest; a `SafleError` refuses it."""


class CountTask:
    """Contributions: verified, kept in the store, and added up as they come."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.total: Accumulator = store.total()
        encoder = store.encoder
        files = {airlock.ENCODER: encoder.to_bytes()}
        expects = {"fingerprint": encoder.fingerprint}
        self.question = airlock.Question(airlock.COUNT, files, expects)

    def names(self) -> Collection[str]:
        return self._store.members

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        kept = self._store.add(client, data, total=self.total)
        return kept.samples, kept.digest


class MaskTask:
    """Masked contributions: checked, kept as files, and added up as they come."""

    def __init__(self, private_round: PrivateRound, encoder: Encoder, folder: Path) -> None:
        self._folder = folder
        self.gathering = Gathering(private_round)
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            self.gathering.add(Masked.from_bytes(path.read_bytes(), private_round))
        files = {airlock.ENCODER: encoder.to_bytes(), airlock.ROUND: private_round.data}
        self.question = airlock.Question(airlock.MASK, files, {"round": private_round.digest})

    def names(self) -> Collection[str]:
        return self.gathering.clients

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        masked = self.gathering.receive(data, client=client, place=self._folder / LOG)
        atomic.write_bytes(_place(self._folder, client, SUFFIX), data)
        self.gathering.add(masked)
        return 0, masked.head.payload_digest


def _place(folder: Path, name: str, suffix: str) -> Path:
    """Where a party's file is: its name may hold characters that a file's name may not."""
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()}{suffix}"


class RequestTask:
    """Keyholders' answers to one request, kept as files: the next round can name them."""

    def __init__(self, request: Request, folder: Path) -> None:
        self._folder = folder
        self._request, private_round = request, request.private_round
        files = {airlock.REQUEST: request.to_bytes(), airlock.ROUND: private_round.data}
        expects = {"round": private_round.digest, "request": request.digest}
        self.question = airlock.Question(airlock.OPEN, files, expects)
        self.answers: dict[str, KeyholderAnswer] = {}

    def names(self) -> Collection[str]:
        return list(self.answers)

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        del client
        answer = KeyholderAnswer.from_bytes(data, self._request.private_round)
        answer.check_request(self._request)
        atomic.write_bytes(_place(self._folder, answer.keyholder, ANSWER_SUFFIX), data)
        self.answers[answer.keyholder] = answer
        return 0, answer.request_digest


class EvaluationTask:
    """Evaluation counts of one model, added up as they come."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self._limits = limits
        self._empty = Evaluation.empty(model.digest, model.class_names)
        files = {airlock.MODEL: model.to_bytes()}
        self.question = airlock.Question(airlock.EVALUATE, files, {"model": model.digest})
        self.sites: dict[str, Evaluation] = {}

    def names(self) -> Collection[str]:
        return self.sites

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        if client in self.sites:
            raise FederationError(f"client {client!r} has sent its counts already")
        counts = decode(data, Evaluation, like=self._empty)
        self._limits.check_samples(counts.sample_count)
        self.sites[client] = counts
        return counts.sample_count, ""

    def write(self, folder: Path) -> None:
        """Write the sum, and a page of all sites; nothing if no site has a sample."""
        sites = {name: counts for name, counts in self.sites.items() if counts.sample_count}
        if not sites:
            log.warning("no client has evaluated the model")
            return
        total = self._empty.add_all(sites.values())
        report = EvaluationReport(total, sites)
        write(folder / COUNTS, total)
        atomic.write_text(folder / PAGE, report.to_html())
        for title, figure in report.facts().items():
            log.info("%s: %s", title, figure)
