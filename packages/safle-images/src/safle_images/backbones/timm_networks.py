"""Networks of timm by name, with the preprocessing that they declare."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from safle.basics import reason_of, require
from safle.errors import BackboneError
from safle_images.backbones.preprocessing import Preprocessing, times_255


def open_timm(name: str, note: Callable[[str], None]) -> tuple[Any, Preprocessing]:
    """A network in torch without its classifier, with its weights, and how its images are prepared.

    Parameters
    ----------
    name : as ``timm.create_model`` takes it: ``resnet18.tv_in1k``, ``local-dir:FOLDER``
    note : called with remarks for the user
    """
    timm = require("timm", "safle-images[export]", "exporting a network of timm")
    try:
        network = timm.create_model(name, pretrained=True, num_classes=0).eval()
    except Exception as error:  # timm, the hub's client and torch share no base of their errors
        raise BackboneError(
            f"timm:{name} could not be loaded ({reason_of(error)}); check its name, or download it "
            "on another machine and name its folder: timm:local-dir:FOLDER"
        ) from error
    config = timm.data.resolve_model_data_config(network)
    if config.get("crop_mode") in ("squash", "border"):
        note(f"timm:{name} squashes or pads images to a square; here their middle is taken")
    return network, timm_preprocessing(config)


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
        interpolation=config["interpolation"],
        mean=times_255(config["mean"]),
        deviation=times_255(config["std"]),
    )
