"""Model card: one page of Markdown about a model, for people who rely on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from safle.basics.templates import templates_of
from safle.errors import InvalidInput
from safle.server.limits import Contribution

if TYPE_CHECKING:
    from safle.model.model import Model

Mode = Literal["plain", "masked"]


def write_card(
    model: Model,
    *,
    sites: Iterable[Contribution] = (),
    samples: int | None = None,
    mode: Mode | None = None,
    figures: Mapping[str, object] | None = None,
) -> str:
    """A model card in Markdown.

    Parameters
    ----------
    sites : the contributions that were summed, as a store lists them
    samples : of a sum, if only that is known: it does not name its sites
    mode : how contributions travelled, if that is known
    figures : what was measured: name to value

    Raises
    ------
    InvalidInput
        The sites know a class that the model does not, or the other way round.

    Examples
    --------
    >>> from safle import LinearEncoder, Model, count, declared_range, solve
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> total = count(encoder, [[0.1], [0.2], [0.8], [0.9]], ["low"] * 2 + ["high"] * 2)
    >>> model = Model.of(encoder, solve(total))
    >>> card = write_card(model, mode="masked", figures={"accuracy": "98 %"})
    >>> "| accuracy | 98 % |" in card
    True
    """
    listed = list(sites)
    _check_classes(model, listed)
    pages = templates_of(["safle.server"], lstrip_blocks=True, keep_trailing_newline=True)
    pages.filters["plain"] = _escape
    return pages.get_template("card.md.j2").render(
        model=model,
        encoder=model.encoder,
        sites=listed,
        samples=samples,
        mode=mode,
        figures=figures or {},
    )


def _check_classes(model: Model, sites: Sequence[Contribution]) -> None:
    seen = {name for site in sites for name in site.classes}
    if sites and seen != set(model.class_names):
        raise InvalidInput(
            f"the sites have seen {len(seen)} classes and the model knows "
            f"{len(model.class_names)}, not all the same; name the store or the sum that the "
            "model was solved from"
        )


def _escape(text: object) -> str:
    """Escape a name: anybody may have chosen it, and it must not become markup or a row."""
    return re.sub(r"([\\`*_\[\]<>|#&])", r"\\\1", " ".join(str(text).split()))
