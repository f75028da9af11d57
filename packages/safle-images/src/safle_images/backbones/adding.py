"""Any network -> a backbone by name: one ONNX file with all that belongs to it, checked.

Preprocessing is stamped into the file's metadata: whoever has the file has the backbone. It is
exported once and then handed to every client, since another version of torch would write other
bytes, which are another source of features.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.basics import atomic
from safle.basics.optional import require
from safle.basics.texts import reason_of
from safle.errors import BackboneError
from safle_images.backbones.catalogue import CARDS
from safle_images.backbones.extraction import extract
from safle_images.backbones.loading import (
    DECLARED,
    Backbone,
    external_files,
    load_backbone,
)
from safle_images.backbones.networks import OnnxNetwork
from safle_images.backbones.origins import Origin, open_hugging_face, open_timm
from safle_images.backbones.preprocessing import Preprocessing
from safle_images.backbones.weights import added_file, export_module
from safle_images.readers import Record

LARGEST_DIFFERENCE = 1e-3
"""Of features for the same input, as a share of their length: ONNX Runtime rounds otherwise."""
LARGEST_WITH_PREPARING = 0.05
"""With the library's own preprocessing: it may round pixels at another place."""
LARGEST_MODEL = 2**31 - 1
Images = NDArray[np.float32]
Run = Callable[[Images], Images]


@dataclass(frozen=True, eq=False)
class Added:
    """A backbone that was added.

    Attributes
    ----------
    path : the file, to hand to every client
    difference : from the source, as a share of the features' length, on sample images
    """

    name: str
    path: Path
    backbone: Backbone
    difference: float


def add_backbone(
    what: str,
    *,
    name: str | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Added:
    """Make ``timm:NAME``, ``hf:NAME`` or an ONNX file a backbone that is known by a name.

    Parameters
    ----------
    name : what it is called from now on; by default the last part of ``what``
    preprocessing : fields of `Preprocessing` that differ from what is declared
    note : called with remarks for the user

    Raises
    ------
    BackboneError
        It cannot be loaded or exported, or differs from its source on sample images.

    Examples
    --------
    >>> add_backbone("resnet.pth")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.BackboneError: 'resnet.pth' is no backbone; expected timm:NAME, hf:NAME or ...
    """
    kind, _, inside = what.partition(":")
    known = name or default_name(inside or Path(what).name.removesuffix(".onnx"))
    if known in CARDS or not re.fullmatch(r"[\w.-]{1,100}", known):
        raise BackboneError(f"{known!r} cannot be the name of a new backbone; choose one: --name")
    target = added_file(known)
    target.parent.mkdir(parents=True, exist_ok=True)
    changes = dict(preprocessing or {})
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder, "made.onnx")
        if kind in ("timm", "hf"):
            origin = (open_timm if kind == "timm" else open_hugging_face)(inside)
            if origin.whole:
                note(f"{what} squashes or pads images to a square; here their middle is taken")
            chosen = replace(origin.preprocessing, **changes)
            difference = export_backbone(origin.module, chosen, made)
            if not changes:
                difference = _compare_prepared(origin, load_backbone(str(made)))
        elif what.lower().endswith(".onnx"):
            difference = _copy_stamped(Path(what), changes, made)
        else:
            raise BackboneError(
                f"{what!r} is no backbone; expected timm:NAME, hf:NAME or FILE.onnx"
            )
        with atomic.replacing(target) as scratch:
            made.replace(scratch)
    return Added(known, target, load_backbone(str(target)), difference)


def default_name(text: str) -> str:
    """A name as commands take it.

    >>> default_name("facebook/dinov2-small"), default_name("a b/")
    ('dinov2-small', 'a_b')
    """
    return re.sub(r"[^\w.-]", "_", text.rstrip("/").rpartition("/")[2])


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
        with torch.inference_mode():
            export_module(module, preprocessing.crop, path)
    except Exception as error:  # whatever a network's code leads torch to
        raise BackboneError(f"torch cannot export the network ({reason_of(error)})") from error
    _stamp(path, {DECLARED: preprocessing.to_json()}, path)
    return _compare_networks(_in_torch(module), load_backbone(str(path)))


