"""Images -> a features file: resumable on the way, whole or not there at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle._internal.atomic import replacing
from safle.data.backbones.extraction import DEFAULT_BATCH, extract
from safle.data.backbones.journal import Journal
from safle.data.backbones.loading import Backbone
from safle.data.backbones.unreadable import DEFAULT_SHARE, Unreadables
from safle.data.images import ImageSource, Label
from safle.data.tables.tensors import class_names_text
from safle.encoders.features import as_labels
from safle.errors import ImageError


@dataclass(frozen=True)
class Written:
    """What a features file holds and how it came about.

    Attributes
    ----------
    images : all, readable or not
    samples : rows
    resumed : images that an earlier, interrupted run had done
    """

    images: int
    samples: int
    feature_dim: int
    class_names: tuple[Any, ...]
    unreadable: Unreadables
    resumed: int


def write_features(
    images: ImageSource,
    backbone: Backbone,
    output: Path,
    *,
    batch: int = DEFAULT_BATCH,
    workers: int | None = None,
    max_unreadable: float = DEFAULT_SHARE,
    advance: Callable[[int], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
) -> Written:
    """Write the features of all images that can be read; see the module's text.

    Parameters
    ----------
    max_unreadable : share of unreadable images above which it is an error
    advance : called with the number of images done
    note : called with remarks for the user
    """
    unreadable = Unreadables.beside(output, total=len(images), most=max_unreadable)
    header = {"source": backbone.source, "listing": images.digest(), "images": len(images)}
    with Journal(output, feature_dim=backbone.feature_dim, header=header) as journal:
        _explain(journal, len(images), note)
        unreadable.add(journal.unreadable[:])
        advance(journal.images)
        records = images.records(journal.images)
        for part in extract(records, backbone, batch=batch, workers=workers):
            journal.append(part)
            unreadable.add(part.unreadable)
            advance(journal.images)
        journal.sync()
        labels, names = _labels(journal.labels)
        _write(output, journal.partial, len(journal.labels), labels, names, backbone)
        unreadable.write()
        journal.remove()
        return Written(
            images=journal.images,
            samples=len(journal.labels),
            feature_dim=backbone.feature_dim,
            class_names=names or tuple(sorted(set(labels.tolist()))) if labels is not None else (),
            unreadable=unreadable,
            resumed=journal.resumed,
        )


def _explain(journal: Journal, total: int, note: Callable[[str], None]) -> None:
    if journal.discarded:
        note("an unfinished run with other images or another backbone was begun again")
    elif journal.resumed:
        note(f"resuming: {journal.resumed:,} of {total:,} images are done")


def _labels(found: list[Label]) -> tuple[NDArray[np.int64] | None, tuple[str, ...] | None]:
    """Class numbers, and the names they stand for if labels are names."""
    unknown = sum(label is None for label in found)
    if unknown == len(found):
        return None, None
    if unknown:
        raise ImageError(
            f"{unknown:,} of {len(found):,} images have no label; expected all or none"
        )
    labels = as_labels([label for label in found if label is not None], len(found))
    if labels.dtype.kind != "U":
        return labels, None
    names, numbers = np.unique(labels, return_inverse=True)
    return numbers.astype(np.int64), tuple(names.tolist())


def _write(
    output: Path,
    partial: Path,
    samples: int,
    labels: NDArray[np.int64] | None,
    names: tuple[str, ...] | None,
    backbone: Backbone,
) -> None:
    """A safetensors file, streamed: the rows are copied from disk to disk."""
    metadata = {"source": backbone.source}
    if names is not None:
        metadata["classes"] = class_names_text(names)
    size = 4 * samples * backbone.feature_dim
    shape = [samples, backbone.feature_dim]
    header: dict[str, Any] = {
        "__metadata__": metadata,
        "features": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]},
    }
    if labels is not None:
        end = size + 8 * samples
        header["labels"] = {"dtype": "I64", "shape": [samples], "data_offsets": [size, end]}
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with replacing(output) as scratch, scratch.open("wb") as file, partial.open("rb") as rows:
        file.write(len(text).to_bytes(8, "little") + text)
        shutil.copyfileobj(rows, file, 1 << 20)
        if labels is not None:
            file.write(labels.astype("<i8").tobytes())
