"""One round: ask every client once, judge each answer as it comes, and end by the rules.

No client can end the round for the others: if one fails, lies, repeats itself or stays silent,
the report names it and the round goes on.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safle import check_client
from safle.basics import readable
from safle.errors import FederationError, SafleError, WireError
from safle_flower import messages, report
from safle_flower.adapter import RoundOver, pull
from safle_flower.airlock import shorten
from safle_flower.report import ClientReport
from safle_flower.settings import Run
from safle_flower.tasks import Task

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp import Grid

log = logging.getLogger("flwr")
Progress = Callable[[float], None]
"""Called with the share of the wanted contributions that the server has."""
SECONDS_BETWEEN_LOOKS = 0.2
"""For an answer of one client, and for new clients."""
CLOCK_MARGIN = 60.0
"""Seconds that a question is valid beyond the deadline: the clocks of two machines differ."""
SLOT_SHARE = 0.25
"""Share of the deadline after which a silent client gives its place to the next one."""
ERRORS = {
    1: "its app could not be loaded",
    2: "its app raised an error",
    3: "its answer was lost on the way",
    4: "its answer was lost on the way",
    5: "its node went away",
    7: "its node refused the app",
    8: "its app's process died",
}
"""Flower's error codes, in words."""


@dataclass
class _Asked:
    """A client that was asked; ``row`` becomes its line in the report."""

    row: ClientReport
    message_id: str
    since: float
    pending: bool = True


