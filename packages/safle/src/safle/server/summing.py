"""Sums of files: contributions in, one file out, one contribution in memory at a time.

Everything is read and checked before anything is written, so after a failure every file is as it
was. Sums are associative: any order and any number of processes give the same bytes. On a Ray
cluster, processes add up files in shards, and this one adds their totals; Ray repeats a shard if
its process dies.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safle.basics.atomic import write_bytes
from safle.basics.paths import BESIDE, StrPath, as_path, find_files, naming
from safle.basics.progress import Progress, no_progress
from safle.encoders.codes import CodeSpace
from safle.errors import FederationError, InvalidInput, MissingExtra
from safle.server.admission import Admission, Limits
from safle.server.contribution import Contribution, open_contribution
from safle.server.store import Store
from safle.statistics.accumulator import Accumulator
from safle.statistics.statistics import Statistics, Sums
from safle.tables.checks import ClassName
from safle.wire import container
from safle.wire.formats import FileFormat, encode, format_named, read
from safle.wire.statistics import read_space

NOISY = "noisy statistics"
LARGEST_SHARD = 64
"""Most files in a shard: a smaller shard is repeated, or waited for, in less time."""
SHARDS_PER_WORKER = 4
"""Shards under way at a time: they bound the cluster's memory."""
ATTEMPTS = 3


@dataclass(frozen=True)
class Summed:
    """A sum that was written, and how many files and samples it has; a histogram has no classes.

    ``file_type`` is the name of their format, such as "statistics"; ``digest`` is of the content.
    """

    file_type: str
    digest: str
    files: int
    samples: int
    classes: tuple[ClassName, ...]
    bytes: int


@dataclass(frozen=True)
class Rules:
    """What the files of a sum must obey: one encoder, these limits, and no duplicates."""

    space: CodeSpace
    limits: Limits = field(default_factory=Limits)
    allow_duplicates: bool = False

    def admission(self) -> Admission:
        """An admission that nobody has joined yet."""
        return Admission(self.limits, most_total_samples=self.space.layout.most_samples)


def sum_files(
    paths: Iterable[StrPath],
    output: StrPath,
    *,
    space: CodeSpace | None = None,
    allow_duplicates: bool = False,
    limits: Limits | None = None,
    progress: Progress = no_progress,
    ray: str | None = None,
) -> Summed:
    """Add up files of one type, each verified, and write the sum.

    The first file decides what they are: statistics, histograms, or another value that adds up.

    Parameters
    ----------
    paths : at least one file, folder or address that fsspec understands
    output : file of the sum; not one of the files that are added up
    space : code space that all statistics must have; None for that of the first file
    allow_duplicates : also add a contribution that was added before
    limits : of every contribution; the defaults of `Limits` if None
    progress : called with the finished share, 0 to 1
    ray : address of a Ray cluster that adds up statistics; "local" starts one, "auto" finds it

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from safle import LinearEncoder, count, declared_range, write
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> with TemporaryDirectory() as folder:
    ...     write(f"{folder}/a.stats", count(encoder, [[0.2]], ["ill"]))
    ...     write(f"{folder}/b.stats", count(encoder, [[0.7]], ["well"]))
    ...     sum_files([f"{folder}/a.stats", f"{folder}/b.stats"], f"{folder}/total.stats").samples
    2
    """
    sources = _find_sources(paths, output)
    found = container.peek_file_type(sources[0]) or Statistics.format
    file_format = format_named(found)
    is_small = found != Statistics.format and file_format.value_type is not None
    if is_small and (space or ray):
        raise InvalidInput(
            f"{sources[0]} is a file of {found}; an encoder (--encoder) and a Ray cluster "
            "(--ray) are for statistics: leave them out"
        )
    limits = limits or Limits()
    if is_small:
        total = _add_small(file_format, sources, limits, allow_duplicates, progress)
        return _write(output, total, len(sources))
    rules = Rules(space or read_space(sources[0]), limits, allow_duplicates)
    if ray is None:
        statistics, _ = add_sources(rules, sources, progress)
    else:
        statistics = add_on_ray(rules, sources, progress, ray)
    return _write(output, statistics.snapshot(), len(sources))


def read_total(
    place: StrPath, space: CodeSpace | None = None, progress: Progress = no_progress
) -> Sums:
    """The sum in a file, exact or noisy, or of all contributions in a store, verified.

    Parameters
    ----------
    space : code space that it must have

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from safle import LinearEncoder, count, declared_range, write
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> with TemporaryDirectory() as folder:
    ...     write(f"{folder}/total.stats", count(encoder, [[0.2]], ["ill"]))
    ...     read_total(f"{folder}/total.stats", encoder.space).sample_count
    1
    """
    if Path(place).is_dir():
        store = Store.open(place)
        if space is not None:
            with naming(place):
                space.check_same(store.encoder.space)
        return store.total(progress).snapshot()
    is_noisy = container.peek_file_type(place) == NOISY
    return read(place, NOISY if is_noisy else "statistics", space=space)


