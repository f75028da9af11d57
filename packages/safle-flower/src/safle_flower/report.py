"""What became of every client, as a file and as a table."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from safle.basics import atomic, readable
from safle.errors import FederationError

ACCEPTED = "accepted"
"""The contribution was accepted in this run."""
KEPT = "kept"
"""The contribution was accepted in an earlier run."""
REFUSED = "refused"
"""The answer was not valid."""
FAILED = "failed"
"""The client, or its node, answered with an error."""
LATE = "late"
"""The client did not answer in time."""
MISSING = "missing"
"""The client was expected, and its node never came."""
KEYHOLDER = "keyholder"
"""A keyholder's node, which sends no contribution."""
TAKEN_STATUSES = (ACCEPTED, KEPT)
GOOD_STATUSES = (*TAKEN_STATUSES, KEYHOLDER)
"""The statuses that call for no warning."""


class ClientReport(msgspec.Struct):
    """One client's line.

    Attributes
    ----------
    client : its name; empty if it never gave one
    node : Flower's number of its node; 0 if it was not asked in this run
    bytes : size of its answer
    seconds : from the question to the verdict
    """

    client: str
    status: str
    reason: str = ""
    node: int = 0
    samples: int = 0
    bytes: int = 0
    seconds: float = 0.0
    digest: str = ""

    @property
    def name(self) -> str:
        return self.client or f"node {self.node}"


class Report(msgspec.Struct, tag_field="format", tag="safle-report-1"):
    """A finished run.

    Attributes
    ----------
    seconds : duration of the whole run, solving included
    bytes_received : size of all answers, refused ones too
    server_peak_bytes : most memory that the server's process has held
    model, total : digests of the model and of the sum that it was solved from
    """

    clients: list[ClientReport]
    keyholders: list[ClientReport] = []
    evaluation: list[ClientReport] = []
    rules: dict[str, Any] = {}
    seconds: float = 0.0
    round_seconds: float = 0.0
    bytes_received: int = 0
    server_peak_bytes: int = 0
    samples: int = 0
    encoder: str = ""
    model: str = ""
    total: str = ""
    error: str = ""

    @property
    def accepted(self) -> list[str]:
        """Names of the clients whose contributions are in the model."""
        return [row.client for row in self.clients if row.status in TAKEN_STATUSES]

    @property
    def summary(self) -> str:
        """How many clients have each status, and the first reason for a warning."""
        counts = Counter(row.status for row in self.clients)
        order = (ACCEPTED, KEPT, REFUSED, FAILED, LATE, MISSING, KEYHOLDER)
        shown = ", ".join(f"{counts[status]} {status}" for status in order if counts[status])
        bad = next((row for row in self.clients if row.status not in GOOD_STATUSES), None)
        return f"{shown}; {bad.name}: {bad.reason}" if bad else shown

    def table(self) -> list[tuple[str, ...]]:
        """Rows of client, status, samples, size and seconds; those that call for a warning first.

        In a private round nobody knows the samples of a single client; keyholders come last.
        """
        rows = sorted(self.clients, key=lambda row: row.status in GOOD_STATUSES)
        shown = [(row, row.status, "" if self.keyholders else f"{row.samples:,}") for row in rows]
        opened = {ACCEPTED: "opened the sum", FAILED: "did not open the sum"}
        shown += [(row, opened[row.status], "") for row in self.keyholders if row.status in opened]
        return [
            (
                row.name,
                f"{status}: {row.reason}" if row.reason else status,
                samples,
                readable(row.bytes),
                f"{row.seconds:.1f}",
            )
            for row, status, samples in shown
        ]

    def write(self, path: Path) -> None:
        """Write the report as JSON, atomically."""
        content = {**msgspec.to_builtins(self), "accepted": self.accepted}
        atomic.write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @staticmethod
    def read(path: Path) -> Report:
        """Read a report that `write` wrote; `FederationError` if there is none."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=Report)
        except FileNotFoundError:
            raise FederationError(
                f"{path}: no report; the run ended before its round was over: see its log"
            ) from None
        except msgspec.DecodeError as error:
            raise FederationError(f"{path} is not a report: {error}") from error
