"""Tables as commands read them: batch by batch, with errors that say where."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import rich_click as click
from numpy.typing import NDArray

from safle.cli.session import Advance
from safle.encoders import Encoder
from safle.encoders.features import ClassName
from safle.encoders.histogram import Grid
from safle.encoders.outside import Outside
from safle.encoders.source import check_source
from safle.errors import InvalidInput, TableError
from safle.evaluation.counts import Evaluation
from safle.model import Model
from safle.site.counting import Block, Counts, evaluate_blocks
from safle.tables import Table, open_table, read_ranges
from safle.tables.labels import parse_labels

Named = Callable[[], AbstractContextManager[None]]
"""Opens a block in which errors name the file and the batch."""


def open_matching(
    encoder: Encoder,
    path: Path,
    *,
    trusted: bool,
    labelled: bool = True,
    **selection: Any,
) -> Table:
    """A table with the encoder's columns in its order; warns where names cannot tell."""
    table = open_table(path, schema=encoder.schema, **selection)
    if labelled and table.labels is None:
        raise TableError(
            f"{path}: has no labels; expected one per sample: name them with --labels FILE, "
            "--labels-key or --label-column"
        )
    check_source(encoder.source, table.source, where=str(path), trusted=trusted)
    return table.arranged(encoder.feature_names, where=str(path))


def advancing(table: Table, size: int, advance: Advance) -> Iterator[Block]:
    """All batches of features and labels; ``advance`` is called after each."""
    done = 0
    for features, labels in table.batches(size):
        yield features, labels
        done += len(features)
        advance(done / len(table))


def batches(
    path: Path, table: Table, size: int, advance: Advance, encoder: Encoder | None = None
) -> Iterator[tuple[NDArray[Any], Any, Named]]:
    """All batches of features and labels (or None), each with a block that names it.

    With an ``encoder``, a warning in the end says how many values lie outside what it expects.
    """
    done, outside = 0, None if encoder is None else Outside(encoder)
    for features, labels in table.batches(size):
        yield features, labels, partial(_naming, path, done, len(table) > size)
        if outside is not None:
            outside.add(features)
        done += len(features)
        advance(done / len(table))
    if outside is not None:
        outside.warn()


@contextmanager
def _naming(path: Path, first: int, several: bool) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        where = f", in the batch that begins with sample {first}" if several else ""
        raise InvalidInput(f"{path}{where}: {error}") from error


def declared_classes(text: str | None, table: Table | None = None) -> Sequence[ClassName] | None:
    """``a,b,c`` as class names of the same type as the table's labels, if there is one."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise InvalidInput(f"--classes {text!r}; expected names separated by commas")
    if (
        table is not None
        and table.labels is not None
        and table.labels.dtype.kind == "U"
        and len(table)
    ):
        return names
    parsed: Sequence[ClassName] = parse_labels(names, where="--classes").tolist()
    return parsed


def declared_grid(
    grid: tuple[float, float, int] | None, ranges: tuple[Path, int] | None
) -> Grid | None:
    """The grid of --grid LOW HIGH BINS, or of --ranges FILE BINS; None if neither was said."""
    if grid is not None and ranges is not None:
        raise click.UsageError("--grid and --ranges exclude each other; leave one out")
    if ranges is not None:
        declared = read_ranges(ranges[0])
        return Grid(declared.low, declared.high, ranges[1])
    return None if grid is None else Grid(*grid)


def score(
    model: Model, path: Path, batch: int, advance: Advance, **selection: Any
) -> Counts[Evaluation]:
    """Counts of a model's answers on a labelled table."""
    # What does not say is let pass here: nothing is added to anyone's sum.
    table = open_matching(model.encoder, path, trusted=True, **selection)
    counts = evaluate_blocks(model, advancing(table, batch, advance), table.weights, where=path)
    if not counts.total.sample_count:
        raise InvalidInput(f"{path}: has no samples; nothing can be evaluated")
    return counts
