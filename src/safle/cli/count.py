"""``safle count``: features and labels -> one statistics file, all that a client sends."""

from pathlib import Path
from typing import Any

from safle.cli import options as opt
from safle.cli.releasing import masking_options, policy_option, release_statistics
from safle.cli.session import Session

CLASSES = "The only labels there may be; anything else is refused."


@opt.command(
    "At a client",
    "safle count hospital_a.csv --encoder encoder.safetensors -o a.stats",
    "safle count x.npy --labels y.npy --encoder encoder.safetensors -o b.stats",
)
@opt.features_argument
@opt.encoder_file()
@opt.table_options(labels=True)
@opt.option("--classes", CLASSES, "A,B,C", show_default="all")
@opt.batch_option
@opt.trust_option
@policy_option
@masking_options
@opt.output("The statistics file to write; send it to the server.")
def count(
    session: Session,
    /,
    features: Path,
    encoder_path: Path,
    classes: str | None,
    batch: int,
    trust_features: bool,
    policy_path: Path | None,
    output: Path,
    **selection: Any,
) -> None:
    """Count a client's features and labels into one statistics file.

    The file holds exact counts of codes, pairs of codes and classes, not samples. It is
    the only thing that leaves the client.
    """
    from safle.cli.reading import batches, declared_classes, match, open_labelled
    from safle.encoders import load_encoder
    from safle.statistics import Accumulator

    opt.refuse_overwriting(output, features, encoder_path, selection["labels"], policy_path)
    encoder = load_encoder(encoder_path)
    table = open_labelled(features, **selection)
    table = match(session, table, encoder, features, trusted=trust_features)
    total = Accumulator(encoder, classes=declared_classes(classes, table))
    session.announce_compilation()
    with session.progress(f"counting {features.name}") as advance:
        for block, labels, named in batches(features, table, batch, advance):
            with named():
                total.add_samples(block, labels)
        statistics = total.snapshot()
    session.facts(*release_statistics(session, statistics, output, policy_path))
