"""A network by its name in torchvision, timm or transformers -> torch, and its preprocessing.

A library is a function here and a row of `LIBRARIES`. It returns a module, normalised images
(batch, 3, crop, crop) -> features (batch, feature_dim), without the layer of class scores. Weights
are read, never executed.
"""

from __future__ import annotations

import math
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from safle.basics import name_some, reason_of, require_package
from safle.errors import BackboneError, SafleWarning
from safle_images.backbones.preprocessing import Preprocessing, times_255

Opened = tuple[Any, Preprocessing]
EXTRA = "safle-images[export]"
OUT_OF_TRAINING = ("aux1.", "aux2.", "AuxLogits.")
"""Layers of GoogLeNet and Inception that only their training uses."""
MOST_LEVELS = 2.0
"""Levels of 256 between two ways to prepare an image: a middle that begins a pixel later differs by
1."""


def open_torchvision(name: str, weights: Path | None = None) -> Opened:
    """A classification network of torchvision, with its published weights or those of a file."""
    models = require_package("torchvision", EXTRA, "exporting a network of torchvision").models
    names = models.list_models(module=models)
    if name not in names:
        near = get_close_matches(name, names) or names
        raise BackboneError(
            f"torchvision has no classification network {name!r}; expected {name_some(near)}"
        )
    published = models.get_model_weights(name).DEFAULT
    how = published.transforms()
    size_of = {"image_size": how.crop_size[0]} if name.startswith("vit_") else {}
    network = models.get_model(name, weights=None, **size_of)
    if hasattr(network, "transform_input"):
        # As torchvision sets it for these weights.
        network.transform_input = True
    head = take_head(network)
    state = read_weights(weights) if weights else _downloaded(published)
    # torchvision renames these layers of DenseNet's files, too.
    state = {re.sub(r"(denselayer\d+\.\w+)\.([12]\.)", r"\1\2", key): state[key] for key in state}
    fill(network, state, weights or published.url, [f"{head}.", *OUT_OF_TRAINING])
    return network, Preprocessing(
        resize=how.resize_size[0],
        crop=how.crop_size[0],
        interpolation=how.interpolation.value,
        mean=times_255(how.mean),
        deviation=times_255(how.std),
    )


def _downloaded(published: Any) -> dict[str, Any]:
    try:
        return dict(published.get_state_dict(progress=True, check_hash=True, weights_only=True))
    except Exception as error:  # of a network, a proxy, a disk or a damaged file
        raise BackboneError(
            f"{published.url} could not be downloaded ({reason_of(error)}); download it on another "
            "machine, and give it by --weights FILE"
        ) from error


def take_head(network: Any) -> str:
    """Replace a network's last layer with weights by the identity; return its name."""
    from torch import nn

    layers = [n for n, part in network.named_modules() if isinstance(part, nn.Linear | nn.Conv2d)]
    parent, _, own = layers[-1].rpartition(".")
    setattr(network.get_submodule(parent), own, nn.Identity())
    return layers[-1]


def read_weights(path: Path) -> dict[str, Any]:
    """A state dict from a file of torch or safetensors; nothing in it is executed."""
    torch = require_package("torch", EXTRA, "reading weights")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        # torch compresses nothing: a small file could claim all of the memory.
        if packed := zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if any(entry.compress_type for entry in archive.infolist()):
                    raise BackboneError("its entries are compressed")
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=packed)
        if not (isinstance(state, dict) and all(map(torch.is_tensor, state.values()))):
            raise BackboneError("it holds more than names and tensors")
    except Exception as error:  # torch and safetensors have no common base class
        raise BackboneError(
            f"{path}: not a file of weights ({reason_of(error)}); expected what "
            "torch.save(network.state_dict(), FILE) writes, or .safetensors"
        ) from error
    return state


def fill(network: Any, state: Mapping[str, Any], where: object, others: Iterable[str] = ()) -> None:
    """Put weights into a network; names that begin with ``others`` may be absent, or unknown."""
    spare = tuple(others)
    try:
        found = network.load_state_dict(state, strict=False)
        absent, unknown = (
            [name for name in names if not name.startswith(spare)]
            for names in (found.missing_keys, found.unexpected_keys)
        )
        if absent or unknown:
            kind, names = ("lacks", absent) if absent else ("also has", unknown)
            raise BackboneError(f"it {kind} {name_some(names, 3)}")
    except Exception as error:  # torch raises several types
        raise BackboneError(
            f"{where}: weights of another network ({reason_of(error)}); expected this one's"
        ) from error


