"""Noisy statistics <-> bytes: the free sums alone, and what their noise promises.

All else follows from them when they are read. The digest covers the promise as well.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from safle._internal.places import naming
from safle.encoders.base import Made
from safle.encoders.codes import Layout
from safle.errors import WireError
from safle.statistics.noisy import FreeColumns, NoisyStatistics, Released, noisy_bytes
from safle.statistics.privacy import Privacy
from safle.wire import container
from safle.wire.sections import Sections
from safle.wire.statistics import check_made, typed_errors

FIELDS = {"fingerprint", "layout", "classes", "planes", "privacy"}


class Declared(NamedTuple):
    """The encoder that a file names."""

    fingerprint: str
    layout: Layout


def encode_noisy(statistics: NoisyStatistics) -> bytes:
    """The bytes of a file of noisy statistics: equal ones give equal bytes."""
    sections, released = Sections(), statistics.released
    sections.write("counts", released.counts)
    sections.write("cross", released.cross)
    sections.write("products", released.gram[FreeColumns(statistics.layout).pairs])
    header = {
        "fingerprint": statistics.fingerprint,
        "layout": statistics.layout.to_json(),
        "classes": list(statistics.class_names),
        "privacy": statistics.privacy.to_json(),
        "planes": sections.planes,
    }
    return container.to_bytes(container.NOISY, header, sections.raw)


def decode_noisy(
    data: bytes | memoryview, *, made: Made | None = None, limit: int = container.DEFAULT_LIMIT
) -> NoisyStatistics:
    """Noisy statistics from bytes; `WireError` for bad ones.

    Parameters
    ----------
    made : the encoder (or statistics of it); others are refused before anything unfolds
    limit : most bytes the file may unfold to
    """
    opened = container.from_bytes(data, kind=container.NOISY, limit=limit)
    with typed_errors():
        return _restore(opened, made, limit)


def _restore(opened: container.Container, made: Made | None, limit: int) -> NoisyStatistics:
    header = opened.header
    if set(header) != FIELDS or not header["classes"]:
        raise WireError("the header does not hold exactly the fields of noisy statistics")
    layout = check_made(header, made)
    classes, privacy = tuple(header["classes"]), Privacy.from_json(header["privacy"])
    # Two texts of one promise would be two identities of one release.
    if container.canonical(privacy.to_json()) != container.canonical(header["privacy"]):
        raise WireError("the privacy of the release is not as this safle writes it")
    container.check_memory(noisy_bytes(layout), layout.embedding_dim, limit)
    sections, free = Sections(opened, planes=header["planes"]), FreeColumns(layout)
    counts = sections.read("counts", (len(classes),))
    # Written as 1 where the noise makes it less: two texts would be two identities of one release.
    if (counts < 1).any():
        raise WireError("a class counts less than one sample; expected at least 1")
    cross = sections.read("cross", (len(free.places), len(classes)))
    upper = np.zeros(free.pairs.shape, np.int64)
    upper[free.pairs] = sections.read("products", (int(free.pairs.sum()),))
    sections.finish()
    released = Released(free.mirror(upper), cross, counts)
    declared = Declared(header["fingerprint"], layout)
    return NoisyStatistics.of(declared, classes, released, privacy)


def read_noisy(path: str | os.PathLike[str], *, made: Made | None = None) -> NoisyStatistics:
    """Read a file of noisy statistics; see `decode_noisy`.

    >>> read_noisy("nowhere.stats")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.stats'
    """
    data = container.read_limited(path)
    with naming(path):
        return decode_noisy(data, made=made)
