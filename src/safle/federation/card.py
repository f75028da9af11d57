"""Model card: one page of Markdown about a model, for whoever is to rely on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from safle.errors import InvalidInput
from safle.federation.contribution import Entry
from safle.model import Model

Mode = Literal["plain", "masked"]
READ = {
    "plain": "Plain contributions: whoever ran the server could work samples out of them.",
    "masked": "Masked contributions: nobody but its own site read one, only their sum was opened.",
}
LIMITS = (
    "Wrong or made-up data of a site are in it until the site is removed and the sum solved again.",
    "It knows the classes above and no others: every sample gets one of them, however strange.",
    "Figures hold for samples like those they were measured on. Measure again where it is used.",
    "It is no medical or safety device by itself; that takes an assessment of its own.",
)


def write_card(
    model: Model,
    *,
    sites: Iterable[Entry] = (),
    mode: Mode | None = None,
    figures: Mapping[str, object] | None = None,
) -> str:
    """A model card in Markdown.

    Parameters
    ----------
    sites : the contributions that were summed, as a store or a manifest lists them
    mode : how contributions travelled, if that is known
    figures : what was measured, by name, and on what

    Raises
    ------
    InvalidInput
        The sites know a class that the model does not, or the other way round.

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder, count, solve
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> total = count(encoder, [[0.1], [0.2], [0.8], [0.9]], ["low"] * 2 + ["high"] * 2)
    >>> card = write_card(Model(encoder, solve(total)), mode="masked", figures={"accuracy": "98 %"})
    >>> "| accuracy | 98 % |" in card
    True
    """
    listed = list(sites)
    _check_classes(model, listed)
    return "\n".join(_lines(model, listed, mode, figures or {})) + "\n"


def _check_classes(model: Model, sites: Sequence[Entry]) -> None:
    seen = {name for site in sites for name in site.classes}
    if sites and seen != set(model.class_names):
        raise InvalidInput(
            f"the sites have seen {len(seen)} classes and the model knows "
            f"{len(model.class_names)}, not all the same; name the store or the sum that it was "
            "solved from"
        )


def _lines(
    model: Model, sites: Sequence[Entry], mode: Mode | None, figures: Mapping[str, object]
) -> Iterator[str]:
    encoder = model.encoder
    source = f" of {_plain(encoder.source)}" if encoder.source else ""
    facts = {
        "digest": f"`{model.digest}`",
        "classes": ", ".join(_plain(name) for name in model.class_names),
        "features": f"{encoder.feature_dim:,}{source}",
        "encoder": f"{encoder.kind}, `{encoder.fingerprint}`",
        "head and ridge": f"{model.head}, {model.ridge:.6g}",
    }
    yield "# Model card"
    yield from _table(facts)
    yield "\n## Data"
    if sites:
        yield f"\n{sum(site.samples for site in sites):,} samples of {len(sites):,} sites.\n"
        yield from ("| site | samples | classes | contribution |", "|---|---|---|---|")
        for site in sites:
            known = ", ".join(_plain(name) for name in site.classes)
            yield f"| {_plain(site.client)} | {site.samples:,} | {known} | `{site.digest}` |"
    else:
        yield "\nWhich sites contributed was not stated."
    yield "\n## Privacy"
    yield f"\n{READ[mode] if mode else 'How contributions travelled was not stated.'}"
    if model.privacy:
        yield f"Differential privacy of every sample: {model.privacy.promise}."
    else:
        yield "No noise was added: the model is exact, and may show traces of single samples."
    yield "\n## Figures"
    yield from _table(figures) if figures else ["\nNothing was measured for this card."]
    yield "\n## Limits\n"
    yield from (f"- {limit}" for limit in LIMITS)


def _table(rows: Mapping[str, object]) -> Iterator[str]:
    yield from ("\n| | |", "|---|---|")
    yield from (f"| {name} | {value} |" for name, value in rows.items())


def _plain(text: object) -> str:
    """A name as it stands: it is anybody's, and must not become markup or another row."""
    return re.sub(r"([\\`*_\[\]<>|#&])", r"\\\1", " ".join(str(text).split()))
