"""The only place where an encoder meets a file: a table with the columns that it expects."""

import os
from typing import Any

from safle.encoders.base import Encoder
from safle.errors import TableError
from safle.tables.checks import check_source
from safle.tables.reading import open_table
from safle.tables.table import Table


def open_matching(
    encoder: Encoder,
    path: str | os.PathLike[str],
    *,
    labelled: bool = True,
    trusted: bool = True,
    **selection: Any,
) -> Table:
    """A table with the encoder's columns, in the encoder's order; see `open_table`.

    ``labelled`` refuses a table without labels; ``trusted`` lets features pass that do not say
    which backbone made them.

    Examples
    --------
    >>> import polars
    >>> from safle import declared_range, make_encoder
    >>> encoder = make_encoder(declared_range([0, 0], [9, 9], names=["age", "dose"]), "linear")
    >>> frame = polars.DataFrame({"dose": [2.0], "age": [7.0]})
    >>> open_matching(encoder, frame, labelled=False).features.tolist()
    [[7.0, 2.0]]
    """
    contract = encoder.contract
    table = open_table(path, schema=contract.schema, names=contract.names, **selection)
    if labelled and table.labels is None:
        raise TableError(
            f"{path}: has no labels; expected one per sample: name their column with --label-column"
        )
    check_source(contract.source, table.source, where=str(path), trusted=trusted)
    return table.arrange(contract.names, where=str(path))
