"""The report of a round, for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safle._internal.memory import readable
from safle.cli.session import Session

ROWS_SHOWN = 20


def show_report(session: Session, found: dict[str, Any], folder: Path) -> None:
    """Every client that is not in, some that are, and what the round gave."""
    rows = sorted(found["clients"], key=lambda row: row["status"] in ("accepted", "kept"))
    session.table(
        ["client", "status", "samples", "size", "seconds"],
        [
            (
                row["client"] or f"node {row['node']}",
                f"{row['status']}: {row['reason']}" if row["reason"] else row["status"],
                f"{row['samples']:,}",
                readable(row["bytes"]),
                f"{row['seconds']:.1f}",
            )
            for row in rows[:ROWS_SHOWN]
        ],
        names=2,
    )
    if len(rows) > ROWS_SHOWN:
        session.text([f"… and {len(rows) - ROWS_SHOWN} more in {folder / 'report.json'}"])
    facts = {
        "clients in the model": len(found["accepted"]),
        "samples": f"{found['samples']:,}",
        "received": readable(found["bytes_received"]),
        "server's peak memory": readable(found["server_peak_bytes"]),
        "seconds": f"{found['seconds']:.1f}",
        "digest": found["model"],
    }
    session.facts(f"{folder / 'model.safetensors'}: model", facts)
