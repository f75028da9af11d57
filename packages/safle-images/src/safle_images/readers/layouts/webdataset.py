"""WebDataset: a ``.tar``, or a folder of them, whose files of one name are one sample.

``0001.jpg`` has its class in ``0001.cls``, in a key of ``0001.json``, or in ``0001.txt``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from safle.basics import name_some
from safle.errors import ImageError
from safle_images.readers.files import Files, Member, is_image
from safle_images.readers.layouts.folders import SPLITS
from safle_images.readers.layouts.lists import typed
from safle_images.readers.sources import LABEL_COLUMN, ImageSource, Label, Selection

EXPECTED = ".tar files with images and .cls, .json or .txt of the same names"
_TEXTS = ("cls", "json", "txt")
_TAR = re.compile(r"\.(tar|tar\.gz|tgz)$")


class _Sample(NamedTuple):
    """One image and the files of its name, by suffix."""

    image: Member
    others: dict[str, Member]


def recognises(files: Files) -> bool:
    """Whether a tar has labels beside its images, or a folder has nothing but tars."""
    if files.kind == "tar":
        return any(set(sample.others) & {*_TEXTS} for sample in _samples(files, None))
    tars = [member for member in files.members if _TAR.search(member.name)]
    return files.kind == "folder" and bool(tars) and not files.images


def open_source(files: Files, selection: Selection) -> ImageSource:
    """The images in the order of their shards."""
    shards = {files.path.name: files}
    if files.kind == "folder":
        tars = [member for member in files.members if _TAR.search(member.name)]
        splits = {member.name: _split_of(member.name) for member in tars}
        split = selection.choose_split(files.path, splits.values())
        chosen = [member for member in tars if splits[member.name] == split]
        shards = {
            member.name: Files(Path(str(member.location)), most_bytes=files.most_bytes)
            for member in chosen
        }
    else:
        split = selection.choose_split(files.path, [_split_of(files.path.name)])
    several = files.kind == "folder"
    names: list[str] = []
    parts: list[tuple[Files, list[Member]]] = []
    texts: list[Label] = []
    field = None
    for name, shard in shards.items():
        samples = [*_samples(shard, selection.image_column)]
        members = [sample.image for sample in samples]
        names += [f"{name}/{member.name}" if several else member.name for member in members]
        if field is None and selection.label_column != "":
            field = _field(shard, samples, selection)
        texts += _labels(shard, samples, field, selection)
        # The names of labels are not needed any more.
        shard.members = []
        parts.append((shard, members))
    labels = _checked(texts, field, files.path, selection)

    def read(start: int) -> Iterator[bytes]:
        for shard, members in parts:
            if start < len(members):
                yield from shard.contents(members[start:])
            start = max(0, start - len(members))

    kind = "WebDataset" if field is None else f"WebDataset, labels of .{field}"
    sizes = [member.size for _, members in parts for member in members]
    return ImageSource(kind, split, names, labels, sizes, read)
