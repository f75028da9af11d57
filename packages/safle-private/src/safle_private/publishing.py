"""``safle publish`` adds noise to a sum."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import rich_click as click
from numpy.typing import NDArray

from safle import Policy, encode, log_refusal, read_total, write_log
from safle import cli as opt
from safle.basics import atomic
from safle.cli import Session, command, counts_facts
from safle.errors import PolicyRefused, PrivacyBudgetSpent
from safle_private.ledger import Ledger
from safle_private.noise import draw_discrete_gaussian

CALIBRATION = (
    "Where the encoder's thresholds and moments came from: declared numbers, or a public sample. "
    "Histograms of the clients' own data say something about them, and are refused."
)
CLASSES = "Every class that can occur, declared beforehand and not taken from the data."
EPSILON = "The epsilon to promise: 1 is strong, 8 is weak."
DELTA = "The delta to promise: less than 1 divided by the number of samples."
MOST_EPSILON = "Refuse a release after which all releases together exceed this epsilon."
SOURCES = click.Choice(["declared", "public", "histogram"])
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
LEDGER = "File that records every release of the same data: their epsilons add up."
BESIDE_SUM = "SUM.releases, or releases.jsonl in a store"


@command(
    "safle publish total.stats --epsilon 3 --delta 1e-5 --classes ill,well --calibration public "
    "-o noisy.stats",
    "safle solve noisy.stats --encoder encoder.safetensors -o model.safetensors",
    panel="Private sums",
)
@click.argument("total", type=opt.PLACE, metavar="SUM", help="Summed statistics, or a store.")
@opt.option("--epsilon", EPSILON, "E", type=opt.POSITIVE, required=True)
@opt.option("--delta", DELTA, "D", type=SHARE, required=True)
@opt.option("--classes", CLASSES, "A,B,C", required=True)
@opt.option("--calibration", CALIBRATION, type=SOURCES, required=True)
@opt.option("--most-epsilon", MOST_EPSILON, "E", type=opt.POSITIVE)
@opt.policy_option
@opt.file_option("--ledger", LEDGER, show_default=BESIDE_SUM)
@opt.output("The noisy statistics to write.")
def publish(
    session: Session, /, total: Path, epsilon: float, delta: float, output: Path, **options: Any
) -> None:
    """Add noise to a sum: differential privacy for everybody in it.

    The server that holds the exact sum is trusted; those who get the noisy one need not be. The
    noisy sum is solved like any other, and the model states the promise. This needs an encoder
    with a norm clip ([b]safle encoder make --publishable[/b]).
    """
    beside = total / "releases.jsonl" if total.is_dir() else Path(f"{total}.releases")
    ledger_path = options["ledger"] or beside
    # The ledger refuses sums that have noise already.
    statistics: Any = read_total(total)
    promise = f"noisy statistics, epsilon {epsilon:g} and delta {delta:g}"
    classes = opt.parse_classes(options["classes"], like=statistics.class_names) or ()

    def draw(size: int, scale: float) -> NDArray[np.int64]:
        session.note(f"drawing {size:,} numbers of noise ...")
        return draw_discrete_gaussian(size, scale)

    with log_refusal(note=promise), _within_policy(options) as most_epsilon:
        noisy = Ledger(ledger_path).publish(
            statistics,
            classes,
            epsilon,
            delta,
            calibration=options["calibration"],
            most_epsilon=most_epsilon,
            draw=draw,
        )
    data = encode(noisy)
    write_log("written", digest=hashlib.sha256(data).hexdigest(), note=promise)
    atomic.write_bytes(output, data)
    facts = counts_facts(noisy, data)
    session.facts(f"{output}: noisy statistics", facts | {"ledger": str(ledger_path)})


@contextmanager
def _within_policy(options: Mapping[str, Any]) -> Iterator[float]:
    """The epsilon that all releases may reach together, by the option and the site's policy."""
    asked = options["most_epsilon"] or math.inf
    policy = Policy.find(options["policy_path"]) or Policy()
    try:
        yield min(asked, policy.most_epsilon)
    except PrivacyBudgetSpent as error:
        if asked <= policy.most_epsilon:
            raise
        rule = "most_epsilon"
        raise PolicyRefused(f"refused by the policy's {rule}: {error}", rule=rule) from error
