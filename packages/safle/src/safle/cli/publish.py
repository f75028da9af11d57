"""``safle publish``: an exact sum -> noisy statistics that may be given to anyone."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rich_click as click

from safle.cli.facts import counts_facts
from safle.cli.options import (
    FILE,
    POSITIVE,
    command,
    option,
    output,
    policy_option,
    refuse_overwriting,
)
from safle.cli.reading import declared_classes
from safle.cli.session import Session
from safle.errors import PolicyRefused, PrivacyBudgetSpent
from safle.publishing.ledger import Ledger
from safle.server.store import Store
from safle.site.log import log_refusal, write_log
from safle.site.policy import Policy
from safle.statistics import Statistics
from safle.wire import container, encode_noisy, read_statistics

CALIBRATION = (
    "Where the encoder's thresholds and moments came from: declared numbers, or a public sample. "
    "Histograms of the clients' own data say something about them, and are refused."
)
LEDGER = "Where releases of the same data are noted; they add up."
BESIDE = "SUM.releases, or releases.sqlite in a store"


@command(
    "safle publish total.stats --epsilon 3 --delta 1e-5 --classes ill,well --calibration public "
    "-o noisy.stats",
    "safle solve noisy.stats --encoder encoder.safetensors -o model.safetensors",
)
@click.argument(
    "total", type=click.Path(path_type=Path), metavar="SUM", help="Summed statistics, or a store."
)
@option("--epsilon", "To promise: 1 is strong, 8 is weak.", "E", type=POSITIVE, required=True)
@option(
    "--delta",
    "To promise: less than one in the number of samples.",
    "D",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    required=True,
)
@option("--classes", "Every class that there may be: declared, not found.", "A,B,C", required=True)
@option(
    "--calibration",
    CALIBRATION,
    type=click.Choice(["declared", "public", "histogram"]),
    required=True,
)
@option("--most-epsilon", "Of all releases together; refuses more.", "E", type=POSITIVE)
@policy_option
@option("--ledger", LEDGER, "FILE", type=FILE, show_default=BESIDE)
@output("The noisy statistics to write.", "noisy statistics")
def publish(
    session: Session,
    /,
    total: Path,
    epsilon: float,
    delta: float,
    classes: str,
    calibration: str,
    most_epsilon: float | None,
    policy_path: Path | None,
    ledger: Path | None,
    output: Path,
) -> None:
    """Add noise to a sum: differential privacy for whoever is in it.

    The server that holds the exact sum is trusted; whoever gets the noisy one need not be. It
    solves as any sum does, and the model says what was promised. Needs an encoder with a norm clip
    ([b]safle encoder make --publishable[/b]) and safle's extra "private".
    """
    default = total / "releases.sqlite" if total.is_dir() else Path(f"{total}.releases")
    place = ledger or default
    refuse_overwriting(output, total, place)
    statistics = _read(total)
    session.note(f"drawing noise for the sums of {statistics.dim:,} columns ...")
    promise = f"noisy statistics, epsilon {epsilon:g} and delta {delta:g}"
    with log_refusal(note=promise), _within_policy(policy_path, most_epsilon) as most:
        noisy = Ledger(place).publish(
            statistics,
            declared_classes(classes, like=statistics.class_names) or (),
            epsilon,
            delta,
            most_epsilon=most,
            calibration=calibration,
        )
    data = encode_noisy(noisy)
    write_log("written", digest=hashlib.sha256(data).hexdigest(), note=promise)
    container.write_file(output, data)
    facts = counts_facts(noisy, size=len(data), digest=container.declared_digest(data))
    session.facts(f"{output}: noisy statistics", facts | {"ledger": str(place)})


@contextmanager
def _within_policy(path: Path | None, most_epsilon: float | None) -> Iterator[float | None]:
    """Most that all releases may cost together: by the caller's word, and by the site's policy."""
    policy = Policy.find(path)
    if policy is None or policy.most_epsilon >= (most_epsilon or math.inf):
        yield most_epsilon
        return
    try:
        yield policy.most_epsilon
    except PrivacyBudgetSpent as error:
        rule = "most_epsilon"
        raise PolicyRefused(f"refused by the policy's {rule}: {error}", rule=rule) from error


def _read(path: Path) -> Statistics:

    return Store.open(path).total().snapshot() if path.is_dir() else read_statistics(path)
