"""``safle sum`` adds up files without a store; ``safle publish`` adds noise to a sum."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import rich_click as click
from numpy.typing import NDArray

from safle.basics.atomic import write_bytes
from safle.basics.memory import readable
from safle.cli import options as opt
from safle.cli.facts import counts_facts, list_names, warn_of_classes, warn_of_coarse
from safle.cli.session import Session, command
from safle.encoders import load_encoder
from safle.encoders.histogram import Histogram
from safle.errors import PolicyRefused, PrivacyBudgetSpent
from safle.server import sum_files
from safle.site.log import log_refusal, write_log
from safle.site.policy import Policy
from safle.wire import read

FILES = (
    "Files of statistics, of histograms or of evaluation counts: paths, folders, or addresses "
    "for fsspec."
)
ENCODER = "For statistics: refuse those of any other encoder."
RAY = "For statistics: add up on a Ray cluster; 'local' starts one, 'auto' finds it."
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
BESIDE_SUM = "SUM.releases, or releases.sqlite in a store"


@command(
    "safle sum clients/*.stats -o total.stats",
    "safle sum total.stats late.stats -o all.stats",
    "safle sum sites/*.eval -o total.eval",
    "safle sum s3://bucket/clients/ --ray auto -o total.stats",
    name="sum",
)
@click.argument("files", nargs=-1, required=True, help=FILES)
@opt.file_option("--encoder encoder_path", ENCODER, show_default="the first file's")
@opt.option("--ray", RAY, "ADDRESS")
@opt.flag("--allow-duplicates", "Add the same contribution twice.")
@opt.limit_options
@opt.output("The sum to write.", "statistics", "histogram", "evaluation counts")
def add_up(
    session: Session,
    /,
    files: tuple[str, ...],
    encoder_path: Path | None,
    ray: str | None,
    output: Path,
    **options: Any,
) -> None:
    """Add up contributions: every file is verified first, and none is taken twice.

    The sum has the same bytes as that of [b]safle store add[/b] and [b]solve[/b]; use it for files
    that you keep outside a store. One file is in memory at a time. Order, grouping and the
    number of processes do not matter, and a sum can be summed again. A sum does not
    list its contributions: only a store can name them and remove one.
    """
    space = load_encoder(encoder_path).space if encoder_path else None
    limits = opt.take_limits(options)
    with session.progress("summing") as advance:
        summed = sum_files(
            files, output, space=space, limits=limits, progress=advance, ray=ray, **options
        )
    facts = {
        "files": summed.files,
        "samples": f"{summed.samples:,}",
        **({"classes": list_names(summed.classes)} if summed.classes else {}),
        "file": readable(summed.bytes),
        "digest": summed.digest,
    }
    session.facts(f"{output}: sum of {summed.file_type}", facts)
    warn_of_classes(session, summed.classes)
    if summed.file_type == "histogram":
        warn_of_coarse(session, read(output, Histogram))


@command(
    "safle publish total.stats --epsilon 3 --delta 1e-5 --classes ill,well --calibration public "
    "-o noisy.stats",
    "safle solve noisy.stats --encoder encoder.safetensors -o model.safetensors",
)
@click.argument("total", type=opt.PLACE, metavar="SUM", help="Summed statistics, or a store.")
@opt.option("--epsilon", EPSILON, "E", type=opt.POSITIVE, required=True)
@opt.option("--delta", DELTA, "D", type=SHARE, required=True)
@opt.option("--classes", CLASSES, "A,B,C", required=True)
@opt.option("--calibration", CALIBRATION, type=SOURCES, required=True)
@opt.option("--most-epsilon", MOST_EPSILON, "E", type=opt.POSITIVE)
@opt.policy_option
@opt.file_option("--ledger", LEDGER, show_default=BESIDE_SUM)
@opt.output("The noisy statistics to write.", "noisy statistics")
def publish(
    session: Session, /, total: Path, epsilon: float, delta: float, output: Path, **options: Any
) -> None:
    """Add noise to a sum: differential privacy for whoever is in it.

    The server that holds the exact sum is trusted; whoever gets the noisy one need not be. The
    noisy sum is solved like any other, and the model states the promise. This needs an encoder
    with a norm clip ([b]safle encoder make --publishable[/b]) and safle's extra "private".
    """
    from safle.publishing.ledger import Ledger
    from safle.publishing.noise import draw_discrete_gaussian
    from safle.server import Store
    from safle.wire import encode

    stored = total.is_dir()
    ledger_path = options["ledger"] or (
        total / "releases.sqlite" if stored else Path(f"{total}.releases")
    )
    statistics = Store.open(total).total().snapshot() if stored else read(total)
    promise = f"noisy statistics, epsilon {epsilon:g} and delta {delta:g}"
    classes = opt.parse_classes(options["classes"], like=statistics.class_names) or ()
    allowed = _within_policy(options["policy_path"], options["most_epsilon"])

    def draw(size: int, scale: float) -> NDArray[np.int64]:
        session.note(f"drawing {size:,} numbers of noise ...")
        return draw_discrete_gaussian(size, scale)

    with log_refusal(note=promise), allowed as most:
        how = {"most_epsilon": most, "calibration": options["calibration"], "draw": draw}
        noisy = Ledger(ledger_path).publish(statistics, classes, epsilon, delta, **how)
    data = encode(noisy)
    write_log("written", digest=hashlib.sha256(data).hexdigest(), note=promise)
    write_bytes(output, data)
    facts = counts_facts(noisy, data)
    session.facts(f"{output}: noisy statistics", facts | {"ledger": str(ledger_path)})


@contextmanager
def _within_policy(path: Path | None, most_epsilon: float | None) -> Iterator[float | None]:
    """The epsilon that all releases may reach together, by the option and the site's policy."""
    policy = Policy.find(path)
    if policy is None or policy.most_epsilon >= (most_epsilon or math.inf):
        yield most_epsilon
        return
    try:
        yield policy.most_epsilon
    except PrivacyBudgetSpent as error:
        rule = "most_epsilon"
        raise PolicyRefused(f"refused by the policy's {rule}: {error}", rule=rule) from error
