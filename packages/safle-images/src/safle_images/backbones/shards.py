"""Features of many shards of images, each a file of its own: here, or where Ray puts a shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from safle import open_table
from safle.basics import connect, count_processes, naming, run_each
from safle.errors import ImageError
from safle_images.backbones.loading import load_backbone
from safle_images.backbones.writing import write_features
from safle_images.readers import open_images

READING = ("split", "label_column", "image_column", "layout")
SHARDS_PER_PROCESS = 2


def write_shards(
    shards: Sequence[Path],
    into: Path,
    options: Mapping[str, Any],
    *,
    ray: str | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> int:
    """Write ``into/NAME.safetensors`` for each shard; return how many samples they have.

    Parameters
    ----------
    options : as ``safle features`` has them
    ray : address of a cluster whose machines can read the shards and write into the folder
    """
    targets = [into.absolute() / f"{_name_of(shard)}.safetensors" for shard in shards]
    for target, shard in zip(targets, shards, strict=True):
        if targets.count(target) > 1:
            raise ImageError(f"{shard}: another shard has its name; expected different names")
    items = [(shard.absolute(), target) for shard, target in zip(shards, targets, strict=True)]
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


def _add_up(done: Any, advance: Callable[[int], None]) -> int:
    total = 0
    for number, samples in enumerate(done, start=1):
        total += samples
        advance(number)
    return total


def _write(options: Mapping[str, Any], item: tuple[Path, Path]) -> int:
    """Write the features of one shard, unless that is done; return how many it has."""
    shard, target = item
    with naming(shard):
        images = open_images(shard, **{name: options[name] for name in READING})
        backbone = load_backbone(
            str(options["backbone"]), device=options["device"], half=options["half"]
        )
        if target.exists():
            table = open_table(target)
            done = [] if table.ids is None else table.ids.tolist()
            if table.source != backbone.source or not {*done} <= {*images.names}:
                raise ImageError(
                    f"{target} has the features of other images or of another backbone; expected "
                    "those of an earlier run: write into another folder"
                )
            return len(table)
        return write_features(
            images, backbone, target, max_unreadable=options["max_unreadable"]
        ).samples
