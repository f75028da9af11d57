"""The default backbone or an ONNX file -> a backbone, ready to run and with its identity.

A matrix product may add up in another order when its shape changes. Every call of a network
therefore has the same number of images, filled up with zeros, so that an image's features depend
on its pixels alone: not on its batch, nor on the images beside it.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from safle.errors import BackboneError
from safle_images.backbones.default import DEFAULT, PREPROCESSING, SOURCE, export_default
from safle_images.backbones.devices import CPU, open_session
from safle_images.backbones.preprocessing import Preprocessing

DECLARED = "safle.preprocessing"
"""The metadata of an ONNX file declare its preprocessing under this name, as JSON."""
LARGEST_ONNX = 2**31 - 1
CPU_BATCH = 8
"""Larger batches leave the cache and are not faster."""
CARD_BATCH = 64
"""Of images of 224 pixels; of larger ones fewer, so that a call fits on a card of 8 GB."""
Floats = NDArray[np.float32]


class OnnxNetwork:
    """A network in ONNX Runtime; a call runs on its caller's thread alone.

    Two calls on a thread each are faster than one call on two threads.

    Attributes
    ----------
    device : where it runs: "cpu", or "gpu:N"
    slots : images in every call
    used : how many slots, from the first on, may hold images
    output : the name of the features in the file
    """

    def __init__(
        self, model: Path, *, where: str, device: str = CPU, half: bool = False, side: int = 224
    ) -> None:
        self._session, self.device = open_session(model, where=where, device=device, half=half)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self._where = where
        self._input = _image_input(inputs, where)
        names = [output.name for output in outputs]
        self.output = "features" if "features" in names else names[0]
        declared = inputs[0].shape[0]
        fitting = max(1, CARD_BATCH * 224**2 // max(side, 224) ** 2)
        default = CPU_BATCH if self.device == CPU else fitting
        self.slots = self.used = declared if isinstance(declared, int) else default

    @property
    def side(self) -> int | None:
        """Pixels of the input's sides, if the file declares them."""
        declared = self._session.get_inputs()[0].shape[2]
        return declared if isinstance(declared, int) else None

    def __call__(self, images: Floats) -> Floats:
        """Features, (slots, feature_dim), of images, (slots, 3, side, side)."""
        try:
            (output,) = self._session.run([self.output], {self._input: images})
        except Exception as error:
            raise BackboneError(
                f"{self._where}: ONNX Runtime failed: {str(error)[:300]}"
            ) from error
        features = np.asarray(output)
        if features.ndim > 2 and features.size == features.shape[0] * features.shape[1]:
            features = features.reshape(features.shape[:2])
        if features.ndim != 2 or len(features) != len(images) or features.dtype.kind != "f":
            raise BackboneError(
                f"{self._where}: output {self.output!r} is {features.dtype} with shape "
                f"{features.shape}; expected one row of numbers per image: pool it in the file"
            )
        return features.astype(np.float32, copy=False)


def settle_slots(network: OnnxNetwork, side: int) -> int:
    """Test whether a network treats all slots alike; return its number of features.

    If it does not, only the first slot is used, so that features do not depend on other images.
    """
    noise = np.random.default_rng(0).standard_normal((3, side, side), np.float32)
    features = network(np.broadcast_to(noise, (network.slots, *noise.shape)).copy())
    alone = np.zeros((network.slots, *noise.shape), np.float32)
    alone[0] = noise
    if (features != network(alone)[:1]).any():
        network.used = 1
    return int(features.shape[1])


def _image_input(inputs: list[Any], where: str) -> str:
    """The name of the only input, which must take images; an open size is a name or None."""
    shape = inputs[0].shape if len(inputs) == 1 and inputs[0].type == "tensor(float)" else []
    if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3):
        found = ", ".join(f"{node.name} {node.type} {node.shape}" for node in inputs)
        raise BackboneError(
            f"{where}: its inputs are {found or 'none'}; expected one float tensor "
            "(batch, 3, height, width)"
        )
    return str(inputs[0].name)


