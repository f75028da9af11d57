"""At a client: ``safle count`` and ``safle histogram``, and how any file leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rich_click as click
from numpy.typing import NDArray

from safle.cli import options as opt
from safle.cli.facts import counts_facts, histogram_facts, warn_of_coarse
from safle.cli.reading import advancing, declared_classes, declared_grid, open_matching
from safle.cli.session import Advance, Session
from safle.encoders import load_encoder
from safle.encoders.features import as_features
from safle.encoders.histogram import Histogram
from safle.errors import InvalidInput
from safle.site.counting import Counts, count_blocks, naming_batch
from safle.site.policy import Policy, warning_of
from safle.site.release import Release, kind_for
from safle.site.sheet import write_release
from safle.tables import Table, open_table
from safle.wire import container

EMPTY = "Write a file that counts no samples; it changes nothing in a sum."
release_options = opt.options(opt.policy_option, opt.round_options(panel="Under masks"))
"""By which rules a file leaves, and for which private round: what `release` takes."""


def release(
    session: Session,
    counts: Counts[Any],
    output: Path,
    options: dict[str, Any],
    *,
    encoder: str = "",
) -> tuple[str, bytes]:
    """Write what was counted, masked if a round is named, with its release sheets.

    `PolicyRefused` if the policy does not let it out. ``encoder`` is the fingerprint of an
    evaluated model's. Returns what kind of file it is, and its bytes.
    """
    found, rules = Release.of(counts.once, encoder), Policy.find(options["policy_path"])
    masking = [options[name] for name in ("round_path", "operator_path", "key_path")]
    if any(masking):
        if not all(masking):
            raise click.UsageError("--round, --operator and --key belong together")
        opt.refuse_overwriting(output, *masking)
        return "masked contribution", _mask(session, counts, output, found, rules, *masking)
    kind = kind_for(counts.total)
    data = kind.encode(counts.total)
    write_release(output, data, found, rules)
    if warning := warning_of(found, rules):
        session.warn(warning)
    return kind.name, data


def _mask(
    session: Session,
    counts: Counts[Any],
    output: Path,
    plain: Release,
    policy: Policy | None,
    round_path: Path,
    operator_path: Path,
    key_path: Path,
) -> bytes:
    # Only who takes part in a private round needs what these import.
    from safle.cli.private_round import load_round
    from safle.private import PrivateKey, mask

    private_round = load_round(round_path, operator_path)
    data = mask(private_round, PrivateKey.load(key_path), counts.total).to_bytes()
    write_release(output, data, plain.under_masks(private_round), policy)
    session.note(
        "masked: what is listed here was counted and is not in the file; only the sum with others "
        "can be opened, of at least "
        f"{private_round.fewest} clients, if all of {', '.join(private_round.keyholders)} answer"
    )
    return data


@opt.command(
    "safle count hospital_a.csv --encoder encoder.safetensors -o a.stats",
    "safle count x.npy --labels y.npy --encoder encoder.safetensors -o b.stats",
)
@opt.features_argument
@opt.encoder_file()
@opt.table_options(labels=True)
@opt.classes_option
@opt.option("--allow-empty", EMPTY, is_flag=True)
@opt.batch_option
@opt.outside_option
@opt.trust_option
@release_options
@opt.output(
    "The statistics file to write; send it to the server.", "statistics", "masked contribution"
)
def count(
    session: Session, /, features: Path, encoder_path: Path, output: Path, **options: Any
) -> None:
    """Count a client's samples and labels into one statistics file.

    The file holds exact counts of codes, pairs of codes and classes, not samples. It is
    the only thing that leaves the client.
    """
    opt.refuse_overwriting(
        output, features, encoder_path, options["labels"], options["policy_path"]
    )
    encoder = load_encoder(encoder_path)
    trusted = options["trust_features"]
    table = open_matching(encoder, features, trusted=trusted, **opt.selected(options))
    classes = declared_classes(options["classes"], table.labels)
    with session.progress(f"counting {features.name}") as advance:
        counts = count_blocks(
            encoder,
            advancing(table, options["batch"], advance),
            table.weights,
            where=features,
            classes=classes,
            allow_outside=options["allow_outside"],
        )
    if not counts.total.sample_count and not options["allow_empty"]:
        raise InvalidInput(
            f"{features}: has no samples, so there is nothing to send; is it the right file? If it "
            "is, say --allow-empty"
        )
    kind, data = release(session, counts, output, options)
    digest = container.declared_digest(data)
    facts = counts_facts(counts.total, size=len(data), digest=digest)
    session.facts(f"{output}: {kind}", facts)


@opt.command(
    "safle histogram hospital_a.csv --low 0 --high 16 -o a.hist",
    "safle histogram hospital_a.csv --ranges ranges.csv -o a.hist",
    "safle sum a.hist b.hist c.hist -o total.hist",
    "safle encoder make --histogram total.hist -o encoder.safetensors",
)
@opt.features_argument
@opt.grid_options
@opt.table_options(labels=False)
@opt.batch_option
@release_options
@opt.output("The histogram file to write.", "histogram", "masked contribution")
def histogram(session: Session, /, features: Path, output: Path, **options: Any) -> None:
    """Count a client's features into histograms, to calibrate the encoder together.

    Every client uses the same --low and --high, or --ranges, and --bins. The summed histograms
    give the same thresholds however the data are split, and no client shows its features.
    """
    opt.refuse_overwriting(output, features, options["ranges"], options["policy_path"])
    grid, names = declared_grid(options)
    if grid is None:
        raise click.UsageError("say --low and --high, or --ranges FILE")
    table = open_table(features, **opt.selected(options))
    # In one order everywhere, whatever that of the file.
    table = table.arranged(names or sorted(table.names), where=str(features))
    with session.progress(f"histogram of {features.name}") as advance:
        blocks = _blocks(features, table, options["batch"], advance)
        counted = Histogram.of(blocks, grid, names=table.names)
    kind, _ = release(session, Counts(counted, counted), output, options)
    session.facts(f"{output}: {kind}", histogram_facts(counted))
    warn_of_coarse(session, counted)


def _blocks(path: Path, table: Table, size: int, advance: Advance) -> Iterator[NDArray[Any]]:
    # Nothing, first: a client without samples has a histogram too, of the right width.
    yield np.empty((0, table.feature_dim))
    done = 0
    for block, _ in advancing(table, size, advance):
        with naming_batch(path, done):
            yield as_features(block)
        done += len(block)
