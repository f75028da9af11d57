"""``safle count``: a table -> one statistics file, all that a client sends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from safle.cli import options as opt
from safle.cli.releasing import masking_options, policy_option, release_statistics
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.encoders import Encoder
    from safle.site.counting import Counts
    from safle.statistics import Statistics

CLASSES = "The only labels there may be; anything else is refused."
EMPTY = "Write a file that counts no samples; it changes nothing in a sum."


@opt.command(
    opt.FIRST,
    "safle count hospital_a.csv --encoder encoder.safetensors -o a.stats",
    "safle count x.npy --labels y.npy --encoder encoder.safetensors -o b.stats",
)
@opt.features_argument
@opt.encoder_file()
@opt.table_options(labels=True)
@opt.weight_option
@opt.option("--classes", CLASSES, "A,B,C", show_default="all")
@opt.option("--allow-empty", EMPTY, is_flag=True)
@opt.batch_option
@opt.outside_option
@opt.trust_option
@policy_option
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
    the only thing that leaves the client.
    """
    from safle.encoders import load_encoder
    from safle.errors import InvalidInput

    opt.refuse_overwriting(output, features, encoder_path, options["labels"], policy_path)
    encoder = load_encoder(encoder_path)
    session.announce_compilation()
    counts = _count(session, features, encoder, options)
    if not counts.total.sample_count and not options["allow_empty"]:
        raise InvalidInput(
            f"{features}: has no samples, so there is nothing to send; is it the right file? If it "
            "is, say --allow-empty"
        )
    title, facts = release_statistics(session, counts, output, policy_path)
    session.facts(title, facts)


def _count(
    session: Session, path: Path, encoder: Encoder, options: dict[str, Any]
) -> Counts[Statistics]:
    from safle.cli.reading import advancing, declared_classes, open_matching
    from safle.site.counting import count_blocks

    table = open_matching(encoder, path, trusted=options["trust_features"], **opt.selected(options))
    classes = declared_classes(options["classes"], table)
    with session.progress(f"counting {path.name}") as advance:
        blocks = advancing(table, options["batch"], advance)
        return count_blocks(
            encoder,
            blocks,
            table.weights,
            where=path,
            classes=classes,
            allow_outside=options["allow_outside"],
        )
