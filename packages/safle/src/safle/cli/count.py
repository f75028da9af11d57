"""``safle count``: a table or images -> one statistics file, all that a client sends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import image_options as img
from safle.cli import options as opt
from safle.cli.releasing import masking_options, policy_option, release_statistics
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.encoders import Encoder
    from safle.site.counting import Counts
    from safle.statistics import Statistics
    from safle_images.backbones import Backbone

CLASSES = "The only labels there may be; anything else is refused."
EMPTY = "Write a file that counts no samples; it changes nothing in a sum."
BATCH = "Samples taken at a time; the result does not depend on it."
TABLE_BATCH = 4096


@opt.command(
    opt.FIRST,
    "safle count hospital_a.csv --encoder encoder.safetensors -o a.stats",
    "safle count x.npy --labels y.npy --encoder encoder.safetensors -o b.stats",
    "safle count photographs/ --encoder encoder.safetensors -o c.stats",
)
@click.argument("features", type=click.Path(path_type=Path), metavar="DATA", help=img.DATA)
@opt.encoder_file()
@opt.table_options(labels=True)
@opt.weight_option
@opt.option("--classes", CLASSES, "A,B,C", show_default="all")
@opt.option("--allow-empty", EMPTY, is_flag=True)
@opt.option("--batch", BATCH, "N", type=opt.COUNT, show_default="4096 rows or 32 images")
@opt.trust_option
@policy_option
@img.backbone_options(default=None, shown="the encoder's", panel="Of images")
@masking_options
@opt.output(
    "The statistics file to write; send it to the server.", "statistics", "masked contribution"
)
def count(
    session: Session,
    /,
    features: Path,
    encoder_path: Path,
    policy_path: Path | None,
    output: Path,
    **options: Any,
) -> None:
    """Count a client's samples and labels into one statistics file.

    The file holds exact counts of codes, pairs of codes and classes, not samples. It is
    the only thing that leaves the client. Images go through the encoder's backbone, and their
    features never reach the disk; a run that is interrupted goes on where it was.
    """
    from safle.encoders import load_encoder
    from safle.errors import InvalidInput
    from safle.site.counting import Counts

    given = features, encoder_path, options["labels"], options["weights"], policy_path
    opt.refuse_overwriting(output, *given)
    encoder = load_encoder(encoder_path)
    session.announce_compilation()
    facts: dict[str, object] = {}
    if img.are_images(features, options):
        opt.refuse_given(img.ONLY_TABLES, "a table")
        network = img.backbone_for(encoder, encoder_path, options)
        statistics, facts["unreadable"] = _count_images(
            session, features, encoder, network, output, options
        )
        counts = Counts(statistics, statistics)
    else:
        opt.refuse_given(img.ONLY_IMAGES, "images")
        counts = _count_table(session, features, encoder, options)
    if not counts.total.sample_count and not options["allow_empty"]:
        raise InvalidInput(
            f"{features}: has no samples, so there is nothing to send; is it the right file? If it "
            "is, say --allow-empty"
        )
    title, counted = release_statistics(session, counts, output, policy_path)
    session.facts(title, counted | facts)


def _count_table(
    session: Session, path: Path, encoder: Encoder, options: dict[str, Any]
) -> Counts[Statistics]:
    from safle.cli.reading import advancing, declared_classes, open_matching
    from safle.site.counting import count_blocks

    table = open_matching(
        session, encoder, path, trusted=options["trust_features"], **opt.selected(options)
    )
    classes = declared_classes(options["classes"], table)
    with session.progress(f"counting {path.name}") as advance:
        blocks = advancing(table, options["batch"] or TABLE_BATCH, advance)
        return count_blocks(encoder, blocks, table.weights, where=path, classes=classes)


def _count_images(
    session: Session,
    path: Path,
    encoder: Encoder,
    network: Backbone,
    output: Path,
    options: dict[str, Any],
) -> tuple[Statistics, str]:
    """The statistics, and how many images could not be read."""
    from safle.encoders.source import check_source
    from safle_images.backbones.writing import count_images

    source = img.choose_images(session, path, options)
    trusted = options["trust_features"]
    check_source(encoder.source, network.source, where=str(path), trusted=trusted)
    options |= {"batch": options["batch"] or img.BATCH_SIZE}
    with img.running(session, f"counting {path.name}", source, options) as settings:
        statistics, unreadable = count_images(source, network, encoder, output, **settings)
    return statistics, img.unreadable_text(unreadable)
