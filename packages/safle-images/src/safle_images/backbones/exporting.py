"""A network of torch or of an ONNX file -> one checked ONNX file that declares its preprocessing.

The file is the whole backbone. It is exported once and then given to every client, since another
version of torch would write other bytes, and other bytes count as another source of features.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from safle.basics import atomic, reason_of, require_package
from safle.errors import BackboneError, SafleWarning
from safle_images.backbones.default import DEFAULT, PREPROCESSING, build_default, features_of
from safle_images.backbones.graphs import class_scores, stamp_preprocessing
from safle_images.backbones.libraries import LIBRARIES
from safle_images.backbones.loading import declared_preprocessing, load_backbone
from safle_images.backbones.preprocessing import Preprocessing

OPSET = 17
LARGEST_DIFFERENCE = 1e-3
"""Between features of one input, as a share of their length: ONNX Runtime rounds differently."""
TAKERS = {"weights": ("torchvision", "timm"), "size": ("timm",), "output_name": ("onnx",)}
"""Which options apply to which kind of network."""
REQUIRED = ("resize", "crop", "interpolation", "mean", "deviation")
Images = NDArray[np.float32]
Run = Callable[[Images], Images]


def export_named(
    what: str,
    output: Path,
    *,
    preprocessing: Mapping[str, Any] | None = None,
    weights: Path | None = None,
    size: int | None = None,
    output_name: str | None = None,
) -> float:
    """Write a network of a library, the default or an ONNX file as one complete ONNX file.

    Parameters
    ----------
    what : ``torchvision:NAME``, ``timm:NAME``, ``hf:NAME``, a folder of transformers' models,
        ``efficientnet_lite0`` or ``FILE.onnx``
    preprocessing : fields of `Preprocessing` that replace what the network declares
    weights : a state dict for a network of torchvision or timm
    size : pixels of the images that a network of timm gets
    output_name : of the features in an ONNX file

    Returns
    -------
    difference : from torch, as a share of the features' length, on sample images; 0 for ONNX files,
        whose graph stays as it is

    Raises
    ------
    BackboneError
        The network cannot be loaded or exported, or the file's features differ from its own.

    Examples
    --------
    >>> export_named("resnet.pth", Path("network.onnx"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.BackboneError: 'resnet.pth' is not a backbone; expected torchvision:NAME, ...
    """
    changes = dict(preprocessing or {})
    kind, _, name = what.partition(":")
    if Path(what).is_dir():
        kind, name = "hf", what
    elif what.lower().endswith(".onnx"):
        kind = "onnx"
    every = {"weights": weights, "size": size, "output_name": output_name}
    given: dict[str, Any] = {key: value for key, value in every.items() if value is not None}
    for key in given:
        if kind not in TAKERS[key]:
            option = "--" + key.replace("_", "-")
            raise BackboneError(f"{what}: {option} is for {' and '.join(TAKERS[key])} alone")
    if kind == "onnx":
        return _export_onnx(Path(what), output, changes, output_name)
    if kind in LIBRARIES:
        module, declared = LIBRARIES[kind](name, **given)
    elif what == DEFAULT:
        module, declared = features_of(build_default()), PREPROCESSING
    else:
        expected = ", ".join(f"{library}:NAME" for library in LIBRARIES)
        expected = f"{expected}, {DEFAULT} or FILE.onnx"
        raise BackboneError(f"{what!r} is not a backbone; expected {expected}")
    return export_backbone(module, replace(declared, **changes), output, name=what)


def export_backbone(
    module: Any, preprocessing: Preprocessing, path: Path, *, name: str = "the network"
) -> float:
    """Write a network in torch as an ONNX file that declares its preprocessing.

    Parameters
    ----------
    module : normalised images (batch, 3, crop, crop) -> features (batch, feature_dim)
    name : for messages

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

    def run(images: Images) -> Images:
        with torch.inference_mode():
            features: Images = module(torch.from_numpy(images)).float().numpy()
        return features

    with _checked(path, name) as exported:
        try:
            export_module(module, preprocessing.crop, exported)
        except Exception as error:  # a network's code can make torch raise anything
            raise BackboneError(
                f"torch cannot export {name} for images of {preprocessing.crop} pixels "
                f"({reason_of(error)}); expected another size, or a network that ONNX can express"
            ) from error
        stamp_preprocessing(exported, preprocessing, exported)
        return _check(exported, name, run)


def export_module(module: Any, side: int, path: Path) -> None:
    """Write a network in torch, of images (batch, 3, side, side), as an ONNX file."""
    import torch

    # The fast path of attention has no form in ONNX; a graph that fails goes to the screen, whole.
    slow = mock.patch("torch.backends.mha.get_fastpath_enabled", return_value=False)
    silent = mock.patch("torch._C._jit_onnx_log", create=True)
    with slow, silent, warnings.catch_warnings(), torch.inference_mode():
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


def _export_onnx(path: Path, output: Path, changes: dict[str, Any], name: str | None) -> float:
    """Copy an ONNX file with its changed preprocessing and one output."""
    declared = declared_preprocessing(path)
    missing = [field for field in REQUIRED if field not in changes]
    if declared is None and missing:
        raise BackboneError(
            f"{path}: declares no preprocessing; give its training's: --{', --'.join(missing)}"
        )
    chosen = Preprocessing(**changes) if declared is None else replace(declared, **changes)
    with _checked(output, str(path)) as exported:
        stamp_preprocessing(path, chosen, exported, output=name)
        return _check(exported, str(path))


@contextlib.contextmanager
def _checked(output: Path, name: str) -> Iterator[Path]:
    """A place for an ONNX file that becomes the output if nothing is raised."""
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(atomic.replacing(output))
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=output.parent))
        exported = Path(folder, "exported.onnx")
        try:
            yield exported
        except BackboneError as error:
            # ONNX Runtime names the file that it was given; the user knows another.
            raise BackboneError(str(error).replace(str(exported), name)) from error
        exported.replace(scratch)


def _check(path: Path, name: str, source: Run | None = None) -> float:
    """How far an ONNX file's features are from their source's, at most, on sample photographs."""
    from sklearn.datasets import load_sample_images

    backbone = load_backbone(str(path), device="cpu")
    network, preprocessing = backbone.network, backbone.preprocessing
    photographs = load_sample_images().images
    side = preprocessing.crop
    images = np.zeros((network.slots, 3, side, side), np.float32)
    for slot, image in enumerate(images):
        photograph = photographs[slot % len(photographs)]
        preprocessing.normalise(preprocessing.fit(photograph), image)
    found = network(images)
    expected = found if source is None else source(images)
    if expected.shape != found.shape:
        raise BackboneError(
            f"the file's features have shape {found.shape}; expected {expected.shape}, the source's"
        )
    if len(images) > 1 and (found[0] == found[1]).all():
        raise BackboneError(f"{name} gives two different photographs the same features")
    lengths = np.maximum(np.linalg.norm(expected, axis=1), 1e-12)
    difference = float((np.linalg.norm(found - expected, axis=1) / lengths).max())
    if not difference <= LARGEST_DIFFERENCE:
        raise BackboneError(
            f"the file's features differ from the source's by {difference:.2g} of their length; "
            f"expected at most {LARGEST_DIFFERENCE:.2g}"
        )
    if (found_as := class_scores(path, backbone.feature_dim)) is not None:
        warnings.warn(
            f"{name} seems to end in class scores, not in features: {found_as}; leave its last "
            "layer out (of an ONNX file, by --output-name)",
            SafleWarning,
            stacklevel=2,
        )
    return difference