def add_sources(
    rules: Rules, sources: Sequence[str], progress: Progress
) -> tuple[Accumulator, list[Contribution]]:
    """Add up statistics files in this process; return their sum, and the facts of each."""
    total, admission, added = Accumulator(rules.space), rules.admission(), list[Contribution]()
    for done, source in enumerate(sources, start=1):
        with naming(source):
            data = container.read_limited(source)
            name = as_path(source).name
            statistics, sent = open_contribution(name, data, rules.space, admission.check_classes)
            admission.check(sent, allow_duplicates=rules.allow_duplicates)
            total.add(statistics)
        admission.join(sent)
        added.append(sent)
        progress(done / len(sources))
    return total, added


def add_on_ray(
    rules: Rules, sources: Sequence[str], progress: Progress, address: str
) -> Accumulator:
    """Add up statistics files on the Ray cluster at an address."""
    ray = connect(address)
    try:
        workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        at_a_time = SHARDS_PER_WORKER * workers
        shards = _split(sources, min(LARGEST_SHARD, -(-len(sources) // at_a_time)))
        add_shard = ray.remote(max_retries=ATTEMPTS - 1)(_add_shard)
        total, admission, done = Accumulator(rules.space), rules.admission(), 0
        for wave in _split(shards, at_a_time):
            for reference in [add_shard.remote(rules, shard) for shard in wave]:
                added, partial = _fetch(ray, reference)
                for sent in added:
                    with naming(sent.client):
                        admission.check(sent, allow_duplicates=rules.allow_duplicates)
                    admission.join(sent)
                total.add(partial)
                done += len(added)
                progress(done / len(sources))
        return total
    finally:
        # This ends the tasks that still run on the cluster.
        ray.shutdown()


def connect(address: str, attempts: int = ATTEMPTS) -> Any:
    """Ray's module, connected to the cluster at an address; "local" starts one, "auto" finds it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        # Only here: it takes seconds to import.
        import ray
    except ImportError as error:
        raise MissingExtra("ray", "safle[ray]", "summing on a Ray cluster") from error
    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        # Ray gives a cluster 30 s to start, which is too short on a busy machine, and then
        # raises no error of a type of its own.
        if "timed out" not in str(error) or attempts == 1:
            raise FederationError(f"no Ray cluster at {address!r}: {error}") from error
        ray.shutdown()
        return connect(address, attempts - 1)
    return ray


def _add_shard(rules: Rules, sources: Sequence[str]) -> tuple[list[Contribution], Statistics]:
    """Add up a shard with one thread: the cluster has a process on every core."""
    from threadpoolctl import threadpool_limits

    from safle._native import use_threads

    with use_threads(1), threadpool_limits(1):
        total, added = add_sources(rules, sources, no_progress)
        return added, total.snapshot()


def _fetch(ray: Any, reference: Any) -> tuple[list[Contribution], Statistics]:
    try:
        added, partial = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise FederationError(f"the Ray cluster gave up: {error}") from error
    return added, partial


def _split(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def _add_small(
    file_format: FileFormat[Any],
    sources: Sequence[str],
    limits: Limits,
    allow_duplicates: bool,
    progress: Progress,
) -> Any:
    """Add up files of all that is not statistics: small values that ``+`` adds."""

    def admit(_model: str, classes: tuple[ClassName, ...]) -> None:
        limits.check_classes(classes, set())

    options: dict[str, Any] = {"admit": admit} if file_format.name == "evaluation counts" else {}
    total, admission = None, Admission(limits)
    for done, source in enumerate(sources, start=1):
        with naming(source):
            data = container.read_limited(source)
            value, digest = file_format.open(data, **options)
            sent = Contribution(as_path(source).name, digest, value.sample_count, len(data))
            admission.check(sent, allow_duplicates=allow_duplicates)
            total = value if total is None else total + value
        admission.join(sent)
        progress(done / len(sources))
    return total


def _find_sources(paths: Iterable[StrPath], output: StrPath) -> list[str]:
    """The files to add up; `InvalidInput` if there is none, or the output is one of them."""
    sources = find_files(paths, except_for=BESIDE)
    if not sources:
        raise InvalidInput("nothing to sum; expected at least one file")
    local = [place for source in sources if "://" not in (place := source.removeprefix("file://"))]
    if Path(output).exists() and any(Path(output).samefile(place) for place in local):
        raise InvalidInput(
            f"{output} is one of the files that are added up: it would be counted and then "
            "replaced; write the sum to another file, outside their folder"
        )
    return sources


def _write(output: StrPath, total: Any, files: int) -> Summed:
    data = encode(total)
    write_bytes(output, data)
    classes = getattr(total, "class_names", ())
    digest = container.declared_digest(data)
    return Summed(total.format, digest, files, total.sample_count, classes, len(data))
