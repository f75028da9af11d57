"""A federation with nothing but files: contributions in, one sum and its manifest out.

One contribution is in memory at a time. Everything is read and checked before anything
is written, so after a failure every file is as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from safle._internal.atomic import write_together
from safle.encoders.histogram import Histogram
from safle.errors import EncoderMismatch, InvalidInput, SafleError
from safle.federation.manifest import (
    Contribution,
    Manifest,
    Received,
    manifest_path,
    read_manifest,
)
from safle.statistics import Accumulator, Statistics
from safle.wire import container, encode_histogram, encode_statistics
from safle.wire.histogram import from_container as histogram_from_container
from safle.wire.statistics import from_container as statistics_from_container

StrPath = str | os.PathLike[str]
Progress = Callable[[float], None]
"""Called with the finished share, 0 to 1."""


class _Opened(NamedTuple):
    """A statistics file, verified, and the contributions it stands for."""

    statistics: Statistics
    itself: Contribution
    manifest: Manifest | None

    @property
    def parts(self) -> Sequence[Contribution]:
        return (self.itself,) if self.manifest is None else self.manifest.contributions

    @property
    def removed(self) -> Sequence[Contribution]:
        return () if self.manifest is None else self.manifest.removed


def sum_files(
    paths: Iterable[StrPath],
    output: StrPath,
    *,
    fingerprint: str | None = None,
    allow_duplicates: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Add up statistics files, each verified, and write the sum and its manifest.

    Parameters
    ----------
    paths : at least one; a sum with its manifest beside it stands for all it lists
    fingerprint : of the encoder they must have been counted with; by default the first's
    allow_duplicates : add a contribution again that has been added before
    progress : called with the finished share, 0 to 1
    """
    received = Received(allow_duplicates=allow_duplicates)
    removed: list[Contribution] = []
    total: Accumulator | None = None
    for path in _each(paths, progress):
        with naming(path):
            opened = _open(path, fingerprint=fingerprint)
            fingerprint = opened.statistics.fingerprint
            total = total or Accumulator(opened.statistics)
        received.add(opened.parts, path)
        removed += opened.removed
        with naming(path):
            total.add(opened.statistics)
    if total is None:
        raise InvalidInput("nothing to sum; expected at least one statistics file")
    made = Manifest("statistics", "", 0, tuple(received.contributions), tuple(removed))
    return write_sum(output, total.snapshot(), made)


def sum_histograms(
    paths: Iterable[StrPath],
    output: StrPath,
    *,
    allow_duplicates: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Add up histogram files on one grid and write the sum and its manifest."""
    received = Received(allow_duplicates=allow_duplicates)
    total: Histogram | None = None
    for path in _each(paths, progress):
        with naming(path):
            opened = container.read_file(path, kind=container.HISTOGRAM)
            histogram = histogram_from_container(opened)
        size = path.stat().st_size
        itself = Contribution(opened.digest, path.name, histogram.sample_count, size)
        manifest = read_manifest(path, digest=opened.digest)
        received.add((itself,) if manifest is None else manifest.contributions, path)
        with naming(path):
            total = histogram if total is None else total + histogram
    if total is None:
        raise InvalidInput("nothing to sum; expected at least one histogram file")
    data = encode_histogram(total)
    digest = container.declared_digest(data)
    result = Manifest("histogram", digest, total.sample_count, tuple(received.contributions))
    _write(output, data, result)
    return result


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
        part = _open(Path(contribution), fingerprint=whole.statistics.fingerprint)
        statistics = whole.statistics - part.statistics
        statistics.verify()
    left = _without(whole, part, force=force, total=total, contribution=contribution)
    return write_sum(output, statistics, left)


def _without(
    whole: _Opened, part: _Opened, *, force: bool, total: StrPath, contribution: StrPath
) -> Manifest:
    left = whole.manifest or Manifest("statistics", "", 0, (whole.itself,))
    for entry in part.parts:
        shorter = left.without(entry)
        if shorter is None:
            # Without a manifest nobody knows what the sum holds: the algebra alone decides.
            if whole.manifest is not None and not force:
                raise InvalidInput(
                    f"{manifest_path(total)} does not list {entry.digest[:12]}… "
                    f"({contribution}); it was not part of this sum, or only inside another "
                    "one: if you are sure, use --force (force= in Python)"
                )
            shorter = replace(left, removed=(*left.removed, entry))
        left = shorter
    return left


def _open(path: Path, *, fingerprint: str | None = None) -> _Opened:
    opened = container.read_file(path, kind=container.STATISTICS)
    found = opened.header.get("fingerprint")
    if fingerprint is not None and found != fingerprint:
        raise EncoderMismatch(
            f"counted with encoder {str(found)[:12]}…, this federation uses "
            f"{fingerprint[:12]}…; give the client that encoder file and count again"
        )
    statistics = statistics_from_container(
        opened, fingerprint=fingerprint, limit=container.DEFAULT_LIMIT
    )
    size = path.stat().st_size
    itself = Contribution(
        opened.digest, path.name, statistics.sample_count, size, statistics.class_names
    )
    return _Opened(statistics, itself, read_manifest(path, digest=opened.digest))


def write_sum(output: StrPath, statistics: Statistics, manifest: Manifest) -> Manifest:
    """Write a sum and its manifest, completed by what the sum turned out to be."""
    data = encode_statistics(statistics)
    complete = replace(
        manifest, digest=container.declared_digest(data), samples=statistics.sample_count
    )
    _write(output, data, complete)
    return complete


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
