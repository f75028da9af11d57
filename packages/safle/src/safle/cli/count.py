"""At a client: ``safle count``, ``histogram`` and ``rehearse``, and how files leave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import rich_click as click

from safle.basics.memory import readable
from safle.cli import options as opt
from safle.cli.facts import counts_facts, list_names, show_exposure, warn_of_coarse
from safle.cli.session import Session, command
from safle.encoders import load_encoder
from safle.errors import InvalidInput
from safle.site.counting import Counts, count_table, describe_repeats, histogram_table
from safle.site.exposure import describe_cells
from safle.site.policy import Policy
from safle.site.release import FILE_TYPE_OF, Release
from safle.site.sheet import write_release
from safle.statistics.cells import LEAST_CELL
from safle.tables import Table, open_matching, open_table

if TYPE_CHECKING:
    # Only private rounds need these imports.
    from safle.private import PrivateKey, PrivateRound

release_options = opt.options(opt.policy_option, opt.round_options(panel="Under masks"))
"""The options that `load_release_files` reads: a policy, and the files of a private round."""


class ReleaseFiles(NamedTuple):
    """By which rules counts leave: a policy, and a private round with a client's key."""

    policy: Policy | None
    private_round: PrivateRound | None
    key: PrivateKey | None

    @property
    def least_cell(self) -> int:
        """The least cell of plain counts that the policy judges; 0 if it does not."""
        plain = self.private_round is None
        return self.policy.least_cell if self.policy is not None and plain else 0


def load_release_files(options: dict[str, Any]) -> ReleaseFiles:
    """Load the files of `release_options`; commands do so before they read a large table."""
    policy = Policy.find(options["policy_path"])
    round_files = [options[name] for name in ("round_path", "operator_path", "key_path")]
    if not any(round_files):
        return ReleaseFiles(policy, None, None)
    if not all(round_files):
        raise click.UsageError("--round, --operator and --key belong together")
    # Only private rounds need these imports.
    from safle.cli.private import load_round
    from safle.private import PrivateKey

    private_round = load_round(options["round_path"], options["operator_path"])
    return ReleaseFiles(policy, private_round, PrivateKey.load(options["key_path"]))


def release(
    session: Session, counts: Counts[Any], output: Path, files: ReleaseFiles, *, encoder: str = ""
) -> tuple[str, bytes]:
    """Write what was counted, masked if a round is named, with its release sheets.

    `PolicyRefused` if the policy does not let it out. ``encoder`` is the fingerprint of
    an evaluated model's encoder. Returns the type of the file, and its bytes.
    """
    private_round = files.private_round
    plain = Release.of(
        counts.total,
        encoder,
        counts.distinct_rows,
        counts.disguises,
        attacked=private_round is None,
    )
    if private_round is None or files.key is None:
        file_type = FILE_TYPE_OF[type(counts.total)]
        data = file_type.encode(counts.total)
        write_release(output, data, plain, files.policy)
        return file_type.name, data
    from safle.private import mask

    data = mask(private_round, files.key, counts.total).to_bytes()
    write_release(output, data, plain.under_masks(private_round), files.policy)
    session.note(
        "masked: the file does not show the counts that are listed here. Only a sum of at least "
        f"{private_round.least_clients} clients can be opened, if all of "
        f"{', '.join(private_round.keyholders)} answer"
    )
    return "masked contribution", data


def warn_of_repeats(session: Session, table: Table, counts: Counts[Any]) -> None:
    """Warn of samples that repeat the row of another."""
    if repeats := describe_repeats(table, counts.distinct_rows.sample_count):
        session.warn(repeats)


@command(
    "safle count hospital_a.csv --encoder encoder.safetensors -o a.stats",
    "safle count x.npy --labels y.npy --encoder encoder.safetensors -o b.stats",
)
@opt.features_argument
@opt.encoder_file()
@opt.counting_options
@opt.round_options(panel="Under masks")
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
    release_files = load_release_files(options)
    encoder, trusted = load_encoder(encoder_path), options["trust_features"]
    table = open_matching(encoder, features, trusted=trusted, **opt.pick_table_options(options))
    with session.progress(f"counting {features.name}") as advance:
        counts = count_table(
            encoder,
            table,
            where=features,
            classes=opt.parse_classes(options["classes"], table.labels),
            allow_outside=options["allow_outside"],
            least_cell=release_files.least_cell,
            progress=advance,
        )
    if not counts.total.sample_count and not options["allow_empty"]:
        raise InvalidInput(
            f"{features}: has no samples, so there is nothing to send; is it the right file? If it "
            "is, use --allow-empty"
        )
    warn_of_repeats(session, table, counts)
    file_type, data = release(session, counts, output, release_files)
    session.facts(f"{output}: {file_type}", counts_facts(counts.total, data))


