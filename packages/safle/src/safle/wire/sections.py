"""Integer arrays as the sections of a file: byte planes, as few as their values need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import WireError
from safle.wire.container import Container
from safle.wire.planes import MOST_HALVES, from_planes, plane_count, to_planes, value_bytes


@dataclass
class Sections:
    """Sections to be written, or those of an opened file.

    Attributes
    ----------
    opened : the file that is read
    raw : sections to be written, by name
    planes : half bytes per value of every array, by name
    """

    opened: Container | None = None
    raw: dict[str, bytes] = field(default_factory=dict)
    planes: dict[str, int] = field(default_factory=dict)
    _read: dict[str, bool] = field(default_factory=dict)

    def write(self, name: str, values: NDArray[np.integer[Any]]) -> None:
        """Add an array."""
        self.planes[name] = plane_count(values)
        self.raw[name] = to_planes(values, self.planes[name])

    def read_raw(self, name: str, size: int) -> bytes:
        """A section that must have exactly ``size`` bytes."""
        assert self.opened is not None, "sections are either read or written"
        self._read.setdefault(name, False)
        return self.opened.section(name, size)

    def read(self, name: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """An array of this shape, int64."""
        planes = self.planes.get(name)
        self._read[name] = True
        if type(planes) is not int or not 1 <= planes <= MOST_HALVES:
            raise WireError(f"section {name!r} has {planes!r} half planes; expected 1..16")
        count = int(np.prod(shape, dtype=object))
        values = from_planes(self.read_raw(name, value_bytes(planes) * count), planes, shape)
        if plane_count(values) != planes:
            raise WireError(f"section {name!r} has more planes than its values need")
        return values

    def finish(self) -> None:
        """Check that the file holds what was read, in that order, and has the digest it claims."""
        assert self.opened is not None, "sections are either read or written"
        arrays = {name for name, planes in self._read.items() if planes}
        if list(self.opened.frames) != list(self._read) or set(self.planes) != arrays:
            raise WireError(f"expected just the sections {', '.join(self._read)}")
        self.opened.finish()
