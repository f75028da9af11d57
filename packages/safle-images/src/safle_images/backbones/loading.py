"""A name or an ONNX file -> a backbone, ready to run and with its identity."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safle.basics.optional import require
from safle.errors import BackboneError
from safle_images.backbones.catalogue import CARDS, Card, card_of
from safle_images.backbones.networks import Network, OnnxNetwork, TorchNetwork, gpu, settle_slots
from safle_images.backbones.preprocessing import Preprocessing
from safle_images.backbones.weights import (
    added_file,
    build,
    digest_of,
    export_network,
    find_added,
    get_weights,
)

DECLARED = "safle.preprocessing"
"""Under this name an ONNX file's metadata may declare its preprocessing, as JSON."""
LARGEST_ONNX = 2 * 2**30


@dataclass(frozen=True, eq=False)
class Backbone:
    """Images -> features.

    Attributes
    ----------
    name : as in the catalogue, or "onnx"
    source : name, SHA-256 of the weights and preprocessing: equal only if the features are
    """

    name: str
    source: str
    preprocessing: Preprocessing
    network: Network
    feature_dim: int


def load_backbone(
    name: str,
    *,
    weights: Path | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    source: str = "",
    device: str = "auto",
) -> Backbone:
    """A backbone by its name in the catalogue, one that was added, or from an ``.onnx`` file.

    Parameters
    ----------
    weights : a file instead of the published weights
    preprocessing : fields of `Preprocessing` that differ from what is declared
    source : an encoder's; its preprocessing is used, unless ``preprocessing`` says otherwise
    device : "cpu" (ONNX Runtime), "gpu" (torch), or "auto": a GPU where there is one

    Examples
    --------
    >>> load_backbone("efficientnet_lite0").feature_dim  # doctest: +SKIP
    1280
    >>> load_backbone("resnet7")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.BackboneError: no backbone 'resnet7'; expected one of efficientnet_lite0, ...
    """
    require("PIL", "safle-images", "reading images")
    changes = dict(preprocessing or {})
    if name.lower().endswith(".onnx"):
        if weights is not None:
            raise BackboneError(f"{name} has its weights inside; leave --weights out")
        return _load_onnx(Path(name), changes, source)
    if name not in CARDS and added_file(name).is_file():
        return _load_onnx(added_file(name), changes, source)
    card = card_of(name)
    if "crop" in changes:
        raise BackboneError(f"the input of {name} is {card.preprocessing.crop} pixels; keep --crop")
    path, digest = get_weights(card) if weights is None else (weights, digest_of(weights))
    chosen = _prepared(card.preprocessing, changes, source)
    network = _run_on(card, path, digest, device)
    return Backbone(name, source_of(name, digest, chosen), chosen, network, card.feature_dim)


def name_in(source: str) -> str | None:
    """What to load for features of a source; None if it is not on this machine.

    A name of the catalogue, or of an added file with these weights.

    Examples
    --------
    >>> name_in("mobilenet_v2 weights=b0353104")
    'mobilenet_v2'
    """
    name, _, rest = source.partition(" ")
    if name in CARDS:
        return name
    digest = rest.partition(" ")[0].removeprefix("weights=")
    added = find_added() if name == "onnx" else {}
    return next((known for known, path in added.items() if digest_onnx(path) == digest), None)


def source_of(name: str, digest: str, preprocessing: Preprocessing) -> str:
    """What identifies features: the network, its weights, and what it is fed."""
    return f"{name} weights={digest} {preprocessing}"


def _run_on(card: Card, weights: Path, digest: str, device: str) -> Network:
    found = None if device == "cpu" else gpu()
    if device == "gpu" and found is None:
        raise BackboneError("no GPU that torch can use was found; leave --device out")
    if found is not None:
        return TorchNetwork(build(card, weights), found)
    path = export_network(card, weights, digest)
    return OnnxNetwork(path, where=f"{card.name} ({path})")


def _prepared(declared: Preprocessing, changes: dict[str, Any], source: str) -> Preprocessing:
    wanted = None if changes else Preprocessing.from_source(source)
    # A source has ten digits of each number: what is declared has them all.
    if wanted is None or str(wanted) == str(declared):
        return replace(declared, **changes)
    return wanted


def _load_onnx(path: Path, changes: dict[str, Any], source: str) -> Backbone:
    if path.stat().st_size > LARGEST_ONNX:
        raise BackboneError(f"{path} is larger than an ONNX file can be (2 GB)")
    # First: ONNX Runtime would read whatever files the model names.
    digest = digest_onnx(path)
    network = OnnxNetwork(path, where=str(path))
    chosen = _declared(path, network, changes, source)
    if network.side not in (None, chosen.crop):
        raise BackboneError(
            f"{path}: its input has {network.side} pixels, but images would be cropped to "
            f"{chosen.crop}; say --crop {network.side}"
        )
    made_by = source_of("onnx", digest, chosen)
    return Backbone("onnx", made_by, chosen, network, settle_slots(network, chosen.crop))


def digest_onnx(path: Path) -> str:
    """SHA-256 of an ONNX file and of every file that its weights are in.

    Large models, and all that torch exports by default, keep tensors in files of their own
    beside the model: other weights there are another backbone.
    """
    digest = digest_of(path)
    parts = [(name, digest_of(path.parent / name)) for name in external_files(path)]
    if not parts:
        return digest
    return hashlib.sha256(json.dumps([digest, *parts]).encode()).hexdigest()


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
    onnx = require("onnx", "safle-images", "reading an ONNX file")
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


def _declared(
    path: Path, network: OnnxNetwork, changes: dict[str, Any], source: str
) -> Preprocessing:
    text = network.metadata.get(DECLARED)
    if text is not None:
        return _prepared(Preprocessing.from_json(text, where=str(path)), changes, source)
    wanted = Preprocessing.from_source(source)
    if wanted is not None:
        return replace(wanted, **changes)
    fields = Preprocessing.__dataclass_fields__
    missing = [name for name in fields if name not in changes]
    if missing:
        raise BackboneError(
            f"{path}: declares no preprocessing; say how its images were prepared with "
            f"--{', --'.join(missing)}, once for all with 'safle backbones add {path.name}'"
        )
    return Preprocessing(**changes)
