"""Formats by name: those of this room, and those that other rooms and houses add.

They add theirs by entry points in the group ``safle.formats``: the name of a type of file, as
`container.FILE_TYPES` has it, and a `FileType`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from safle.errors import MissingExtra
from safle.wire.files import FileType
from safle.wire.histogram import HISTOGRAMS
from safle.wire.statistics import STATISTICS

FORMATS: dict[str, FileType[Any]] = {one.name: one for one in (STATISTICS, HISTOGRAMS)}
HOUSE = "safle-private"
"""The package that has all formats which the core does not have."""


def format_named(name: str) -> FileType[Any]:
    """Reader and writer of a type of file; `MissingExtra` if its package is not installed.

    >>> format_named("evaluation counts").name
    'evaluation counts'
    """
    if name in FORMATS:
        return FORMATS[name]
    for entry in entry_points(group="safle.formats", name=name):
        found: FileType[Any] = entry.load()
        return found
    raise MissingExtra(HOUSE, HOUSE, f"a file of type {name!r}")
