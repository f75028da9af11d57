"""Backbones: images -> features, on a client's own machine.

A backbone is a pretrained network without its classifier: one of the catalogue, or any ONNX
file. It runs in ONNX Runtime; torch is needed once, to export it. Its identity (name, SHA-256
of its weights, preprocessing) goes with the features, and from there into the encoder.
"""

from safle_images.backbones.adding import add_backbone, export_backbone
from safle_images.backbones.catalogue import CARDS, DEFAULT, Card
from safle_images.backbones.extraction import Batch, default_workers, extract
from safle_images.backbones.loading import Backbone, load_backbone
from safle_images.backbones.preprocessing import Preprocessing
from safle_images.backbones.runs import Unreadables
from safle_images.backbones.writing import write_features

__all__ = [
    "CARDS",
    "DEFAULT",
    "Backbone",
    "Batch",
    "Card",
    "Preprocessing",
    "Unreadables",
    "add_backbone",
    "default_workers",
    "export_backbone",
    "extract",
    "load_backbone",
    "write_features",
]
