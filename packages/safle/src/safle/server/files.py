"""A federation with nothing but files: contributions in, one sum and its manifest out.

One contribution is in memory at a time. Everything is read and checked before anything
is written, so after a failure every file is as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safle.basics.atomic import write_together
from safle.basics.places import StrPath, as_path, find_files, naming
from safle.encoders.features import ClassName
from safle.encoders.histogram import Grid
from safle.encoders.made import Made
from safle.errors import InvalidInput
from safle.server.contribution import Entry
from safle.server.limits import Limits
from safle.server.manifest import BESIDE, Listed, Manifest, Received, manifest_path
from safle.server.summing import (
    Processes,
    Progress,
    RayCluster,
    Rules,
    add_in_shards,
    add_sources,
    open_source,
)
from safle.statistics import Accumulator, Statistics
from safle.wire import container, encode_statistics
from safle.wire.evaluation import EVALUATIONS
from safle.wire.files import FileKind
from safle.wire.histogram import HISTOGRAMS
from safle.wire.statistics import read_declared


def sum_files(
    paths: Iterable[StrPath],
    output: StrPath,
    *,
    made: Made | None = None,
    allow_duplicates: bool = False,
    limits: Limits | None = None,
    progress: Progress = lambda _share: None,
    workers: int | None = None,
    ray: str | None = None,
) -> Manifest:
    """Add up statistics files, each verified, and write the sum and its manifest.

    Parameters
    ----------
    paths : at least one file, folder or address that fsspec understands; a sum with its
        manifest beside it stands for all it lists
    made : the encoder they must have been counted with; None for the first file's
    allow_duplicates : add a contribution again that has been added before
    limits : of every contribution; the defaults of `Limits` if None
    progress : called with the finished share, 0 to 1
    workers : processes that add up; None for this one, or as many as the cluster has cores
    ray : address of a Ray cluster that they run on; "local" starts one, "auto" finds it
    """
    sources = find_files(paths, except_for=BESIDE)
    if not sources:
        raise InvalidInput("nothing to sum; expected at least one statistics file")
    declared = (made.fingerprint, made.layout) if made else read_declared(sources[0])
    threads = 1 if ray else max(1, (os.cpu_count() or 1) // (workers or 1))
    rules = Rules(*declared, limits or Limits(), allow_duplicates, threads)
    with ExitStack() as stack:
        add: Callable[..., tuple[Accumulator, Received]] = add_sources
        if ray:
            cluster = stack.enter_context(closing(RayCluster(ray, workers)))
            add = partial(add_in_shards, engine=cluster)
        elif workers:
            beside = TemporaryDirectory(prefix=".partial-", dir=Path(output).parent)
            processes = Processes(workers, Path(stack.enter_context(beside)))
            add = partial(add_in_shards, engine=processes)
        total, received = add(rules, sources, progress)
    removed = [entry for file in received.files for entry in file.manifest.removed]
    return write_sum(output, total.snapshot(), received.contributions, removed)


def sum_histograms(
    paths: Iterable[StrPath],
    output: StrPath,
    *,
    allow_duplicates: bool = False,
    limits: Limits | None = None,
    features: int | None = None,
    grid: Grid | None = None,
    progress: Progress = lambda _share: None,
) -> Manifest:
    """Add up histogram files on one grid and write the sum and its manifest.

    Parameters
    ----------
    features, grid : that every histogram must have; None for those of the first
    """
    limits = limits or Limits()
    received = Received(limits, allow_duplicates=allow_duplicates)
    admit = partial(limits.check_grid, features=features, grid=grid)
    return _sum(HISTOGRAMS, admit, paths, output, received, progress)


def sum_evaluations(
    paths: Iterable[StrPath],
    output: StrPath,
    *,
    allow_duplicates: bool = False,
    limits: Limits | None = None,
    progress: Progress = lambda _share: None,
) -> Manifest:
    """Add up evaluation counts of one model and write the sum and its manifest."""
    allowed = limits or Limits()

    def admit(_model: str, classes: tuple[ClassName, ...]) -> None:
        allowed.check_classes(classes, set())

    received = Received(allowed, allow_duplicates=allow_duplicates)
    return _sum(EVALUATIONS, admit, paths, output, received, progress)


def _sum(
    kind: FileKind[Any],
    admit: Callable[..., None],
    paths: Iterable[StrPath],
    output: StrPath,
    received: Received,
    progress: Progress,
) -> Manifest:
    """Add up files of small values that know ``+``; ``admit`` is asked before each unfolds."""
    total = None
    sources = find_files(paths, except_for=BESIDE)
    for done, source in enumerate(sources, start=1):
        with naming(source):
            data = container.read_limited(source)
            found, digest = kind.open(data, admit=admit)
            itself = Entry(as_path(source).name, digest, found.sample_count, len(data))
            listed = Listed.of(source, kind.name, itself)
        received.add(listed)
        with naming(source):
            total = found if total is None else total + found
        progress(done / len(sources))
    if total is None:
        raise InvalidInput(f"nothing to sum; expected at least one file of {kind.name}")
    data = kind.encode(total)
    manifest = Manifest(kind.name, container.declared_digest(data), tuple(received.contributions))
    _write(output, data, manifest)
    return manifest


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
    whole, listed = open_source(str(total))
    part, brought = open_source(str(contribution), whole)
    left = _without(listed, brought, force=force)
    with naming(contribution):
        statistics = whole - part
        statistics.verify()
    return write_sum(output, statistics, left.contributions, left.removed)


def _without(whole: Listed, part: Listed, *, force: bool) -> Manifest:
    left, total, contribution = whole.manifest, whole.source, part.source
    for entry in part.manifest.contributions:
        shorter = left.without(entry)
        if shorter is None:
            # Without a manifest nobody knows what the sum holds: the algebra alone decides.
            if whole.has_manifest and not force:
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


def write_sum(
    output: StrPath, statistics: Statistics, parts: Iterable[Entry], removed: Iterable[Entry] = ()
) -> Manifest:
    """Write a sum and the manifest of its parts."""
    data = encode_statistics(statistics)
    manifest = Manifest("statistics", container.declared_digest(data), tuple(parts), tuple(removed))
    manifest.check_describes(manifest.digest, statistics.sample_count, statistics.class_names)
    _write(output, data, manifest)
    return manifest


def _write(output: StrPath, data: bytes, manifest: Manifest) -> None:
    # The sum is renamed last: there is never one without a manifest that lists its parts.
    write_together({Path(output): data, manifest_path(output): manifest.to_json().encode()})
