"""At a client: ``safle count``, ``histogram`` and ``rehearse``, and how files leave."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rich_click as click

from safle.basics.memory import readable
from safle.basics.texts import list_names, name_some
from safle.cli import options as opt
from safle.cli.facts import counts_facts, show_exposure, warn_of_coarse
from safle.cli.readers import find_table, open_samples
from safle.cli.release import before_options, prepare_before
from safle.cli.session import Session, command
from safle.encoders.base import Encoder, load_encoder
from safle.errors import InvalidInput
from safle.site.counting import count_table, describe_repeats, histogram_table
from safle.site.disguises import Disguises
from safle.site.policy import Policy
from safle.site.release import Before, Release
from safle.site.sheet import write_release
from safle.statistics.cells import LEAST_CELL
from safle.statistics.exposure import describe_cells
from safle.statistics.statistics import Statistics
from safle.tables.reading import open_table
from safle.tables.table import Table
from safle.wire.container import peek_file_type

RAY = (
    "Count each table on a Ray cluster, which reads it there; 'local' starts one, 'auto' finds it."
)


def release(
    session: Session,
    counts: tuple[Any, Any, Disguises | None],
    output: Path,
    policy: Policy | None,
    before: Before | None,
    *,
    encoder: str = "",
) -> tuple[str, bytes]:
    """Write what `count_table` and its siblings have counted, with its release sheets.

    `PolicyRefused` if the policy does not let it out. ``encoder`` is the fingerprint of
    an evaluated model's encoder. Returns the type of the file, and its bytes.
    """
    total, rows, disguises = counts
    plain = Release.of(total, encoder, rows, disguises, attacked=before is None)
    data, note = write_release(total, plain, output, policy, before)
    if note:
        session.note(note)
    return str(peek_file_type(output)), data


def least_cell(policy: Policy | None, before: Before | None) -> int:
    """The least cell of plain counts that the policy judges; 0 if it does not."""
    return policy.least_cell if policy is not None and before is None else 0


def warn_of_repeats(session: Session, table: Table, rows: Any) -> None:
    """Warn of samples that repeat the row of another; ``rows`` count each different row once."""
    if repeats := describe_repeats(len(table), rows.sample_count, table):
        session.warn(repeats)


@command(
    "safle count hospital_a.csv --encoder encoder.safetensors -o a.stats",
    "safle count b.parquet --label-column outcome --encoder encoder.safetensors -o b.stats",
    "safle count shards/*.tar --encoder encoder.safetensors --ray auto -o c.stats",
)
@click.argument("features", nargs=-1, required=True, type=opt.PLACE, help=opt.FEATURES)
@opt.encoder_file()
@opt.backbone_option()
@opt.option("--ray", RAY, "ADDRESS")
@opt.counting_options
@before_options
@opt.output("The statistics file to write; send it to the server.")
def count(
    session: Session,
    /,
    features: tuple[Path, ...],
    encoder_path: Path,
    output: Path,
    **options: Any,
) -> None:
    """Count a client's samples and labels into one statistics file.

    The file holds exact counts of codes, pairs of codes and classes, not samples. It is
    the only thing that leaves the client. Several tables, or folders of images, are counted as one.
    """
    policy = Policy.find(options["policy_path"])
    before = prepare_before(options)
    encoder = load_encoder(encoder_path)
    cell = least_cell(policy, before)
    several = len(features) > 1 or options["ray"] is not None
    count_them = _count_shards if several else _count_one
    counts, repeats = count_them(session, encoder, features, options, cell)
    total, _, _ = counts
    if not total.sample_count and not options["allow_empty"]:
        raise InvalidInput(
            f"{name_some(map(str, features))}: has no samples, so there is nothing to send; is it "
            "the right file? If it is, use --allow-empty"
        )
    if repeats:
        session.warn(repeats)
    file_type, data = release(session, counts, output, policy, before)
    session.facts(f"{output}: {file_type}", counts_facts(total, data))


Counted = tuple[tuple[Statistics, Statistics, Disguises | None], str]
"""Counts, and a warning of rows that repeat."""


def _count_one(
    session: Session,
    encoder: Encoder,
    features: Sequence[Path],
    options: dict[str, Any],
    least_cell: int,
) -> Counted:
    (path,) = features
    table = open_samples(session, encoder, path, options, trusted=options["trust_features"])
    with session.progress(f"counting {path.name}") as advance:
        counts = count_table(
            encoder,
            table,
            where=path,
            classes=opt.parse_classes(options["classes"], table.labels),
            allow_outside=options["allow_outside"],
            least_cell=least_cell,
            progress=advance,
        )
    return counts, describe_repeats(len(table), counts[1].sample_count, table)


def _count_shards(
    session: Session,
    encoder: Encoder,
    features: Sequence[Path],
    options: dict[str, Any],
    least_cell: int,
) -> Counted:
    """Count several tables as one, here or on a Ray cluster, which reads them there."""
    from safle.site.shards import count_shards

    _refuse_twice(features)
    how = {name: options[name] for name in (*opt.pick_table_options(options), "backbone")}
    with session.progress(f"counting {len(features)} tables", len(features), "tables") as advance:
        counts = count_shards(
            encoder,
            # A data set of a hub has a name, and no place.
            [path.absolute() if path.exists() else path for path in features],
            partial(_open_shard, encoder, how, options["trust_features"]),
            classes_of=partial(opt.parse_classes, options["classes"]),
            allow_outside=options["allow_outside"],
            least_cell=least_cell,
            ray=options["ray"],
            cards=1 if encoder.contract.source else 0,
            progress=lambda share: advance(share * len(features)),
        )
    total, rows, _ = counts
    return counts, describe_repeats(total.sample_count, rows.sample_count)


def _open_shard(encoder: Encoder, options: dict[str, Any], trusted: bool, path: Path) -> Table:
    """A table, or the features of images, where it is counted."""
    return open_samples(Session(quiet=True), encoder, path, options, trusted=trusted)


def _refuse_twice(paths: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise InvalidInput(f"{path}: is named twice; expected each table once")
        seen.add(path.resolve())


@command(
    "safle histogram hospital_a.csv --low 0 --high 16 -o a.hist",
    "safle histogram hospital_a.csv --id patient --schema schema.toml -o a.hist",
    "safle sum a.hist b.hist c.hist -o total.hist",
    "safle encoder make --histogram total.hist -o encoder.safetensors",
)
@opt.features_argument
@opt.grid_options
@opt.backbone_option(show_default="none")
@opt.table_options()
@opt.policy_option
@before_options
@opt.output("The histogram file to write.")
def histogram(session: Session, /, features: Path, output: Path, **options: Any) -> None:
    """Count a client's features into histograms, to calibrate the encoder together.

    Every client uses the same --low and --high, or --schema, and --bins. The summed histograms
    give the same thresholds however the data are split, and no client shows its features.
    """
    from safle.statistics.histogram import Histogram

    declared = opt.parse_grid(options)
    if declared is None:
        raise click.UsageError("give --low and --high, or --schema FILE")
    policy = Policy.find(options["policy_path"])
    before = prepare_before(options)
    place, how = find_table(session, features, options, labelled=False)
    table = open_table(place, **how)
    # Every client counts the columns in the same order, also if its file has another.
    table = table.arrange(declared["names"] or sorted(table.names), where=str(features))
    zero = Histogram.empty(feature_dim=table.feature_dim, **declared | {"names": table.names})
    with session.progress(f"histogram of {features.name}") as advance:
        cell = least_cell(policy, before)
        counts = histogram_table(zero, table, where=features, least_cell=cell, progress=advance)
    total, rows, _ = counts
    warn_of_repeats(session, table, rows)
    file_type, data = release(session, counts, output, policy, before)
    session.facts(f"{output}: {file_type}", counts_facts(total, data))
    warn_of_coarse(session, total)


@command("safle rehearse hospital_a.csv --encoder encoder.safetensors")
@opt.features_argument
@opt.encoder_file()
@opt.backbone_option()
@opt.table_options()
@opt.trust_options
def rehearse(
    session: Session, /, features: Path, encoder_path: Path, allow_outside: bool, **options: Any
) -> None:
    """Say what your samples would send and give away, before anything is sent.

    It counts and packs them as [b]safle count[/b] would, but writes no file. It also tests a model
    of four fifths of them on the last fifth: a federation does better. [b]safle attack[/b] of
    safle-lab reconstructs samples from a file.
    """
    from safle.site.rehearsal import rehearse as count_and_judge

    encoder = load_encoder(encoder_path)
    trusted = options["trust_features"]
    table = open_samples(session, encoder, features, options, trusted=trusted)
    with session.progress(f"rehearsing {features.name}") as advance:
        rehearsal = count_and_judge(
            encoder, table, where=features, allow_outside=allow_outside, progress=advance
        )
    exposure = rehearsal.exposure
    _, kept, found = rehearsal.verdict
    judged = "lets it out" if kept else "refuses it"
    facts = {
        "samples": f"{rehearsal.samples:,}",
        "classes": list_names(sorted(set(np.asarray(table.labels).tolist()))),
        "columns that fit": f"{rehearsal.fit:.0%} vary within their calibrated range",
        "accuracy alone": f"{rehearsal.accuracy:.1%} ± {rehearsal.error:.1%} of "
        f"{rehearsal.judged:,} held-out samples "
        f"(always the most frequent class: {rehearsal.largest_class:.1%})",
        "sends": f"{readable(rehearsal.bytes)}, once: {rehearsal.numbers:,} sums over its samples",
        "takes": f"{rehearsal.seconds:.1f} s to encode, count and pack features here",
        "reveals": "how many samples each class has, sums of columns and of products of columns",
        "cells": describe_cells(exposure.cells),
        "rank": f"{exposure.rank:,} independent columns; {exposure.samples:,} different samples",
        f"least_cell = {LEAST_CELL}": f"{judged}: {found}",
    }
    session.facts(f"{features}: a contribution", facts)
    session.text([f"warning: {text}" for text in rehearsal.doubts])
    # Last, where people look.
    show_exposure(session, exposure)
