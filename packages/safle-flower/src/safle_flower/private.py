"""A private round over Flower: one message to all nodes, a second to those of the keyholders.

A node's configuration names its papers: ``key="/keys/a.key" operator="/keys/operator.pub"``, and
``history="/keys/opened.sqlite"`` where the key is a keyholder's. Starting such a node is the
keyholder's consent: it opens what the round allows, and its log says what that was.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from safle.basics import atomic
from safle.encoders import Encoder
from safle.encoders.made import require_same
from safle.errors import FederationError, LimitExceeded, SettingsError
from safle.private import answer as opening
from safle.private import keyholder
from safle.private.gathering import Gathering, MaskedSum, Request
from safle.private.history import History
from safle.private.keys import PrivateKey, PublicKey
from safle.private.masked import Masked, mask
from safle.private.round import PrivateRound
from safle.private.statistics_space import StatisticsSpace
from safle.site.log import LOG, write_log
from safle.statistics import Statistics
from safle_flower import messages
from safle_flower.client import Client, Settings, count_table
from safle_flower.messages import Answer
from safle_flower.report import Report
from safle_flower.round import Progress, Round
from safle_flower.settings import Run

if TYPE_CHECKING:
    from flwr.app import RecordDict
    from flwr.serverapp import Grid

log = logging.getLogger("flwr")
SUFFIX = ".masked"


# --- At a node ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Papers:
    """Files that say who a node is in private rounds; ``log`` is the site's own if None."""

    key: Path
    operator: Path
    history: Path | None = None
    log: Path | None = None

    @staticmethod
    def of(node: Settings, run: Settings) -> Papers:
        """As a node's configuration names them."""
        del run
        if "key" not in node or "operator" not in node:
            raise SettingsError(
                "this node has no keys for a private round; start it with --node-config "
                '\'key="/path/to/its.key" operator="/path/to/operator.pub"\''
            )
        history = Path(str(node["history"])) if "history" in node else None
        return Papers(Path(str(node["key"])), Path(str(node["operator"])), history)

    def read(self, data: bytes) -> tuple[PrivateKey, PrivateRound]:
        """The node's key, and the round, if the operator that the node trusts has signed it."""
        return PrivateKey.load(self.key), PrivateRound.load(data, PublicKey.load(self.operator))


def answer_mask(
    papers: Papers, opener: Callable[[], Client], settings: Settings, payload: bytes
) -> Answer:
    """Count under masks, and say whether this node is a keyholder's."""
    size = int(settings["encoder-bytes"])
    key, private_round = papers.read(payload[size:])
    holder = key.name if private_round.keyholders.get(key.name) == key.public else ""
    if holder and key.name not in private_round.clients:
        return Answer(key.name, messages.KEYHOLDER, keyholder=holder)
    if messages.mark(str(settings["salt"]), key.name) in list(settings["known"]):
        return Answer(key.name, messages.KNOWN, keyholder=holder)
    client, encoder = opener(), Encoder.from_bytes(payload[:size])
    statistics, once = count_table(client, encoder)
    if not statistics.sample_count and not settings.get("allow-empty"):
        # Under masks nobody else can see it.
        raise LimitExceeded(
            f"{client.where}: has no samples, so there is nothing to send; is it the right file? "
            "If it is, the server allows it with allow-empty"
        )
    data = mask(private_round, key, statistics).to_bytes()
    answer = client.release(once, data, private_round)
    return replace(answer, client=key.name, keyholder=holder)


def answer_request(papers: Papers, settings: Settings, payload: bytes) -> Answer:
    """Open the sum of a request's clients, as a keyholder."""
    size = int(settings["round-bytes"])
    key, private_round = papers.read(payload[:size])
    if papers.history is None:
        raise SettingsError(
            "a keyholder's node remembers what it opened; name a file: --node-config "
            "'history=\"/path/to/opened.sqlite\"'"
        )
    try:
        request = Request.from_bytes(payload[size:], private_round)
        with History(papers.history) as history:
            for sentence in keyholder.explain(request, history):
                log.info("safle: %s", sentence)
            answered = keyholder.answer_on_record(request, key, history, place=papers.log)
            data = answered.to_bytes(key)
    except FederationError as error:
        # Why a keyholder refuses says nothing of anybody's data: the server may know it.
        log.error("safle: this keyholder does not answer: %s", error)
        return Answer(key.name, messages.FAILED, reason=messages.printable(error))
    return Answer(key.name, messages.SENT, data=data)


# --- At the server -----------------------------------------------------------------------


class MaskTask:
    """Masked contributions: checked, kept as files, and added up as they come."""

    message_type = messages.MASK

    def __init__(
        self,
        private_round: PrivateRound,
        encoder: Encoder,
        folder: Path,
        *,
        allow_empty: bool = False,
    ) -> None:
        self._folder = folder
        self.gathering = Gathering(private_round)
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            self.gathering.add(Masked.from_bytes(path.read_bytes(), private_round))
        sent = encoder.to_bytes()
        told = {"encoder-bytes": len(sent), "allow-empty": allow_empty}
        marks = messages.known_marks(self.gathering.clients)
        self._question = marks | told, sent + private_round.data

    def content(self) -> RecordDict:
        return messages.question(*self._question)

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

    message_type = messages.REQUEST

    def __init__(self, total: MaskedSum) -> None:
        self._total = total
        private_round = total.private_round
        sent = private_round.data + total.request.to_bytes()
        self._question = {"round-bytes": len(private_round.data)}, sent
        self.answers: dict[str, opening.KeyholderAnswer] = {}

    def content(self) -> RecordDict:
        return messages.question(*self._question)

    def names(self) -> Collection[str]:
        return list(self.answers)

    def take(self, client: str, data: bytes) -> tuple[int, str]:
        del client
        answered = opening.KeyholderAnswer.from_bytes(data, self._total.private_round)
        answered.require(self._total.private_round, self._total.digest)
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
    require_same(private_round.space, encoder)
    folder = run.places.path("store")
    folder.mkdir(parents=True, exist_ok=True)
    task = MaskTask(private_round, encoder, folder, allow_empty=run.limits.allow_empty)
    counting = Round(grid, task, run.rules, progress)
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
