"""A network of torch or timm -> one checked ONNX file that declares its preprocessing.

The file is the whole backbone. It is exported once and then given to every client, since another
version of torch would write other bytes, and other bytes count as another source of features.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.basics import atomic, reason_of, require_package
from safle.errors import BackboneError
from safle_images.backbones.default import DEFAULT, PREPROCESSING, build_default, features_of
from safle_images.backbones.loading import (
    OnnxNetwork,
    declared_preprocessing,
    load_backbone,
    stamp_preprocessing,
)
from safle_images.backbones.preprocessing import Preprocessing, times_255

OPSET = 17
LARGEST_DIFFERENCE = 1e-3
"""Between features of one input, as a share of their length: ONNX Runtime rounds differently."""
Images = NDArray[np.float32]
Run = Callable[[Images], Images]


def export_named(
    what: str,
    output: Path,
    *,
    preprocessing: Mapping[str, Any] | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> float:
    """Write ``timm:NAME``, the default backbone or an ONNX file as one complete ONNX file.

    Parameters
    ----------
    preprocessing : fields of `Preprocessing` that replace what the network declares
    note : called with remarks for the user

    Returns
    -------
    difference : from the source, as a share of the features' length, on sample images

    Raises
    ------
    BackboneError
        The network cannot be loaded or exported, or the file's features differ from its own.

    Examples
    --------
    >>> export_named("resnet.pth", Path("network.onnx"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.BackboneError: 'resnet.pth' is no backbone; expected timm:NAME, ...
    """
    changes = dict(preprocessing or {})
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        exported = Path(folder, "exported.onnx")
        if what.lower().endswith(".onnx"):
            difference = _copy_stamped(Path(what), changes, exported)
        else:
            if what == DEFAULT:
                module, declared = features_of(build_default()), PREPROCESSING
            elif what.startswith("timm:"):
                module, declared = open_timm(what.removeprefix("timm:"), note)
            else:
                raise BackboneError(
                    f"{what!r} is no backbone; expected timm:NAME, {DEFAULT} or FILE.onnx"
                )
            difference = export_backbone(module, replace(declared, **changes), exported)
        with atomic.replacing(output) as scratch:
            exported.replace(scratch)
    return difference


def export_backbone(module: Any, preprocessing: Preprocessing, path: Path) -> float:
    """Write a network in torch as an ONNX file that declares its preprocessing.

    Parameters
    ----------
    module : normalised images (batch, 3, crop, crop) -> features (batch, feature_dim)

    Returns
    -------
    difference : from torch, as a share of the features' length, on sample images

    Raises
    ------
    BackboneError
        torch cannot export the network, or the file gives other features.
    """
    torch = require_package("torch", "safle-images[export]", "exporting a network")
    module = module.eval()
    try:
        with atomic.replacing(path) as scratch:
            export_module(module, preprocessing.crop, scratch)
    except Exception as error:  # a network's code can make torch raise anything
        raise BackboneError(f"torch cannot export the network ({reason_of(error)})") from error
    stamp_preprocessing(path, preprocessing, path)

    def run(images: Images) -> Images:
        with torch.inference_mode():
            features: Images = module(torch.from_numpy(images)).float().numpy()
        return features

    return _compare(run, path)


def export_module(module: Any, side: int, path: Path) -> None:
    """Write a network in torch, of images (batch, 3, side, side), as an ONNX file."""
    import torch

    with warnings.catch_warnings(), torch.inference_mode():
        # The tracing exporter is deprecated, but needs no further package.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (torch.zeros(1, 3, side, side),),
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=["images"],
            output_names=["features"],
            dynamic_axes={"images": {0: "batch"}, "features": {0: "batch"}},
        )


def _copy_stamped(path: Path, changes: dict[str, Any], target: Path) -> float:
    """Copy an ONNX file with its changed preprocessing; return the difference of features."""
    declared = declared_preprocessing(path)
    missing = [name for name in Preprocessing.__dataclass_fields__ if name not in changes]
    if declared is None and missing:
        raise BackboneError(
            f"{path}: declares no preprocessing; give the preprocessing of its training with "
            f"--{', --'.join(missing)}"
        )
    chosen = Preprocessing(**changes) if declared is None else replace(declared, **changes)
    stamp_preprocessing(path, chosen, target)
    return _compare(OnnxNetwork(path, where=str(path)), target)


def _compare(source: Run, path: Path) -> float:
    """How far an ONNX file's features are from its source's, at most, on sample photographs."""
    from sklearn.datasets import load_sample_images

    backbone = load_backbone(str(path))
    network, preprocessing = backbone.network, backbone.preprocessing
    photographs = load_sample_images().images
    side = preprocessing.crop
    images = np.zeros((network.slots, 3, side, side), np.float32)
    for slot, image in enumerate(images):
        photograph = photographs[slot % len(photographs)]
        preprocessing.normalise(preprocessing.fit(photograph), image)
    expected, found = source(images), network(images)
    if expected.shape != found.shape:
        raise BackboneError(
            f"the file's features have shape {found.shape}; expected {expected.shape}, the source's"
        )
    if len(images) > 1 and (found[0] == found[1]).all():
        raise BackboneError("the file gives two different photographs the same features")
    lengths = np.maximum(np.linalg.norm(expected, axis=1), 1e-12)
    difference = float((np.linalg.norm(found - expected, axis=1) / lengths).max())
    if not difference <= LARGEST_DIFFERENCE:
        raise BackboneError(
            f"the file's features differ from the source's by {difference:.2g} of their length; "
            f"expected at most {LARGEST_DIFFERENCE:.2g}"
        )
    return difference


def open_timm(name: str, note: Callable[[str], None]) -> tuple[Any, Preprocessing]:
    """A pretrained network of timm without its classifier, in torch, and its preprocessing.

    Parameters
    ----------
    name : as ``timm.create_model`` takes it: ``resnet18.tv_in1k``, ``local-dir:FOLDER``
    note : called with remarks for the user
    """
    timm = require_package("timm", "safle-images[export]", "exporting a network of timm")
    try:
        network = timm.create_model(name, pretrained=True, num_classes=0).eval()
    except Exception as error:  # timm, the hub's client and torch share no base of their errors
        raise BackboneError(
            f"timm:{name} could not be loaded ({reason_of(error)}); check its name, or download it "
            "on another machine and give its folder: timm:local-dir:FOLDER"
        ) from error
    config = timm.data.resolve_model_data_config(network)
    if config.get("crop_mode") in ("squash", "border"):
        note(f"timm:{name} squashes or pads images to a square; safle crops their middle")
    return network, timm_preprocessing(config)


def timm_preprocessing(config: Mapping[str, Any]) -> Preprocessing:
    """The preprocessing that a data configuration of timm describes.

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
            f"the network takes {channels} colours of {height} x {side} pixels; expected 3 colours "
            "of a square"
        )
    return Preprocessing(
        resize=math.floor(side / float(config["crop_pct"])),
        crop=side,
        interpolation=config["interpolation"],
        mean=times_255(config["mean"]),
        deviation=times_255(config["std"]),
    )
