"""What every command does whose file leaves the site: ask the policy, write, and say so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from safle.cli.options import FILE, option
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.encoders.histogram import Histogram
    from safle.statistics import Statistics


policy_option = option(
    "--policy policy_path",
    "What this site lets out: see docs/release.md. Refuses what breaks a rule.",
    "FILE",
    type=FILE,
    show_default="$SAFLE_POLICY, or all",
)


def release(
    session: Session,
    counted: Statistics | Histogram,
    data: bytes,
    output: Path,
    policy: Path | None,
) -> None:
    """Write what was counted, as ``data``, if the policy lets it out."""
    from safle.federation.policy import Policy
    from safle.federation.release import Release
    from safle.wire import container

    found, rules = Release.of(counted), Policy.find(policy)
    if rules is not None:
        rules.check(found)
    elif found.gives_away:
        session.warn(
            f"this plain contribution gives samples away: {found.gives_away}; 'safle rehearse' "
            "says what helps, and a policy (--policy) refuses it"
        )
    container.write_file(output, data)


def release_statistics(
    session: Session, statistics: Statistics, output: Path, policy: Path | None
) -> dict[str, object]:
    """Write a statistics file if the policy lets it out; what it holds."""
    from safle.cli.describe import statistics_facts
    from safle.wire import container, encode_statistics

    data = encode_statistics(statistics)
    release(session, statistics, data, output, policy)
    return statistics_facts(statistics, size=len(data), digest=container.declared_digest(data))
