"""Noisy statistics <-> bytes: the free sums alone, and what their noise promises.

The reader computes everything else from them. The digest covers the promise as well.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from safle import (
    ClassName,
    CodeSpace,
    FileFormat,
    FreeSums,
    Integers,
    check_space,
    container,
    read_header,
)
from safle.errors import WireError
from safle_private.noisy import NoisyStatistics, Privacy, noisy_bytes

SECTIONS = ("counts", "cross", "products")


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fingerprint: str
    layout: list[dict[str, Any]]
    classes: list[ClassName]
    planes: dict[str, int]
    privacy: dict[str, Any]


def _describe(statistics: NoisyStatistics) -> tuple[dict[str, Any], dict[str, Integers]]:
    free = FreeSums(statistics.layout, len(statistics.class_names))
    fields = {**statistics.declaration(), "privacy": statistics.privacy.to_json()}
    return fields, {name: statistics.released[getattr(free, name)] for name in SECTIONS}


def _restore(opened: container.Container, space: CodeSpace | None = None) -> NoisyStatistics:
    header = read_header(_Header, opened)
    found = check_space(header.fingerprint, header.layout, header.classes, space, opened.limit)
    layout = found.layout
    classes = tuple(header.classes)
    if not classes:
        raise WireError("noisy statistics without classes; expected every declared class")
    privacy = Privacy.from_json(header.privacy)
    # If one promise could be written in two ways, one release would have two digests.
    if container.canonical(privacy.to_json()) != container.canonical(header.privacy):
        raise WireError("the privacy of the release is not written as safle writes it")
    opened.reserve(noisy_bytes(layout), f"a gram of {layout.dim} rows")
    free = FreeSums(layout, len(classes))
    released = np.empty(free.size, np.int64)
    for name in SECTIONS:
        place = getattr(free, name)
        released[place] = opened.array(name, (place.stop - place.start,))
    # `NoisyStatistics.of` raises counts below 1 to 1, so that one release has one digest.
    if (released[free.counts] < 1).any():
        raise WireError("a class counts less than one sample; expected at least 1")
    opened.finish()
    return NoisyStatistics.of(found, classes, released, privacy)


FORMAT = FileFormat(container.NOISY, _describe, _restore)
