"""``safle rehearse``: what a client's samples would send and be worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from safle.cli import options as opt
from safle.cli.facts import contribution_facts, listing, worked_out
from safle.cli.reading import open_matching
from safle.cli.session import Session
from safle.encoders import load_encoder
from safle.site.rehearsal import Worth, fitting_share, weigh, worth

LEAST_FIT = 0.5


@opt.command("safle rehearse hospital_a.csv --encoder encoder.safetensors")
@opt.features_argument
@opt.encoder_file()
@opt.table_options(labels=True)
@opt.outside_option
@opt.trust_option
def rehearse(
    session: Session,
    /,
    features: Path,
    encoder_path: Path,
    allow_outside: bool,
    trust_features: bool,
    **selection: Any,
) -> None:
    """Say what your samples would send and be worth, before anything is sent.

    Counts and packs them as [b]safle count[/b] would, but writes no file. A fifth of them,
    held out, says how well the others do on their own: a federation does better. What can be
    worked out from a file, [b]safle attack[/b] of safle-lab works out.
    """
    encoder = load_encoder(encoder_path)
    table = open_matching(encoder, features, trusted=trust_features, **selection)
    values, labels = np.asarray(table.features), np.asarray(table.labels)
    with session.progress(f"rehearsing {features.name}") as advance:
        sent = weigh(encoder, values, labels, table.weights, allow_outside=allow_outside)
        advance(0.4)
        alone = worth(
            encoder, values, labels, table.weights, lambda done: advance(0.4 + 0.5 * done)
        )
        fit = fitting_share(encoder, values)
    facts: dict[str, object] = {
        "samples": f"{sent.samples:,}",
        "classes": listing(sorted(set(labels.tolist()))),
        "columns that fit": f"{fit:.0%} vary within their calibrated range",
        "accuracy alone": f"{alone.accuracy:.1%} ± {alone.error:.1%} of {alone.judged:,} held-out "
        f"samples (always the most frequent class: {alone.largest_class:.1%})",
    }
    session.facts(f"{features}: a contribution", facts | contribution_facts(sent))
    session.text(worked_out(sent.gives_away, sent.warning))
    session.text([f"warning: {text}" for text in _warnings(fit, alone)])


def _warnings(fit: float, alone: Worth) -> list[str]:
    found = []
    if fit < LEAST_FIT:
        found.append(
            f"only {fit:.0%} of the columns fit; expected nearly all. Are these the columns and "
            "units, or for images the backbone, that the encoder was calibrated for?"
        )
    if alone.largest_class < 1 and alone.accuracy + 2 * alone.error < alone.largest_class:
        found.append(
            "your samples alone do worse than always naming the most frequent class: do "
            "features and labels belong together?"
        )
    return found
