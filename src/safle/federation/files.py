"""A federation with nothing but files: contributions in, one sum and its manifest out.

One contribution is in memory at a time. Everything is read and checked before anything
is written, so after a failure every file is as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from safle._internal.atomic import write_together
from safle.encoders.base import Made
from safle.encoders.features import ClassName
from safle.encoders.histogram import Grid, Histogram
from safle.errors import InvalidInput, SafleError
from safle.federation.contribution import Contribution, Entry
from safle.federation.limits import Limits
from safle.federation.manifest import Manifest, Received, manifest_path, read_manifest
from safle.statistics import Accumulator, Statistics
from safle.wire import container, encode_histogram, encode_statistics
from safle.wire.histogram import from_container as histogram_from_container

StrPath = str | os.PathLike[str]
Progress = Callable[[float], None]
"""Called with the finished share, 0 to 1."""


class _Opened(NamedTuple):
    """A statistics file, verified, and the contributions it stands for: itself, if not listed."""

    statistics: Statistics
    itself: Entry
    manifest: Manifest
    listed: bool


def sum_files(
    paths: Iterable[StrPath],
    output: StrPath,
    *,
    made: Made | None = None,
    allow_duplicates: bool = False,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Add up statistics files, each verified, and write the sum and its manifest.

    Parameters
    ----------
    paths : at least one; a sum with its manifest beside it stands for all it lists
    made : the encoder they must have been counted with; None for the first file's
    allow_duplicates : add a contribution again that has been added before
    limits : of every contribution; the defaults of `Limits` if None
    progress : called with the finished share, 0 to 1
    """
    received = Received(allow_duplicates=allow_duplicates)
    limits, classes = limits or Limits(), set[ClassName]()
    removed: list[Entry] = []
    total: Accumulator | None = None
    for path in _each(paths, progress):
        with naming(path):
            opened = _open(path, total or made)
            for entry in opened.manifest.contributions:
                limits.check_join(entry, classes)
                classes |= {*entry.classes}
            total = total or Accumulator(opened.statistics)
        received.add(opened.itself, opened.manifest.contributions, path)
        removed += opened.manifest.removed
        with naming(path):
            total.add(opened.statistics)
    if total is None:
        raise InvalidInput("nothing to sum; expected at least one statistics file")
    return write_sum(output, total.snapshot(), received.contributions, removed)


def sum_histograms(
    paths: Iterable[StrPath],
    output: StrPath,
    *,
    allow_duplicates: bool = False,
    limits: Limits | None = None,
    features: int | None = None,
    grid: Grid | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Add up histogram files on one grid and write the sum and its manifest.

    Parameters
    ----------
    features, grid : that every histogram must have; None for those of the first
    """
    received = Received(allow_duplicates=allow_duplicates)
    limits, total = limits or Limits(), None
    for path in _each(paths, progress):
        with naming(path):
            opened = container.read_file(path, kind=container.HISTOGRAM)
            histogram = histogram_from_container(opened)
            samples, size = histogram.sample_count, path.stat().st_size
            itself = Entry(path.name, opened.digest, samples, size)
            manifest = read_manifest(path, itself)
            limits.check_histogram(histogram, features=features, grid=grid)
        received.add(itself, (itself,) if manifest is None else manifest.contributions, path)
        with naming(path):
            total = histogram if total is None else total + histogram
    if total is None:
        raise InvalidInput("nothing to sum; expected at least one histogram file")
    return _write_histogram(output, total, received.contributions)


def remove_file(
    total: StrPath, contribution: StrPath, output: StrPath, *, force: bool = False
) -> Manifest:
    """Unlearn: write the sum that never saw ``contribution``.

    Parameters
    ----------
    total : a sum; its manifest, if there is one, must list the contribution
    contribution : a client's statistics file, or a sum with a manifest
    output : may be ``total`` itself
    force : remove what the manifest does not list
    """
    with naming(total):
        whole = _open(Path(total))
    with naming(contribution):
        part = _open(Path(contribution), whole.statistics)
    left = _without(whole, part, force=force, total=total, contribution=contribution)
    with naming(contribution):
        statistics = whole.statistics - part.statistics
        statistics.verify()
    return write_sum(output, statistics, left.contributions, left.removed)


def _without(
    whole: _Opened, part: _Opened, *, force: bool, total: StrPath, contribution: StrPath
) -> Manifest:
    left = whole.manifest
    for entry in part.manifest.contributions:
        shorter = left.without(entry)
        if shorter is None:
            # Without a manifest nobody knows what the sum holds: the algebra alone decides.
            if whole.listed and not force:
                raise InvalidInput(
                    f"{manifest_path(total)} does not list {entry.digest[:12]}… "
                    f"({contribution}); it was not part of this sum, or only inside another "
                    "one: if you are sure, use --force (force= in Python)"
                )
            shorter = replace(left, removed=(*left.removed, entry))
        left = shorter
    # What the part had lost already, the sum had lost with it.
    back = part.manifest.removed
    if not {*back} <= {*left.removed}:
        raise InvalidInput(
            f"{manifest_path(contribution)} lists removals that {manifest_path(total)} does not: "
            "remove its contributions one by one"
        )
    return replace(left, removed=tuple(entry for entry in left.removed if entry not in back))


def _open(path: Path, made: Made | None = None) -> _Opened:
    statistics, itself = Contribution.read(path).open(made)
    manifest = read_manifest(path, itself)
    alone = Manifest("statistics", itself.digest, (itself,))
    return _Opened(statistics, itself, manifest or alone, manifest is not None)


def write_sum(
    output: StrPath, statistics: Statistics, parts: Iterable[Entry], removed: Iterable[Entry] = ()
) -> Manifest:
    """Write a sum and the manifest of its parts."""
    data = encode_statistics(statistics)
    manifest = Manifest("statistics", container.declared_digest(data), tuple(parts), tuple(removed))
    manifest.check_describes(manifest.digest, statistics.sample_count, statistics.class_names)
    _write(output, data, manifest)
    return manifest


def _write_histogram(output: StrPath, total: Histogram, parts: Iterable[Entry]) -> Manifest:
    data = encode_histogram(total)
    manifest = Manifest("histogram", container.declared_digest(data), tuple(parts))
    _write(output, data, manifest)
    return manifest


def _write(output: StrPath, data: bytes, manifest: Manifest) -> None:
    # The sum is renamed last: there is never one without a manifest that lists its parts.
    write_together({Path(output): data, manifest_path(output): manifest.to_json().encode()})


def _each(paths: Iterable[StrPath], progress: Progress | None) -> Iterator[Path]:
    files = [Path(path) for path in paths]
    for done, path in enumerate(files, start=1):
        yield path
        if progress is not None:
            progress(done / len(files))


@contextmanager
def naming(path: StrPath) -> Iterator[None]:
    """Errors about a file begin with its name."""
    try:
        yield
    except SafleError as error:
        if str(error).startswith(str(path)):
            raise
        raise type(error)(f"{path}: {error}") from error
