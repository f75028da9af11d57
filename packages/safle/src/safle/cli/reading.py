"""Tables as commands read them, and what options declare of classes and grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rich_click as click
from numpy.typing import NDArray

from safle.cli.session import Advance
from safle.encoders import Encoder
from safle.encoders.features import ClassName, check_source
from safle.encoders.histogram import Grid
from safle.errors import InvalidInput, TableError
from safle.tables import Table, open_table, read_ranges
from safle.tables.labels import parse_labels

Block = tuple[NDArray[Any], NDArray[Any] | None]


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


def declared_classes(text: str | None, like: Any = None) -> Sequence[ClassName] | None:
    """``a,b,c`` as class names; all of them text where those in ``like`` are."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise InvalidInput(f"--classes {text!r}; expected names separated by commas")
    if like is not None and len(like) and np.asarray(like).dtype.kind == "U":
        return names
    parsed: Sequence[ClassName] = parse_labels(names, where="--classes").tolist()
    return parsed


def declared_grid(options: dict[str, Any]) -> tuple[Grid | None, Sequence[str]]:
    """The grid that --low and --high or --ranges declare, if any, and the names of its features."""
    low, high, ranges = options["low"], options["high"], options["ranges"]
    if low is None and high is None and ranges is not None:
        declared = read_ranges(ranges)
        return Grid(declared.low, declared.high, options["bins"]), declared.names
    if low is None and high is None:
        return None, ()
    if low is None or high is None or ranges is not None:
        raise click.UsageError("say --low and --high, or --ranges FILE")
    return Grid(low, high, options["bins"]), ()
