"""What the caller asked for: which split, which columns, labels from where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from safle.data.images.records import listed
from safle.errors import ImageError

LABEL_COLUMN = "label"

# No photograph is larger, and a batch of any distributed CIFAR fits.
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The options of :func:`safle.data.images.open_images`."""

    split: str | None = None
    labels: Path | None = None
    label_column: str = LABEL_COLUMN
    image_column: str | None = None
    most_bytes: int = MOST_BYTES

    def refuse(self, where: object, kind: str, *options: str) -> None:
        """Raise if one of ``options``, which this kind of source has no use for, was given."""
        for option in options:
            if getattr(self, option) != getattr(Selection, option):
                raise ImageError(
                    f"{where}: {option}={str(getattr(self, option))!r} does not apply to {kind}; "
                    "leave it out"
                )

    def choose_split(self, where: object, available: Iterable[str]) -> str | None:
        """The split to read; None if there are none."""
        names = sorted(available)
        if self.split is None:
            if len(names) > 1:
                raise ImageError(
                    f"{where}: has the splits {listed(names)}; say which with --split NAME "
                    "(split= in Python)"
                )
            return names[0] if names else None
        if self.split not in names:
            has = f"it has {listed(names)}" if names else "it has no splits: leave it out"
            raise ImageError(f"{where}: no split {self.split!r}; {has}")
        return self.split
