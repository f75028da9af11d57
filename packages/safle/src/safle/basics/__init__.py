"""Helpers for every room and package: atomic files, settings, texts, optional packages.

Examples
--------
>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> from safle.basics import find_files, naming, now, read_capped, require_free_memory, require_type
>>> require_type("size", 8, int, advice="count first")
>>> require_free_memory(8, purpose="one number", advice="count less")
>>> with TemporaryDirectory() as folder:
...     written = Path(folder, "note.txt").write_text(now())
...     for path in find_files([folder], except_for=()):
...         with naming(path):
...             print(len(read_capped(path, 100, "a note")) == written)
True

Journals are rows of JSON with checksums, written under a lock:

>>> from safle.basics import Row, append_row, locked, read_rows
>>> with TemporaryDirectory() as folder:
...     journal = Path(folder, "log.jsonl")
...     row: Row = dict(event="received")
...     with locked(journal):
...         append_row(journal, row)
...     read_rows(journal) == [row]
True

A package that imports its public names under ``if TYPE_CHECKING:`` ends with this:

>>> from safle.basics import define_public_names
>>> define_public_names("safle.basics")
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names as define_public_names

if TYPE_CHECKING:
    from safle.basics import atomic as atomic
    from safle.basics.imports import define_public_names as define_public_names
    from safle.basics.imports import require_package as require_package
    from safle.basics.journal import Row as Row
    from safle.basics.journal import append_row as append_row
    from safle.basics.journal import locked as locked
    from safle.basics.journal import now as now
    from safle.basics.journal import read_rows as read_rows
    from safle.basics.memory import most_memory as most_memory
    from safle.basics.memory import readable as readable
    from safle.basics.memory import require_free_memory as require_free_memory
    from safle.basics.paths import BESIDE as BESIDE
    from safle.basics.paths import StrPath as StrPath
    from safle.basics.paths import find_files as find_files
    from safle.basics.paths import naming as naming
    from safle.basics.paths import parse_toml as parse_toml
    from safle.basics.paths import read_capped as read_capped
    from safle.basics.paths import read_toml as read_toml
    from safle.basics.settings import Setting as Setting
    from safle.basics.settings import as_settings as as_settings
    from safle.basics.settings import describe as describe
    from safle.basics.settings import to_mapping as to_mapping
    from safle.basics.texts import list_names as list_names
    from safle.basics.texts import name_some as name_some
    from safle.basics.texts import neutralise as neutralise
    from safle.basics.texts import printable as printable
    from safle.basics.texts import reason_of as reason_of
    from safle.basics.texts import require_type as require_type
    from safle.basics.texts import split_names as split_names

define_public_names(__name__)