@dataclass(frozen=True, eq=False)
class Backbone:
    """Images -> features.

    Attributes
    ----------
    name : the default's, or "onnx"
    source : name, SHA-256 of the weights and preprocessing: equal only if the features are
    """

    name: str
    source: str
    preprocessing: Preprocessing
    network: OnnxNetwork
    feature_dim: int


def load_backbone(name: str, *, device: str = "auto", half: bool = False) -> Backbone:
    """The default backbone by its name, or that of an ``.onnx`` file.

    Parameters
    ----------
    device : "cpu", "gpu", "gpu:N", or "auto": a card that runs, else the processor
    half : 16 bits on a card, which is another source: features differ in the third digit

    Examples
    --------
    >>> load_backbone("efficientnet_lite0").feature_dim  # doctest: +SKIP
    1280
    >>> load_backbone("resnet18")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.BackboneError: no backbone 'resnet18'; expected efficientnet_lite0 or a file: ...
    """
    path = Path(name)
    if name == DEFAULT:
        path, source, preprocessing = export_default(), SOURCE, PREPROCESSING
    elif path.suffix.lower() != ".onnx" or not path.is_file():
        raise BackboneError(
            f"no backbone {name!r}; expected {DEFAULT} or a file: 'safle backbones export "
            "torchvision:NAME -o FILE.onnx' makes one, also of timm:NAME and hf:NAME"
        )
    else:
        # Checked first: ONNX Runtime would read any file that the model names.
        external = external_files(path)
        declared = declared_preprocessing(path)
        if declared is None or external:
            found = f"has weights in {external[0]!r}" if external else "declares no preprocessing"
            raise BackboneError(
                f"{path}: {found}; expected one file that declares its preprocessing: make "
                f"one with 'safle backbones export {path} --resize ... -o FILE.onnx'"
            )
        source, preprocessing = f"onnx weights={digest_of(path)} {declared}", declared
    side = preprocessing.crop
    network = OnnxNetwork(path, where=str(path), device=device, half=half, side=side)
    if network.side not in (None, side):
        raise BackboneError(
            f"{path}: its input has {network.side} pixels, but images would be cropped to "
            f"{side}; export it with --crop {network.side}"
        )
    dim = settle_slots(network, side)
    source += " half" if half else ""
    return Backbone(DEFAULT if name == DEFAULT else "onnx", source, preprocessing, network, dim)


def declared_preprocessing(path: Path) -> Preprocessing | None:
    """The preprocessing in an ONNX file's metadata; None if there is none."""
    declared = {entry.key: entry.value for entry in _read_onnx(path).metadata_props}
    text = declared.get(DECLARED)
    return None if text is None else Preprocessing.from_json(text, where=str(path))


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def external_files(path: Path) -> list[str]:
    """The names of the files beside a model that hold its weights; other places are refused."""
    outside = (t for t in _tensors(_read_onnx(path)) if t.data_location)
    names = {e.value for tensor in outside for e in tensor.external_data if e.key == "location"}
    for name in names:
        place = path.parent / name
        # A path or a link could lead to any file of the machine.
        if Path(name).name != name or place.is_symlink() or not place.is_file():
            raise BackboneError(
                f"{path}: has weights in {name!r}, which is not a regular file beside it; expected "
                "all its files in one folder: copy them there, or save it with its weights inside"
            )
    return sorted(names)


def _read_onnx(path: Path) -> Any:
    if path.stat().st_size > LARGEST_ONNX:
        raise BackboneError(f"{path} is larger than an ONNX file can be (2 GB)")
    try:
        return onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's errors depend on how it was built
        raise BackboneError(f"{path}: not an ONNX file ({error}); export it again") from error


def _tensors(message: Any) -> Iterator[Any]:
    """Every tensor anywhere in a protobuf message: initializers, attributes, functions."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                yield from _tensors(part)