class Round:
    """One round: call `run` once, and then `rows`, even if `run` ended with an error.

    Parameters
    ----------
    only : whether a node, given by Flower's number, is asked at all
    keyholders : names that are asked although no contribution is expected of them
    """

    def __init__(
        self,
        grid: Grid,
        task: Task,
        rules: Run,
        progress: Progress | None = None,
        *,
        only: Callable[[int], bool] = lambda _node: True,
        keyholders: Collection[str] = (),
    ) -> None:
        self._grid = grid
        self._progress = progress
        self._task = task
        self._rules = rules
        self._expected = rules.expected_clients
        self._wanted = rules.contributions_wanted
        self._asked: dict[int, _Asked] = {}
        # One answer at a time: the others wait at Flower, not in this process.
        self._answers: queue.Queue[tuple[_Asked, Message | Exception]] = queue.Queue(1)
        self._over = threading.Event()
        self._begun = self._last_look = 0.0
        self._kept = dict.fromkeys(task.names())
        # Made once: with marks of the clients of this run, questions would grow longer and longer.
        self._marks = messages.known_marks(self._kept)
        self._some_unasked = True
        self._only = only
        self._keyholders = keyholders

    def may_be_keyholder(self, node: int) -> bool:
        """True if the node has a keyholder's name or role, or has not answered yet."""
        asked = self._asked.get(node)
        if asked is None or asked.pending:
            return True
        return asked.row.status == report.KEYHOLDER or asked.row.client in self._keyholders

    def run(self) -> None:
        """Ask and judge, until the round is over."""
        self._begun = time.monotonic()
        try:
            while not self._is_over():
                self._ask_new_nodes()
                try:
                    asked, answer = self._answers.get(timeout=SECONDS_BETWEEN_LOOKS)
                except queue.Empty:
                    continue
                self._judge(asked, answer)
                # Otherwise this answer would stay in memory while the next one is pulled.
                del asked, answer
        finally:
            self._over.set()

    def _is_over(self) -> bool:
        names = set(self._task.names())
        if time.monotonic() - self._begun >= self._rules.deadline:
            return True
        missing = set(self._expected) - names
        still_wanted = len(missing) if self._expected else self._wanted - len(names)
        if still_wanted <= 0:
            return True
        if self._some_unasked or any(asked.pending for asked in self._asked.values()):
            return False
        rows = [asked.row for asked in self._asked.values()]
        bad = [row for row in rows if row.status not in report.GOOD_STATUSES]
        if self._expected:
            return missing <= {row.client for row in bad}
        return still_wanted <= len(bad)

    def _ask_new_nodes(self) -> None:
        now = time.monotonic()
        if self._last_look and now - self._last_look < SECONDS_BETWEEN_LOOKS:
            return
        self._last_look = now
        self._some_unasked = False
        patience = self._rules.deadline * SLOT_SHARE
        waiting = sum(
            asked.pending and now - asked.since < patience for asked in self._asked.values()
        )
        free = self._rules.at_once - waiting
        for node in self._grid.get_nodes():
            if node.node_id in self._asked or not self._only(node.node_id):
                continue
            if getattr(node, "name", "") in self._kept:
                continue
            if free <= 0:
                self._some_unasked = True
                return
            free -= self._ask(node.node_id, getattr(node, "name", ""))

    def _ask(self, node: int, registered: str) -> int:
        """Ask one node; return how many places among those asked at once it takes."""
        from flwr.app import Message

        row = ClientReport(registered, report.LATE, "no answer in time", node)
        asked = _Asked(row, "", time.monotonic())
        allowed = {*self._expected, *self._keyholders}
        if registered and self._expected and registered not in allowed:
            self._settle(asked, report.REFUSED, "not among the expected clients")
            self._asked[node] = asked
            return 0
        left = self._begun + self._rules.deadline - time.monotonic()
        content = messages.write_question(self._task.question, seconds=left, **self._marks)
        # Flower must not forget the question while its answer is awaited.
        message = Message(content, node, messages.TYPE, ttl=self._rules.deadline + CLOCK_MARGIN)
        ids = [*self._grid.push_messages([message])]
        if not ids or ids[0] is None:
            # The node has gone since `get_nodes`; if it comes back, it is asked then.
            return 0
        asked.message_id = ids[0]
        self._asked[node] = asked
        threading.Thread(target=self._wait, args=(asked,), daemon=True).start()
        return 1

    def _wait(self, asked: _Asked) -> None:
        """Pull a client's answer when it is there, and queue it; every client has such a thread."""
        most_bytes = self._rules.largest
        while not self._over.wait(SECONDS_BETWEEN_LOOKS):
            answer: Message | Exception | None
            try:
                answer = pull(self._grid, asked.message_id, most_bytes, self._over)
            except RoundOver:
                return
            except Exception as error:
                # Flower unpacks what the client packed: any error in there is the client's.
                answer = error
            if answer is None:
                continue
            while not self._over.is_set():
                try:
                    self._answers.put((asked, answer), timeout=SECONDS_BETWEEN_LOOKS)
                except queue.Full:
                    continue
                return

    def _judge(self, asked: _Asked, answer: Message | Exception) -> None:
        try:
            if isinstance(answer, Exception):
                raise FederationError(f"unreadable answer: {answer}")
            verdict = self._verdict(asked.row, answer)
        except Exception as error:
            # Any error refuses this answer alone: the round goes on for the others.
            ours = isinstance(error, SafleError)
            if not ours:
                log.exception("%s: its answer raised an error", asked.row.name)
            verdict = report.REFUSED, str(error) if ours else f"{type(error).__name__}: {error}"
        self._settle(asked, *verdict)

    def _verdict(self, row: ClientReport, answer: Message) -> tuple[str, str]:
        """Status and reason of an answer; any error refuses it."""
        if answer.has_error():
            reason = ERRORS.get(answer.error.code, f"error {answer.error.code}")
            return report.FAILED, f"{reason}: {_last_line(answer.error.reason)}"
        content = messages.read_answer(answer)
        row.bytes = len(content.data)
        # A registered name takes precedence over the name that the client gives itself.
        row.client = check_client(row.client or content.client)
        if content.status == messages.KEYHOLDER:
            return report.KEYHOLDER, ""
        if self._expected and row.client not in self._expected:
            raise FederationError(f"{row.client!r} is not among the expected clients")
        if content.status == messages.FAILED:
            return report.FAILED, content.reason
        if content.status == messages.KNOWN and row.client in self._kept:
            return report.KEPT, ""
        if len(content.data) > self._rules.largest:
            # In a simulation Flower sends an answer in one piece, and `pull` cannot count pieces.
            most = readable(self._rules.largest)
            raise WireError(
                f"the answer has {readable(row.bytes)}; this federation reads up to {most}"
            )
        row.samples, row.digest = self._task.take(row.client, content.data)
        return report.ACCEPTED, ""

    def _settle(self, asked: _Asked, status: str, reason: str) -> None:
        row = asked.row
        asked.pending = False
        row.status, row.reason = status, shorten(reason)
        row.seconds = round(time.monotonic() - asked.since, 3)
        taken = f"{len(self._task.names())} of {self._wanted} are in"
        level = logging.INFO if status in report.GOOD_STATUSES else logging.WARNING
        log.log(level, "%s: %s%s (%s)", row.name, status, row.reason and f", {row.reason}", taken)
        if self._progress is not None:
            self._progress(min(1.0, len(self._task.names()) / self._wanted))

    def rows(self) -> list[ClientReport]:
        """Every client's line."""
        rows = [asked.row for asked in self._asked.values()]
        in_time = time.monotonic() - self._begun < self._rules.deadline
        for asked in self._asked.values():
            if asked.pending:
                asked.row.seconds = round(time.monotonic() - asked.since, 3)
                if in_time:
                    asked.row.reason = "the round was complete before it answered"
                log.warning("%s: late, %s; going on without it", asked.row.name, asked.row.reason)
        named = {row.client for row in rows} | self._kept.keys()
        # A client that is refused now may have been taken in an earlier run: it then has two lines.
        kept = {row.client for row in rows if row.status in report.TAKEN_STATUSES}
        rows += [ClientReport(name, report.KEPT) for name in self._kept if name not in kept]
        absent = [name for name in self._expected if name not in named]
        for name in absent:
            log.warning("%s: missing; going on without it", name)
        return rows + [ClientReport(name, report.MISSING, "never came") for name in absent]


def _last_line(text: str | None) -> str:
    """The last line of a traceback: the reason alone."""
    lines = [line for line in (text or "").splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
