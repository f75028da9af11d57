"""The default backbone or an ONNX file -> a backbone, ready to run and with its identity."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from safle.errors import BackboneError
from safle_images.backbones.default import DEFAULT, PREPROCESSING, SOURCE, export_default
from safle_images.backbones.networks import OnnxNetwork, settle_slots
from safle_images.backbones.preprocessing import Preprocessing

DECLARED = "safle.preprocessing"
"""Under this name an ONNX file's metadata declare its preprocessing, as JSON."""
LARGEST_ONNX = 2**31 - 1


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


def load_backbone(name: str, *, device: str = "auto") -> Backbone:
    """The default backbone by its name, or that of an ``.onnx`` file.

    Parameters
    ----------
    device : "cpu", "gpu", or "auto": a GPU where ONNX Runtime has one

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
            "timm:NAME -o FILE.onnx' makes one of any network of timm"
        )
    else:
        # First: ONNX Runtime would read whatever files the model names.
        others, declared = external_files(path), declared_preprocessing(path)
        if declared is None or others:
            found = f"has weights in {others[0]!r}" if others else "declares no preprocessing"
            raise BackboneError(
                f"{path}: {found}; expected one file that says how its images are prepared: make "
                f"it once for all with 'safle backbones export {path} --resize ... -o FILE.onnx'"
            )
        source, preprocessing = f"onnx weights={digest_of(path)} {declared}", declared
    network = OnnxNetwork(path, where=str(path), device=device)
    if network.side not in (None, preprocessing.crop):
        raise BackboneError(
            f"{path}: its input has {network.side} pixels, but images would be cropped to "
            f"{preprocessing.crop}; export it with --crop {network.side}"
        )
    dim = settle_slots(network, preprocessing.crop)
    return Backbone(DEFAULT if name == DEFAULT else "onnx", source, preprocessing, network, dim)


def declared_preprocessing(path: Path) -> Preprocessing | None:
    """What an ONNX file's metadata say."""
    declared = {entry.key: entry.value for entry in _read_onnx(path).metadata_props}
    text = declared.get(DECLARED)
    return None if text is None else Preprocessing.from_json(text, where=str(path))


def stamp_preprocessing(path: Path, preprocessing: Preprocessing, target: Path) -> None:
    """Write an ONNX file with a declared preprocessing, all weights inside."""
    external_files(path)
    model = onnx.load(path)
    if model.ByteSize() > LARGEST_ONNX:
        raise BackboneError(f"{path} has more than 2 GB of weights, which one file cannot hold")
    kept = {entry.key: entry.value for entry in model.metadata_props}
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, kept | {DECLARED: preprocessing.to_json()})
    onnx.save(model, target)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def external_files(path: Path) -> list[str]:
    """The names of the files that tensors are in, each a regular file beside the model."""
    outside = (t for t in _tensors(_read_onnx(path)) if t.data_location)
    names = {e.value for tensor in outside for e in tensor.external_data if e.key == "location"}
    for name in names:
        place = path.parent / name
        # A name and nothing more: neither a folder, a way out, nor a link to elsewhere.
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
