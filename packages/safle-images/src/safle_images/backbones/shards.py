"""Features of many shards of images, each a file of its own: here, or where Ray puts a shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from safle import Table, open_table
from safle.basics import connect, count_processes, naming, run_each
from safle.errors import ImageError
from safle_images.backbones.loading import load_backbone
from safle_images.backbones.writing import count_unreadable, write_features
from safle_images.readers import ImageSource, open_images

READING = ("split", "label_column", "image_column", "layout")
SHARDS_PER_PROCESS = 2


def write_shards(
    shards: Sequence[Path],
    into: Path,
    options: Mapping[str, Any],
    *,
    ray: str | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[int, int]:
    """Write ``into/NAME.safetensors`` for each shard.

    Returns how many samples they have, and how many images cannot be read.

    Parameters
    ----------
    options : as ``safle features`` has them
    ray : address of a cluster whose machines can read the shards and write into the folder
    """
    targets = [into.absolute() / f"{_name_of(shard)}.safetensors" for shard in shards]
    for target, shard in zip(targets, shards, strict=True):
        if targets.count(target) > 1:
            raise ImageError(f"{shard}: another shard has its name; expected different names")
    # A data set of a hub has a name, and no place.
    places = [shard.absolute() if shard.exists() else shard for shard in shards]
    items = zip(places, targets, strict=True)
    work = partial(_write, dict(options))
    if ray is None:
        return _add_up(map(work, items), advance)
    cluster = connect(ray)
    try:
        cards = 1 if count_processes(cluster, "GPU") else 0
        at_a_time = SHARDS_PER_PROCESS * max(1, count_processes(cluster))
        return _add_up(run_each(cluster, work, items, at_a_time=at_a_time, cards=cards), advance)
    finally:
        cluster.shutdown()


def _name_of(shard: Path) -> str:
    return shard.name if shard.is_dir() else shard.name.partition(".")[0]


def _add_up(done: Any, advance: Callable[[int], None]) -> tuple[int, int]:
    total = 0
    total_unreadable = 0
    for number, (samples, unreadable) in enumerate(done, start=1):
        total += samples
        total_unreadable += unreadable
        advance(number)
    return total, total_unreadable


def _write(options: Mapping[str, Any], item: tuple[Path, Path]) -> tuple[int, int]:
    """Write the features of one shard, unless that is done; see `write_shards`."""
    shard, target = item
    with naming(shard):
        images = open_images(shard, **{name: options[name] for name in READING})
        backbone = load_backbone(
            str(options["backbone"]), device=options["device"], half=options["half"]
        )
        if not target.exists():
            settings = {name: options[name] for name in ("workers", "max_unreadable")}
            write_features(images, backbone, target, **settings)
        table = open_table(target)
        unreadable = count_unreadable(target)
        if table.source != backbone.source or not _is_of(table, images, unreadable):
            raise ImageError(
                f"{target} has the features of other images, of other labels or of another "
                "backbone; expected those of an earlier run: write into another folder"
            )
        return len(table), unreadable


def _is_of(table: Table, images: ImageSource, unreadable: int) -> bool:
    """Whether a table has all images with their labels, except for those that are unreadable."""
    names = [] if table.ids is None else table.ids.tolist()
    labels = [None] * len(names) if table.labels is None else table.labels.tolist()
    listed = {*zip(images.names, images.labels, strict=True)}
    return len(names) + unreadable == len(images) and {*zip(names, labels, strict=True)} <= listed
