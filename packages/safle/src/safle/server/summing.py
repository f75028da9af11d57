"""Sums of files: contributions in, one file out, one contribution in memory at a time.

Everything is read and checked before anything is written, so after a failure every file is as it
was. Sums are associative: any order and any number of processes give the same bytes. On a Ray
cluster, processes add up files in shards, and this one adds their totals; Ray repeats a shard if
its process dies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from safle.basics.cluster import connect, count_processes, run_each
from safle.basics.paths import BESIDE, StrPath, as_path, find_files, naming
from safle.basics.progress import Progress, no_progress
from safle.encoders.codes import CodeSpace
from safle.errors import InvalidInput, SafleError
from safle.server.folder import is_store
from safle.server.limits import Admission, Contribution, Limits
from safle.server.store import Store
from safle.statistics.statistics import Statistics, Sums
from safle.statistics.summable import Summable
from safle.wire import container
from safle.wire.formats import encode, format_named, read, write

NOISY = "noisy statistics"
MAX_SHARD = 64
"""Most files in a shard: a smaller shard is repeated, or waited for, in less time."""
SHARDS_PER_WORKER = 4
"""Shards under way at a time: they bound the cluster's memory."""
Added = tuple[Any, list[Contribution]]
"""A sum, and the facts of the files in it."""


def sum_files(
    paths: Iterable[StrPath],
    output: StrPath,
    *,
    space: CodeSpace | None = None,
    allow_duplicates: bool = False,
    limits: Limits | None = None,
    progress: Progress = no_progress,
    ray: str | None = None,
) -> tuple[Summable, int]:
    """Add up files of one type, each verified, and write the sum.

    The first file decides what they are: statistics, histograms, or another value that adds up. A
    store counts as the file of its sum.

    Parameters
    ----------
    paths : at least one file, folder, store or address that fsspec understands
    output : file of the sum; not one of the files that are added up
    space : code space that all statistics must have; None for that of the first file
    allow_duplicates : also add a contribution that was added before
    limits : of every contribution; the defaults of `Limits` if None
    progress : called with the finished share, 0 to 1
    ray : address of a Ray cluster that adds up the files; "local" starts one, "auto" finds it

    Returns
    -------
    The sum, and how many files are in it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from safle import LinearEncoder, count, declared_range, write
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> with TemporaryDirectory() as folder:
    ...     write(f"{folder}/a.stats", count(encoder, [[0.2]], ["ill"]))
    ...     write(f"{folder}/b.stats", count(encoder, [[0.7]], ["well"]))
    ...     total, files = sum_files([folder], f"{folder}/total.stats")
    >>> total.sample_count, files
    (2, 2)
    """
    sources = _find_sources(paths, output)
    like = None if space is None else Statistics.empty(space)
    limits = limits or Limits()
    add = partial(add_sources, limits=limits, allow_duplicates=allow_duplicates)
    if ray is None:
        total, _ = add(sources, like, progress=progress)
    else:
        total = add_on_ray(add, sources, like, progress, ray)
    write(output, total)
    return total, len(sources)


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
    sources: Sequence[str],
    like: Summable | None = None,
    *,
    limits: Limits,
    allow_duplicates: bool = False,
    progress: Progress = no_progress,
) -> Added:
    """Add up files in this process.

    Parameters
    ----------
    like : a value of no samples that all files must go with; None for that of the first file
    """
    admission = Admission(limits)
    added: list[Contribution] = []
    place = sources[0]
    file_format = format_named(like.format if like is not None else _type_of(place))

    def open_each() -> Iterator[Any]:
        nonlocal like, place
        for place in sources:
            data = _read(place)
            value, digest = file_format.open(data, like=like, admit=admission.check_classes)
            if like is None:
                like = zero_of(value)
            classes = tuple(value.samples_by_class())
            name = as_path(place).name
            sent = Contribution(name, digest, value.sample_count, len(data), classes)
            admission.most_total_samples = value.most_samples
            admission.check(sent, allow_duplicates=allow_duplicates)
            yield value
            admission.join(sent)
            added.append(sent)
            progress(len(added) / len(sources))

    opened = open_each()
    try:
        if file_format.value_type is None:
            raise InvalidInput(
                f"files of type {file_format.name!r} do not add up; expected statistics"
            )
        first = next(opened)
        values = chain([first], opened)
        zero = zero_of(first)
        # No name keeps the first value alive while the others are added.
        del first
        return zero.add_all(values), added
    except SafleError:
        with naming(place):
            raise


def zero_of(value: Any) -> Any:
    """The value of no samples that can be added to ``value``."""
    return value.declared(value.declaration())


def add_on_ray(
    add: partial[Added],
    sources: Sequence[str],
    like: Summable | None,
    progress: Progress,
    address: str,
) -> Any:
    """Add up files on the Ray cluster at an address; ``add`` is `add_sources` with its rules."""
    ray = connect(address)
    admission = Admission(add.keywords["limits"])
    added: list[Contribution] = []

    def add_each() -> Iterator[Any]:
        yield admitted(first)
        at_a_time = SHARDS_PER_WORKER * max(1, count_processes(ray))
        shards = _split(sources[1:], min(MAX_SHARD, -(-len(sources) // at_a_time)))
        for shard in run_each(ray, partial(add, like=zero), shards, at_a_time=at_a_time):
            yield admitted(shard)

    def admitted(shard: Added) -> Any:
        value, contributions = shard
        admission.most_total_samples = value.most_samples
        for sent in contributions:
            with naming(sent.client):
                admission.check(sent, allow_duplicates=add.keywords["allow_duplicates"])
            admission.join(sent)
            added.append(sent)
        progress(len(added) / len(sources))
        return value

    try:
        # The first file decides here with which ones it is added on the cluster.
        first = add(sources[:1], like)
        zero = zero_of(first[0])
        return zero.add_all(add_each())
    finally:
        # This ends the tasks that still run on the cluster.
        ray.shutdown()


def _split(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def _type_of(source: str) -> str:
    """The type of a file; another kind of file is refused when it is read."""
    found = None if is_store(Path(source)) else container.peek_file_type(source)
    return found or Statistics.format


def _read(source: str) -> bytes:
    """The bytes of a file, or of a store's sum."""
    if is_store(Path(source)):
        return encode(Store.open(source).total().snapshot())
    return container.read_limited(source)


def _find_sources(paths: Iterable[StrPath], output: StrPath) -> list[str]:
    """The files to add up; `InvalidInput` if there is none, or the output is one of them."""
    sources: list[str] = []
    for path in paths:
        is_one = is_store(Path(path))
        sources += [str(path)] if is_one else find_files([path], except_for=BESIDE)
    if not sources:
        raise InvalidInput("nothing to sum; expected at least one file")
    local = [place for source in sources if "://" not in (place := source.removeprefix("file://"))]
    if Path(output).exists() and any(Path(output).samefile(place) for place in local):
        raise InvalidInput(
            f"{output} is one of the files that are added up: it would be counted and then "
            "replaced; write the sum to another file, outside their folder"
        )
    return sources
