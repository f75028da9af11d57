"""Images -> a features file: resumable on the way, whole or not there at the end."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from safle.basics.atomic import replacing
from safle.encoders.features import as_labels
from safle.errors import ImageError
from safle.tables.arrays import SAMPLE_NAMES, class_names_text, sample_names_bytes
from safle_images.backbones.journal import Journal
from safle_images.backbones.loading import Backbone
from safle_images.backbones.runs import Options, Run, Unreadables
from safle_images.readers import ImageSource, Label


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
    images: ImageSource, backbone: Backbone, output: Path, **options: Unpack[Options]
) -> Written:
    """Write the features of all images that can be read; see the module's text.

    Parameters
    ----------
    options : see `Options`
    """
    with Run(images, backbone, output, {"feature_dim": backbone.feature_dim}, **options) as run:
        for part in run.batches():
            data = np.ascontiguousarray(part.features, dtype="<f4").tobytes()
            run.journal.append(part, data)
        labels, classes = _labels(run.journal.labels)
        _write(output, run.journal, labels, classes, backbone)
        run.finish()
        found = classes or (() if labels is None else tuple(sorted(set(labels.tolist()))))
        rows = len(run.journal.names)
        return Written(run.done, rows, backbone.feature_dim, found, run.unreadable, run.resumed)


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
    done: Journal,
    labels: NDArray[np.int64] | None,
    classes: tuple[str, ...] | None,
    backbone: Backbone,
) -> None:
    """A safetensors file, streamed: the library's own writer wants all rows in memory."""
    metadata = {"source": backbone.source}
    if classes is not None:
        metadata["classes"] = class_names_text(classes)
    rows, named = len(done.names), sample_names_bytes(done.names)
    parts = [("features", "F32", [rows, backbone.feature_dim], 4 * rows * backbone.feature_dim)]
    if labels is not None:
        parts.append(("labels", "I64", [rows], 8 * rows))
    parts.append((SAMPLE_NAMES, "U8", [len(named)], len(named)))
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, dtype, shape, size in parts:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with replacing(output) as scratch, scratch.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(done.data())
        if labels is not None:
            file.write(labels.astype("<i8").tobytes())
        file.write(named)
