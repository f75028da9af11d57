"""What became of every client, as a file and as a table of text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safle._internal import atomic
from safle._internal.memory import readable

FORMAT = "safle-round-1"
ACCEPTED, KEPT, REFUSED, FAILED, LATE, MISSING = (
    "accepted",
    "kept",
    "refused",
    "failed",
    "late",
    "missing",
)
"""Taken in this run; taken in an earlier one; not valid; no valid answer; no answer in time;
expected and never seen."""
IN = (ACCEPTED, KEPT)


@dataclass
class ClientReport:
    """One client's line.

    Attributes
    ----------
    client : its name; empty if it never gave one
    node : Flower's number of its node; 0 if it was not asked in this run
    bytes : of its answer
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


@dataclass
class Report:
    """A finished run.

    Attributes
    ----------
    seconds : of everything, calibration and solving included
    bytes_received : of all answers, refused ones too
    server_peak_bytes : most memory that the server's process has held
    model, total : digests
    """

    clients: Sequence[ClientReport]
    calibration: Sequence[ClientReport] = ()
    rules: dict[str, Any] = field(default_factory=dict)
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
        return [row.client for row in self.clients if row.status in IN]

    def write(self, path: Path) -> None:
        """Write it as JSON, atomically."""
        content = {"format": FORMAT, "accepted": self.accepted, **asdict(self)}
        atomic.write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def lines(self) -> list[str]:
        """For people: one line a client, those that are not in first, and a summary."""
        rows = sorted(self.clients, key=lambda row: row.status in IN)
        width = max((len(row.name) for row in rows), default=0)
        shown = [
            f"{row.name:<{width}}  {row.status:<8}  {row.samples:>9,} samples  "
            f"{readable(row.bytes):>9}  {row.seconds:6.1f} s  {row.reason}".rstrip()
            for row in rows
        ]
        return [*shown, summary(self.clients)]


def summary(rows: Sequence[ClientReport]) -> str:
    """How many of each."""
    counts = Counter(row.status for row in rows)
    order = (ACCEPTED, KEPT, REFUSED, FAILED, LATE, MISSING)
    return ", ".join(f"{counts[status]} {status}" for status in order if counts[status])


def read_report(path: Path) -> dict[str, Any]:
    """A report file of our own."""
    content: dict[str, Any] = json.loads(path.read_text())
    return content
