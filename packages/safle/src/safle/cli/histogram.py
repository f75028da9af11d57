"""``safle histogram``: one client's part of a federated calibration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.count import masking_options, policy_option, release
from safle.cli.session import Advance, Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from safle.encoders.histogram import Grid
    from safle.tables import Table

RANGES = "A grid for each feature: a file of ranges, .csv (name,low,high) or .toml (a schema)."


@opt.command(
    "Before the round",
    "safle histogram hospital_a.csv --low 0 --high 16 -o a.hist",
    "safle histogram hospital_a.csv --ranges ranges.csv -o a.hist",
    "safle sum a.hist b.hist c.hist -o total.hist",
    "safle encoder make --histogram total.hist -o encoder.safetensors",
)
@opt.features_argument
@opt.option("--low", "Lower end of the grid of every feature.", type=float)
@opt.option("--high", "Upper end of the grid of every feature.", type=float)
@opt.option("--ranges", RANGES, "FILE", type=opt.FILE)
@opt.option("--bins", "Equal bins between the ends.", type=int, default=256)
@opt.table_options(labels=False)
@opt.batch_option
@policy_option
@masking_options
@opt.output("The histogram file to write.", "histogram", "masked contribution")
def histogram(
    session: Session,
    /,
    features: Path,
    low: float | None,
    high: float | None,
    ranges: Path | None,
    bins: int,
    batch: int,
    policy_path: Path | None,
    output: Path,
    **selection: Any,
) -> None:
    """Count a client's features into histograms, to calibrate the encoder together.

    Every client uses the same --low and --high, or --ranges, and --bins. The summed histograms
    give the same thresholds however the data are split, and no client shows its features.
    """
    from safle.cli.describe import histogram_facts, warn_of_coarse
    from safle.encoders.histogram import Histogram
    from safle.site.counting import Counts
    from safle.tables import open_table
    from safle.wire import peek_kind

    opt.refuse_overwriting(output, features, ranges, policy_path)
    grid, names = _grid(low, high, ranges, bins)
    table = open_table(features, **selection)
    # In one order everywhere, whatever that of the file.
    table = table.arranged(names or sorted(table.names), where=str(features))
    with session.progress(f"histogram of {features.name}") as advance:
        counted = Histogram.of(_batches(features, table, batch, advance), grid, names=table.names)
    release(session, Counts(counted, counted), output, policy_path)
    session.facts(f"{output}: {peek_kind(output)}", histogram_facts(counted))
    warn_of_coarse(session, counted)


def _grid(
    low: float | None, high: float | None, ranges: Path | None, bins: int
) -> tuple[Grid, Sequence[str]]:
    """The grid, and the names of the features that have ranges of their own."""
    from safle.encoders.histogram import Grid
    from safle.tables import read_ranges

    if low is not None and high is not None and ranges is None:
        return Grid(low, high, bins), ()
    if ranges is None or (low, high) != (None, None):
        raise click.UsageError("say --low and --high, or --ranges FILE")
    declared = read_ranges(ranges)
    return Grid(declared.low, declared.high, bins), declared.names


def _batches(path: Path, table: Table, size: int, advance: Advance) -> Iterator[NDArray[Any]]:
    import numpy as np

    from safle.cli.reading import batches
    from safle.encoders.features import as_features

    # Nothing, first: a client without samples has a histogram too, of the right width.
    yield np.empty((0, table.feature_dim))
    for block, _, named in batches(path, table, size, advance):
        with named():
            yield as_features(block)
