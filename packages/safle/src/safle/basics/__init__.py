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

Work on a Ray cluster:

>>> from safle.basics import connect, count_processes, run_each
>>> ray = connect("local")  # doctest: +SKIP
>>> at_a_time = 2 * count_processes(ray)  # doctest: +SKIP
>>> [*run_each(ray, len, ["ill", "well"], at_a_time=at_a_time)]  # doctest: +SKIP
[3, 4]
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
