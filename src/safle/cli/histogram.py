"""``safle histogram``: one client's part of a federated calibration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safle.cli import options as opt
from safle.cli.releasing import masking_options, policy_option, release
from safle.cli.session import Advance, Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from safle.data.tables import Table


@opt.command(
    "Before the round",
    "safle histogram hospital_a.csv --low 0 --high 16 -o a.hist",
    "safle sum a.hist b.hist c.hist -o total.hist",
    "safle encoder make --histogram total.hist -o encoder.safetensors",
)
@opt.features_argument
@opt.option("--low", "Lower end of the grid.", type=float, required=True)
@opt.option("--high", "Upper end of the grid.", type=float, required=True)
@opt.option("--bins", "Equal bins between the two.", type=int, default=256)
@opt.table_options(labels=False)
@opt.batch_option
@policy_option
@masking_options
@opt.output("The histogram file to write.", "histogram", "masked contribution")
def histogram(
    session: Session,
    /,
    features: Path,
    low: float,
    high: float,
    bins: int,
    batch: int,
    policy_path: Path | None,
    output: Path,
    **selection: Any,
) -> None:
    """Count a client's features into histograms, to calibrate the encoder together.

    Every client uses the same --low, --high and --bins. The summed histograms give the
    same thresholds however the data are split, and no client shows its features.
    """
    from safle.cli.describe import histogram_facts
    from safle.data.tables import open_table
    from safle.encoders.histogram import Grid, Histogram
    from safle.wire import peek_kind

    opt.refuse_overwriting(output, features, policy_path)
    grid = Grid(low, high, bins)
    table = open_table(features, **selection)
    # In one order everywhere, whatever that of the file.
    table = table.arranged(sorted(table.names), where=str(features))
    session.announce_compilation()
    with session.progress(f"histogram of {features.name}") as advance:
        counted = Histogram.of(_batches(features, table, batch, advance), grid, names=table.names)
    release(session, counted, output, policy_path)
    session.facts(f"{output}: {peek_kind(output)}", histogram_facts(counted))


def _batches(path: Path, table: Table, size: int, advance: Advance) -> Iterator[NDArray[Any]]:
    import numpy as np

    from safle.cli.reading import batches
    from safle.encoders.features import as_features

    # Nothing, first: a client without samples has a histogram too, of the right width.
    yield np.empty((0, table.feature_dim))
    for block, _, named in batches(path, table, size, advance):
        with named():
            yield as_features(block)
