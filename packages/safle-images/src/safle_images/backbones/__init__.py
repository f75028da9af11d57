"""Backbones: images -> features, on a client's own machine.

A backbone is a pretrained network without its classifier: the default, one of timm's that was
exported once, or any ONNX file. It runs in ONNX Runtime. Its identity (name, SHA-256 of its
weights, preprocessing) goes with the features, and from there into the encoder.
"""

from safle_images.backbones.default import DEFAULT
from safle_images.backbones.exporting import export_backbone, export_named
from safle_images.backbones.extraction import Batch, extract
from safle_images.backbones.joining import join_backbone
from safle_images.backbones.loading import Backbone, load_backbone
from safle_images.backbones.preprocessing import Preprocessing
from safle_images.backbones.writing import write_features

__all__ = [
    "DEFAULT",
    "Backbone",
    "Batch",
    "Preprocessing",
    "export_backbone",
    "export_named",
    "extract",
    "join_backbone",
    "load_backbone",
    "write_features",
]
