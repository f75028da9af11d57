"""A network of torch or timm -> one ONNX file that says how its images are prepared, checked.

Whoever has the file has the backbone. It is exported once and then handed to every client, since
another version of torch would write other bytes, which are another source of features.
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

from safle.basics import atomic, reason_of, require
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
    """Write ``timm:NAME``, the default backbone or an ONNX file as one file that says all.

    Parameters
    ----------
    preprocessing : fields of `Preprocessing` that differ from what is declared
    note : called with remarks for the user

    Returns
    -------
    difference : from the source, as a share of the features' length, on sample images

    Raises
    ------
    BackboneError
        It cannot be loaded or exported, or differs from its source on sample images.

    Examples
    --------
    >>> export_named("resnet.pth", Path("network.onnx"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.BackboneError: 'resnet.pth' is no backbone; expected timm:NAME, ...
    """
    changes = dict(preprocessing or {})
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        made = Path(folder, "made.onnx")
        if what.lower().endswith(".onnx"):
            difference = _copy_stamped(Path(what), changes, made)
        else:
            if what == DEFAULT:
                module, declared = features_of(build_default()), PREPROCESSING
            elif what.startswith("timm:"):
                module, declared = open_timm(what.removeprefix("timm:"), note)
            else:
                raise BackboneError(
                    f"{what!r} is no backbone; expected timm:NAME, {DEFAULT} or FILE.onnx"
                )
            difference = export_backbone(module, replace(declared, **changes), made)
        with atomic.replacing(output) as scratch:
            made.replace(scratch)
    return difference


def export_backbone(module: Any, preprocessing: Preprocessing, path: Path) -> float:
    """Write a network in torch as an ONNX file that says how its images are prepared.

    Parameters
    ----------
    module : normalised images (batch, 3, crop, crop) -> features (batch, feature_dim)

    Returns
    -------
    difference : from torch, as a share of the features' length, on sample images

    Raises
    ------
    BackboneError
        torch cannot export it, or the file gives other features.
    """
    torch, module = require("torch", "safle-images[export]", "exporting a network"), module.eval()
    try:
        export_module(module, preprocessing.crop, path)
    except Exception as error:  # whatever a network's code leads torch to
        raise BackboneError(f"torch cannot export the network ({reason_of(error)})") from error
    stamp_preprocessing(path, preprocessing, path)

    def run(images: Images) -> Images:
        with torch.inference_mode():
            found: Images = module(torch.from_numpy(images)).float().numpy()
        return found

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


def _copy_stamped(path: Path, changes: dict[str, Any], made: Path) -> float:
    """The network of an ONNX file, with what was said about its images, all weights inside."""
    declared = declared_preprocessing(path)
    missing = [name for name in Preprocessing.__dataclass_fields__ if name not in changes]
    if declared is None and missing:
        raise BackboneError(
            f"{path}: declares no preprocessing; say how its images were prepared with "
            f"--{', --'.join(missing)}"
        )
    chosen = Preprocessing(**changes) if declared is None else replace(declared, **changes)
    stamp_preprocessing(path, chosen, made)
    return _compare(OnnxNetwork(path, where=str(path)), made)


def _compare(source: Run, path: Path) -> float:
    """How far an ONNX file's features are from its source's, on photographs of scikit-learn's."""
    from sklearn.datasets import load_sample_images

    backbone = load_backbone(str(path))
    network, preprocessing = backbone.network, backbone.preprocessing
    pixels, side = load_sample_images().images, preprocessing.crop
    images = np.zeros((network.slots, 3, side, side), np.float32)
    for at, image in enumerate(images):
        preprocessing.normalise(preprocessing.fit(pixels[at % len(pixels)]), image)
    expected, found = source(images), network(images)
    if expected.shape != found.shape:
        raise BackboneError(f"it gives {found.shape} numbers; the source gives {expected.shape}")
    if len(images) > 1 and (found[0] == found[1]).all():
        raise BackboneError("it gives two different photographs the same features")
    lengths = np.maximum(np.linalg.norm(expected, axis=1), 1e-12)
    difference = float((np.linalg.norm(found - expected, axis=1) / lengths).max())
    if not difference <= LARGEST_DIFFERENCE:
        raise BackboneError(
            f"its features differ from the source's by {difference:.2g} of their length; expected "
            f"at most {LARGEST_DIFFERENCE:.2g}"
        )
    return difference


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
