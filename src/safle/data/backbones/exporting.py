"""torch -> ONNX, once: later runs find the exported network in the cache and need no torch."""

from __future__ import annotations

import warnings
from pathlib import Path

from safle._internal import atomic
from safle.data.backbones.cache import cache_folder
from safle.data.backbones.catalogue import Card
from safle.data.backbones.weights import build

REVISION = 1
"""Counted up whenever an architecture's or the exporter's code changes what is exported."""
OPSET = 17


def exported_path(card: Card, digest: str) -> Path:
    """Where the exported network of weights with this SHA-256 is, or will be."""
    return cache_folder("onnx", f"{card.name}-{digest}-{REVISION}.onnx")


def export_network(card: Card, weights: Path, digest: str) -> Path:
    """The exported network; made if it is not there."""
    target = exported_path(card, digest)
    if target.is_file():
        return target
    network = build(card, weights)
    import torch

    from safle.data.backbones.architectures.base import Embedding

    target.parent.mkdir(parents=True, exist_ok=True)
    size = card.preprocessing.crop
    with atomic.replacing(target) as scratch, warnings.catch_warnings():
        # The tracing exporter is deprecated, but needs no further package and traces all of ours.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Embedding(network).eval(),
            (torch.zeros(1, 3, size, size),),
            str(scratch),
            dynamo=False,
            opset_version=OPSET,
            input_names=["images"],
            output_names=["features"],
            dynamic_axes={"images": {0: "batch"}, "features": {0: "batch"}},
        )
    return target