@command(
    "safle histogram hospital_a.csv --low 0 --high 16 -o a.hist",
    "safle histogram hospital_a.csv --schema schema.toml -o a.hist",
    "safle sum a.hist b.hist c.hist -o total.hist",
    "safle encoder make --histogram total.hist -o encoder.safetensors",
)
@opt.features_argument
@opt.grid_options
@opt.table_options(labels=False)
@release_options
@opt.output("The histogram file to write.", "histogram", "masked contribution")
def histogram(session: Session, /, features: Path, output: Path, **options: Any) -> None:
    """Count a client's features into histograms, to calibrate the encoder together.

    Every client uses the same --low and --high, or --schema, and --bins. The summed histograms
    give the same thresholds however the data are split, and no client shows its features.
    """
    from safle.encoders.histogram import Grid

    declared = opt.parse_grid(options)
    if declared is None:
        raise click.UsageError("give --low and --high, or --schema FILE")
    release_files = load_release_files(options)
    table = open_table(features, **opt.pick_table_options(options))
    # Every client counts the columns in the same order, whatever the order of its file.
    table = table.arrange(declared["names"] or sorted(table.names), where=str(features))
    grid = Grid(feature_dim=table.feature_dim, **declared | {"names": table.names})
    with session.progress(f"histogram of {features.name}") as advance:
        counts = histogram_table(
            grid, table, where=features, least_cell=release_files.least_cell, progress=advance
        )
    warn_of_repeats(session, table, counts)
    file_type, data = release(session, counts, output, release_files)
    session.facts(f"{output}: {file_type}", counts_facts(counts.total, data))
    warn_of_coarse(session, counts.total)


@command("safle rehearse hospital_a.csv --encoder encoder.safetensors")
@opt.features_argument
@opt.encoder_file()
@opt.table_options(labels=True)
@opt.trust_options
def rehearse(
    session: Session, /, features: Path, encoder_path: Path, allow_outside: bool, **options: Any
) -> None:
    """Say what your samples would send and give away, before anything is sent.

    It counts and packs them as [b]safle count[/b] would, but writes no file. It also tests a model
    of four fifths of them on the last fifth: a federation does better. [b]safle attack[/b] of
    safle-lab works samples out of a file.
    """
    from safle.site.rehearsal import rehearse as count_and_judge

    encoder, trusted = load_encoder(encoder_path), options["trust_features"]
    table = open_matching(encoder, features, trusted=trusted, **opt.pick_table_options(options))
    with session.progress(f"rehearsing {features.name}") as advance:
        rehearsal = count_and_judge(
            encoder, table, where=features, allow_outside=allow_outside, progress=advance
        )
    exposure = rehearsal.exposure
    verdict = rehearsal.verdict
    judged = "lets it out" if verdict.kept else "refuses it"
    facts = {
        "samples": f"{rehearsal.samples:,}",
        "classes": list_names(sorted(set(np.asarray(table.labels).tolist()))),
        "columns that fit": f"{rehearsal.fit:.0%} vary within their calibrated range",
        "accuracy alone": f"{rehearsal.accuracy:.1%} ± {rehearsal.error:.1%} of "
        f"{rehearsal.judged:,} held-out samples "
        f"(always the most frequent class: {rehearsal.largest_class:.1%})",
        "sends": f"{readable(rehearsal.bytes)}, once: {rehearsal.numbers:,} sums over its samples",
        "takes": f"{rehearsal.seconds:.1f} s to encode, count and pack features here",
        "says": "how many samples each class has, sums of columns and of products of two columns",
        "cells": describe_cells(exposure.cells),
        "rank": f"{exposure.rank:,} independent columns; {exposure.samples:,} different samples",
        f"least_cell = {LEAST_CELL}": f"{judged}: {verdict.found} ({verdict.limit})",
    }
    session.facts(f"{features}: a contribution", facts)
    session.text([f"warning: {text}" for text in rehearsal.doubts])
    # Last, where it is read.
    show_exposure(session, exposure)
