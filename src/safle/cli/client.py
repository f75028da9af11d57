"""``safle client``: images -> one statistics file, in one pass; features never reach the disk."""

from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.image_options import (
    choose_backbone,
    choose_images,
    image_options,
    running,
    unreadable_text,
)
from safle.cli.releasing import masking_options, policy_option, release_statistics
from safle.cli.session import Session


@opt.command("At a client", "safle client photographs/ --encoder encoder.safetensors -o a.stats")
@image_options(default=None, shown="the encoder's")
@opt.encoder_file()
@opt.trust_option
@policy_option
@masking_options
@opt.output("The statistics file to write; send it to the server.")
def client(
    session: Session,
    /,
    images: Path,
    encoder_path: Path,
    backbone: str | None,
    trust_features: bool,
    policy_path: Path | None,
    output: Path,
    **options: Any,
) -> None:
    """Count a client's images into one statistics file, in one pass.

    The same file as [b]safle features[/b] and [b]safle count[/b] make together, but no
    features are written to disk.
    """
    from safle.data.backbones.writing import count_images
    from safle.encoders import load_encoder
    from safle.encoders.source import check_source

    given = images, encoder_path, options["labels"], options["weights"], policy_path
    opt.refuse_overwriting(output, *given)
    encoder = load_encoder(encoder_path)
    source = choose_images(session, images, options)
    network = choose_backbone(backbone or _named_in(encoder.source, encoder_path), options)
    check_source(encoder.source, network.source, where=str(images), trusted=trust_features)
    session.announce_compilation()
    with running(session, f"counting {images.name}", source, options) as settings:
        statistics, unreadable = count_images(source, network, encoder, output, **settings)
    title, facts = release_statistics(session, statistics, output, policy_path)
    session.facts(title, facts | {"unreadable": unreadable_text(unreadable)})


def _named_in(source: str, encoder: Path) -> str:
    """The catalogue's name at the beginning of an encoder's source."""
    from safle.data.backbones import CARDS

    name = source.partition(" ")[0]
    if name in CARDS:
        return name
    found = "is for an ONNX file" if name == "onnx" else "names no backbone"
    raise click.UsageError(f"{encoder} {found}; say which one with --backbone")