def as_module(network: Any, features: Callable[[Any], Any]) -> Any:
    """A module of torch that holds a network and calls ``features``, images -> features."""
    import torch

    class Features(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return features(images)

    return Features().eval()


def open_timm(name: str, weights: Path | None = None, size: int | None = None) -> Opened:
    """A network of timm, as ``timm.create_model`` takes it: ``resnet18``, ``local-dir:FOLDER``.

    Parameters
    ----------
    size : pixels of its images, if not those of its training
    """
    timm = require_package("timm", EXTRA, "exporting a network of timm")
    try:
        network = timm.create_model(name, pretrained=weights is None, num_classes=0)
    except Exception as error:  # timm, the hub's client and torch: no common base class
        raise BackboneError(
            f"timm:{name} could not be loaded ({reason_of(error)}); check its name, or download it "
            "on another machine and give its folder: timm:local-dir:FOLDER"
        ) from error
    if weights:
        heads = network.pretrained_cfg.get("classifier") or ()
        heads = [heads] if isinstance(heads, str) else heads
        fill(network, read_weights(weights), weights, [f"{head}." for head in heads])
    # Networks of tokens fit their positions to a size; others take any.
    if size and hasattr(network, "set_input_size"):
        network.set_input_size(img_size=(size, size))
    config = timm.data.resolve_data_config({"img_size": size}, model=network)
    if config.get("crop_mode") == "border":
        text = f"timm:{name} pads images to a square; safle crops their middle"
        warnings.warn(text, SafleWarning, stacklevel=2)
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
        squash=config.get("crop_mode") == "squash",
    )


def open_hf(name: str) -> Opened:
    """An image model of transformers, by its name on the hub or its folder."""
    kinds = require_package("transformers", EXTRA, "exporting a network of transformers")
    kinds.utils.logging.disable_progress_bar()
    kinds.utils.logging.set_verbosity_error()
    try:
        config = kinds.AutoConfig.from_pretrained(name, trust_remote_code=False)
        scores = (config.architectures or [""])[0].endswith("ForImageClassification")
        kind = kinds.AutoModelForImageClassification if scores else kinds.AutoModel
        network, loaded = kind.from_pretrained(name, config=config, output_loading_info=True)
        processor = kinds.AutoImageProcessor.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # transformers, the hub's client, torch: no common base class
        raise BackboneError(
            f"hf:{name} could not be loaded ({reason_of(error)}); check its name, or download it "
            "on another machine and give its folder"
        ) from error
    absent = sorted(loaded["missing_keys"])
    if not all(key.startswith("pooler.") for key in absent):
        raise BackboneError(f"hf:{name} lacks weights: {name_some(absent, 3)}; download it again")
    if scores:
        take_head(network)

    def features(images: Any) -> Any:
        if hasattr(network, "get_image_features"):
            made = network.get_image_features(pixel_values=images)
            return getattr(made, "pooler_output", made)
        made = network(pixel_values=images)
        if scores:
            return made.logits
        # A pooler without weights would be noise: what it pools is the first token.
        pooled = None if absent else getattr(made, "pooler_output", None)
        return made.last_hidden_state[:, 0] if pooled is None else pooled.flatten(1)

    return as_module(network.float(), features), hf_preprocessing(processor, f"hf:{name}")


def hf_preprocessing(processor: Any, where: str) -> Preprocessing:
    """The preprocessing that an image processor of transformers applies, checked on an image."""
    from PIL import Image

    found = processor.to_dict()
    try:
        crop = found["crop_size"]["height"] if found.get("do_center_crop") else None
        resize, squash = found["size"].get("shortest_edge"), False
        if resize is None:
            resize, squash = found["size"]["height"], True
        elif crop is None:
            # ConvNeXt's: the middle of a larger image if the image is small, else all of it.
            crop, squash = resize, resize >= 384
            resize = resize if squash else int(resize / found["crop_pct"])
        factor = found["rescale_factor"] if found["do_rescale"] else 1.0
        moments = [found["image_mean"], found["image_std"]] if found["do_normalize"] else [[0], [1]]
        mean, deviation = (np.array(values) / factor + np.zeros(3) for values in moments)
        preprocessing = Preprocessing(
            resize=resize,
            crop=crop or resize,
            interpolation=Image.Resampling(found["resample"]).name.lower(),
            mean=tuple(mean.tolist()),
            deviation=tuple(deviation.tolist()),
            squash=squash,
        )
        rows, columns = np.mgrid[0.5:300, 0.5:400]
        ramps = np.stack([rows / 300, columns / 400, (rows + columns) / 700], axis=2)
        pixels = (256 * ramps).astype(np.uint8)
        theirs = processor(images=Image.fromarray(pixels), return_tensors="np")["pixel_values"][0]
        ours = np.empty((3, preprocessing.crop, preprocessing.crop), np.float32)
        preprocessing.normalise(preprocessing.fit(pixels), ours)
        difference = (np.abs(theirs - ours).mean((1, 2)) * deviation).max()
        if not difference < MOST_LEVELS:
            raise ValueError(f"its image differs by {difference:.3g} of 256 levels")
    except (KeyError, ValueError, TypeError) as error:
        raise BackboneError(
            f"{where}: {found.get('image_processor_type')} prepares images in a way that safle "
            f"does not ({reason_of(error)}); expected sizes of squares, mean and deviation"
        ) from error
    return preprocessing


LIBRARIES = {"torchvision": open_torchvision, "timm": open_timm, "hf": open_hf}