def _in_torch(module: Any) -> Run:
    torch = require("torch", "safle-images[export]", "running a network")

    def run(images: Images) -> Images:
        with torch.inference_mode():
            found: Images = module(torch.from_numpy(images)).float().numpy()
        return found

    return run


def _copy_stamped(path: Path, changes: dict[str, Any], made: Path) -> float:
    """An ONNX file as it is if it says all, else the same network with what was said about it."""
    backbone = load_backbone(str(path), preprocessing=changes)
    original = OnnxNetwork(path, where=str(path))
    if DECLARED in original.metadata and not changes and not external_files(path):
        # Whoever uses the file itself has the same source of features.
        atomic.write_bytes(made, path.read_bytes())
    else:
        _stamp(path, {DECLARED: backbone.preprocessing.to_json()}, made)
    return _compare_networks(original, load_backbone(str(made)))


def _stamp(path: Path, entries: dict[str, str], target: Path) -> None:
    """Write an ONNX file with these entries in its metadata, all weights inside."""
    onnx = require("onnx", "safle-images", "writing an ONNX file")
    model = onnx.load(path)
    if model.ByteSize() > LARGEST_MODEL:
        raise BackboneError(
            f"{path} has more than 2 GB of weights, which one ONNX file cannot hold"
        )
    kept = {entry.key: entry.value for entry in model.metadata_props}
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, kept | entries)
    onnx.save(model, target)


def _compare_networks(source: Run, backbone: Backbone) -> float:
    """How far two networks are apart on the same prepared photographs."""
    network, preprocessing = backbone.network, backbone.preprocessing
    pixels = _photographs()
    side = preprocessing.crop
    images = np.zeros((network.slots, 3, side, side), np.float32)
    for at, image in enumerate(images):
        preprocessing.normalise(preprocessing.fit(pixels[at % len(pixels)]), image)
    expected, found = source(images), network(images)
    if len(images) > 1 and (found[0] == found[1]).all():
        raise BackboneError("it gives two different photographs the same features")
    return _checked(_distance(expected, found), LARGEST_DIFFERENCE, "for the same input")


def _compare_prepared(origin: Origin, backbone: Backbone) -> float:
    """How far features are apart from those of the library, with its own preprocessing."""
    from PIL import Image

    pixels = _photographs()
    prepared = np.stack([origin.prepare(Image.fromarray(photograph)) for photograph in pixels])
    records = [Record(str(at), None, photograph) for at, photograph in enumerate(pixels)]
    found = np.concatenate([batch.features for batch in extract(records, backbone)])
    distance = _distance(_in_torch(origin.module)(prepared), found)
    return _checked(distance, LARGEST_WITH_PREPARING, "with its own preprocessing")


def _photographs() -> list[NDArray[np.uint8]]:
    """Squares of two that come with scikit-learn, and their mirror images."""
    from sklearn.datasets import load_sample_images

    # Squares: where the middle of a longer one begins, libraries differ by half a pixel.
    found = [photograph[:, : len(photograph)] for photograph in load_sample_images().images]
    mirrored = [photograph[:, ::-1] for photograph in found]
    return [np.ascontiguousarray(photograph) for photograph in (*found, *mirrored)]


def _distance(expected: Images, found: Images) -> float:
    if expected.shape != found.shape:
        raise BackboneError(f"it gives {found.shape} numbers; the source gives {expected.shape}")
    lengths = np.linalg.norm(expected, axis=1)
    return float((np.linalg.norm(found - expected, axis=1) / np.maximum(lengths, 1e-12)).max())


def _checked(difference: float, most: float, how: str) -> float:
    if not difference <= most:
        raise BackboneError(
            f"its features differ from the source's by {difference:.2g} of their length {how}; "
            f"expected at most {most:.2g}"
        )
    return difference
