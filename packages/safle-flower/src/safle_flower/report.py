"""What became of every client, as a file and as a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from safle.basics import atomic, readable
from safle.errors import FederationError

ACCEPTED, KEPT, REFUSED = "accepted", "kept", "refused"
FAILED, LATE, MISSING, KEYHOLDER = "failed", "late", "missing", "keyholder"
"""Taken in this run; taken in an earlier one; not valid; no valid answer; no answer in time;
expected and never seen; a keyholder's node, which sends nothing."""
IN = (ACCEPTED, KEPT)
WELL = (*IN, KEYHOLDER)


class _Format(msgspec.Struct):
    """What tells a report from other files."""

    format: Literal["safle-report-1"]
    accepted: list[str]


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
    seconds : of everything, solving included
    bytes_received : of all answers, refused ones too
    server_peak_bytes : most memory that the server's process has held
    model, total : digests
    """

    clients: Sequence[ClientReport] = ()
    keyholders: Sequence[ClientReport] = ()
    evaluation: Sequence[ClientReport] = ()
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

    @property
    def summary(self) -> str:
        """How many of each, and why the first that is not in is not."""
        counts = Counter(row.status for row in self.clients)
        order = (ACCEPTED, KEPT, REFUSED, FAILED, LATE, MISSING, KEYHOLDER)
        shown = ", ".join(f"{counts[status]} {status}" for status in order if counts[status])
        out = next((row for row in self.clients if row.status not in WELL), None)
        return f"{shown}; {out.name}: {out.reason}" if out else shown

    def table(self) -> list[tuple[str, ...]]:
        """For people: client, status, samples, size, seconds; those that are not in first.

        Of a private round nobody knows the samples of each; who opened the sum comes last.
        """
        rows = sorted(self.clients, key=lambda row: row.status in WELL)
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
        """Write it as JSON, atomically."""
        content = {"format": "safle-report-1", "accepted": self.accepted, **asdict(self)}
        atomic.write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @staticmethod
    def read(path: Path) -> Report:
        """A report file of our own; `FederationError` if there is none."""
        try:
            data = path.read_bytes()
            msgspec.json.decode(data, type=_Format)
            return msgspec.json.decode(data, type=Report)
        except FileNotFoundError:
            raise FederationError(
                f"{path}: no report; the run ended before its round was over: see its log"
            ) from None
        except msgspec.DecodeError as error:
            raise FederationError(f"{path} is not a report: {error}") from error
