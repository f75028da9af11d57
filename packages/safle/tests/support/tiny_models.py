"""Models of Hugging Face's with random weights, in folders: small enough for a test."""

from __future__ import annotations

from pathlib import Path

import pytest

SIDE = 56
MEANS = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": SIDE,
    "patch_size": 14,
}


def save_hugging_face(model: str, folder: Path) -> Path:
    """A ``dinov2`` or a ``clip`` in a folder, as the hub has it; skips without transformers."""
    library = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    size = {"height": SIDE, "width": SIDE}
    if model == "dinov2":
        network = library.Dinov2Model(library.Dinov2Config(**SIZES))
        processor = library.BitImageProcessor(size={"shortest_edge": 64}, crop_size=size, **MEANS)
    else:
        words = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = library.CLIPConfig(vision_config=SIZES, text_config=words, projection_dim=24)
        network = library.CLIPModel(config)
        processor = library.CLIPImageProcessor(
            size={"shortest_edge": SIDE}, crop_size=size, **MEANS
        )
    network.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
