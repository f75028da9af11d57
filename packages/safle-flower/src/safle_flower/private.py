"""A private round over Flower: one message to all nodes, a second to those of the keyholders."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from safle.basics import atomic
from safle.encoders import Encoder
from safle.errors import EncoderMismatch, SettingsError
from safle.private import (
    Gathering,
    KeyholderAnswer,
    Masked,
    MaskedSum,
    PrivateRound,
    PublicKey,
    StatisticsSpace,
)
from safle.site import LOG, airlock, write_log
from safle.statistics import Statistics
from safle_flower.report import Report
from safle_flower.round import Progress, Round
from safle_flower.settings import Run

if TYPE_CHECKING:
    from flwr.serverapp import Grid

SUFFIX = ".masked"


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
        # A name may be anything, a file's name may not.
        name = hashlib.sha256(client.encode()).hexdigest()
        atomic.write_bytes(self._folder / f"{name}{SUFFIX}", data)
        self.gathering.add(masked)
        return 0, masked.head.payload_digest


class RequestTask:
    """Keyholders' answers to one request."""

    def __init__(self, total: MaskedSum) -> None:
        self._total = total
        files = {airlock.REQUEST: total.request.to_bytes(), airlock.ROUND: total.private_round.data}
        expects = {"round": total.private_round.digest, "request": total.digest}
        self.question = airlock.Question(airlock.OPEN, files, expects)
        self.answers: dict[str, KeyholderAnswer] = {}

    def names(self) -> Collection[str]:
        return list(self.answers)

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        del client
        answered = KeyholderAnswer.from_bytes(data, self._total.private_round)
        answered.require(self._total)
        self.answers[answered.keyholder] = answered
        return 0, answered.request_digest


def add_up_privately(
    grid: Grid, run: Run, encoder: Encoder, found: Report, progress: Progress | None
) -> Statistics:
    """Both messages of a private round; the opened sum."""
    operator = PublicKey.load(run.places.path("operator"))
    private_round = PrivateRound.load(run.places.path("round").read_bytes(), operator)
    if type(private_round.space) is not StatisticsSpace:
        raise SettingsError(
            "this round is not one of statistics, or opens with noise; name one of exact statistics"
        )
    if private_round.space.fingerprint != encoder.fingerprint:
        raise EncoderMismatch(
            f"the round is of encoder {private_round.space.fingerprint[:12]}…, this run's is "
            f"{encoder.fingerprint[:12]}…: name the round's encoder"
        )
    folder = run.places.path("store")
    folder.mkdir(parents=True, exist_ok=True)
    task = MaskTask(private_round, encoder, folder)
    counting = Round(grid, task, run.rules, progress, keyholders=private_round.keyholders)
    try:
        counting.run()
    finally:
        found.clients = counting.rows()
    total = task.gathering.finish()
    asking = RequestTask(total)
    # Those who said that they are keyholders, and those who came too late to say anything.
    rules = replace(run.rules, expected=(), clients=len(private_round.keyholders))
    opening_round = Round(grid, asking, rules, only=counting.may_be_keyholder)
    try:
        opening_round.run()
    finally:
        found.keyholders = opening_round.rows()
    statistics: Statistics = total.open(asking.answers.values())
    note = f"statistics of {', '.join(total.heads)}"
    write_log("opened", digest=total.digest, note=note, place=folder / LOG)
    return statistics
