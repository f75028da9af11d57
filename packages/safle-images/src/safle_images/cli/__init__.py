"""The commands that safle-images adds to the command line, and options that others share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from safle.cli import Session

if TYPE_CHECKING:
    from safle_images.readers import ImageSource

__all__ = ["BACKBONE", "LABEL_COLUMN", "running"]
LABEL_COLUMN = "The column of labels (.csv, .parquet, hf:); empty if there are none."
BACKBONE = "efficientnet_lite0, or a file that 'safle backbones export' wrote."


@contextmanager
def running(
    session: Session, title: str, source: ImageSource, options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """A block in which progress is shown, with what `write_features` takes."""
    with session.progress(title, len(source), "images") as advance:
        how = {name: options[name] for name in ("batch", "workers", "max_unreadable")}
        yield {**how, "advance": advance, "note": session.note}
