"""Networks of timm and of Hugging Face, with the preprocessing that they declare."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.optional import require
from safle.basics.texts import reason_of
from safle.errors import BackboneError
from safle_images.backbones.preprocessing import INTERPOLATIONS, Preprocessing, Triple

EXTRA = "export"
_RESAMPLES = {2: "bilinear", 3: "bicubic"}
"""Pillow's numbers, as Hugging Face writes them."""


@dataclass(frozen=True, eq=False)
class Origin:
    """A network in torch, and how its images are prepared.

    Attributes
    ----------
    module : normalised images (batch, 3, side, side) -> features (batch, feature_dim)
    prepare : a Pillow image -> (3, side, side) by the library itself, to compare with
    whole : the library makes images square without cutting anything off, by squashing or padding
    """

    module: Any
    preprocessing: Preprocessing
    prepare: Callable[[Any], NDArray[np.float32]]
    whole: bool


def open_timm(name: str) -> Origin:
    """A network of timm without its classifier, with its published weights."""
    timm = require("timm", EXTRA, "exporting a network of timm")
    require("torch", "safle-images[export]", "exporting a network of timm")
    try:
        network = timm.create_model(name, pretrained=True, num_classes=0).eval()
    except Exception as error:  # timm, the hub's client and torch share no base of their errors
        raise _failed(f"timm:{name}", error) from error
    config = timm.data.resolve_model_data_config(network)
    transform = timm.data.create_transform(**config, is_training=False)
    return Origin(
        network,
        timm_preprocessing(config),
        lambda image: np.asarray(transform(image), np.float32),
        config.get("crop_mode") in ("squash", "border"),
    )


def timm_preprocessing(config: Mapping[str, Any]) -> Preprocessing:
    """What a data configuration of timm's says.

    Examples
    --------
    >>> timm_preprocessing({
    ...     "input_size": (3, 224, 224), "interpolation": "bicubic", "crop_pct": 0.9,
    ...     "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}).resize
    248
    """
    channels, height, side = config["input_size"]
    if (channels, height) != (3, side):
        raise BackboneError(
            f"it takes {channels} colours of {height} x {side} pixels; expected 3 of a square"
        )
    return Preprocessing(
        resize=math.floor(side / float(config["crop_pct"])),
        crop=side,
        interpolation=_known(str(config["interpolation"])),
        mean=_triple(config["mean"], 255),
        deviation=_triple(config["std"], 255),
    )


def open_hugging_face(name: str) -> Origin:
    """The image tower of a model of Hugging Face's, from the hub or a folder.

    Of a model of images and texts, as CLIP is, the embedding of images; of another, what it
    pools. No code of a model is run, and no pickle is read.
    """
    library = require("transformers", EXTRA, "exporting a model of Hugging Face")
    torch = require("torch", "safle-images[export]", "exporting a model of Hugging Face")
    try:
        network = library.AutoModel.from_pretrained(name, use_safetensors=True).eval()
        processor = library.AutoImageProcessor.from_pretrained(name)
    except Exception as error:  # nor do these
        raise _failed(f"hf:{name}", error) from error

    class Tower(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: Any) -> Any:
            embed = getattr(self.network, "get_image_features", self.network)
            found = embed(pixel_values=images)
            pooled = getattr(found, "pooler_output", found)
            return (found.last_hidden_state[:, 0] if pooled is None else pooled).flatten(1)

    config = processor.to_dict()
    return Origin(
        Tower().eval(),
        hugging_face_preprocessing(config),
        lambda image: processor(image, return_tensors="np")["pixel_values"][0].astype(np.float32),
        "shortest_edge" not in _size(config),
    )


def hugging_face_preprocessing(config: Mapping[str, Any]) -> Preprocessing:
    """What a processor's configuration (``preprocessor_config.json``) says.

    Examples
    --------
    >>> found = hugging_face_preprocessing({
    ...     "size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224},
    ...     "do_center_crop": True, "resample": 3, "rescale_factor": 1 / 255,
    ...     "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]})
    >>> found.crop, found.mean
    (224, (127.5, 127.5, 127.5))
    """
    size = _size(config)
    resize = int(size.get("shortest_edge") or size.get("height") or 0)
    crop = config.get("crop_size") if config.get("do_center_crop") else None
    scale = 1 / float(config.get("rescale_factor") or 1 / 255)
    plain, filtered = not config.get("do_normalize", True), config.get("resample")
    return Preprocessing(
        resize=resize,
        crop=int(crop["height"] if isinstance(crop, Mapping) else crop or resize),
        interpolation=_known(_RESAMPLES.get(2 if filtered is None else filtered, "another")),
        mean=(0.0, 0.0, 0.0) if plain else _triple(config["image_mean"], scale),
        deviation=(scale, scale, scale) if plain else _triple(config["image_std"], scale),
    )


def _size(config: Mapping[str, Any]) -> Mapping[str, Any]:
    size = config.get("size")
    return size if isinstance(size, Mapping) else {"shortest_edge": size}


def _known(interpolation: str) -> str:
    if interpolation not in INTERPOLATIONS:
        raise BackboneError(
            f"it resizes images by {interpolation!r}; expected {' or '.join(INTERPOLATIONS)}"
        )
    return interpolation


def _triple(values: Any, scale: float) -> Triple:
    red, green, blue = (float(value) * scale for value in values)
    return red, green, blue


def _failed(what: str, error: Exception) -> BackboneError:
    return BackboneError(
        f"{what} could not be loaded ({reason_of(error)}); check its name, or download it on "
        "another machine and name its folder"
    )
