"""What other houses read as a table: images, by features that are made on the way.

They add readers by entry points in the group ``safle.readers``: a function
``(session, path, source, options, labelled=...)``, which returns the features file that it made of
what is at ``path``, or None if that is a table, and refuses options that its data do not have.
``source`` names the encoder's backbone.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from safle.cli import options as opt
from safle.cli.session import Session
from safle.encoders.base import Encoder
from safle.encoders.matching import open_matching
from safle.tables.table import Table

TABLES = (".csv", ".npz", ".parquet")
"""Suffixes of tables that may hold images as well, if there is a backbone for them."""
ONLY_TABLES = (".safetensors",)


def open_samples(
    session: Session,
    encoder: Encoder,
    path: Path,
    options: dict[str, Any],
    *,
    labelled: bool = True,
    trusted: bool = True,
) -> Table:
    """The table at a path, or the features of its images, with the columns of the encoder."""
    source = encoder.contract.source
    place, how = find_table(session, path, options, source=source, labelled=labelled)
    return open_matching(encoder, place, labelled=labelled, trusted=trusted, **how)


def find_table(
    session: Session,
    path: Path,
    options: dict[str, Any],
    *,
    source: str = "",
    labelled: bool = True,
) -> tuple[Path, dict[str, Any]]:
    """The table at a path, or the features of its images, and how it is read."""
    how = opt.pick_table_options(options)
    suffix = path.suffix.lower()
    has_backbone = bool(source) or options.get("backbone") is not None
    if suffix in ONLY_TABLES or (suffix in TABLES and not has_backbone):
        return path, how
    for entry in entry_points(group="safle.readers"):
        made = entry.load()(session, path, source, options, labelled=labelled)
        if made is not None:
            return made, {}
    return path, how
