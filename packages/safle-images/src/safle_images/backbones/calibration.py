"""Moments of a backbone's features over public images: encoders without a sample or a round.

Those of the catalogue are files beside this module; an ONNX file may carry its own, in its
metadata. Whoever has photographs of another kind than these should calibrate by histograms.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from safle.basics.tensors import read_tensors, write_tensors
from safle.encoders.calibration import DeclaredMoments
from safle.errors import BackboneError, InvalidInput
from safle_images.backbones.catalogue import CARDS
from safle_images.backbones.extraction import Batch
from safle_images.backbones.loading import CALIBRATED, load_backbone
from safle_images.backbones.networks import OnnxNetwork

FOLDER = Path(__file__).parent / "calibrations"
FEWEST = 2


@dataclass(frozen=True, eq=False)
class ImageMoments:
    """Mean and deviation of every feature over some images.

    Attributes
    ----------
    mean, deviation : float32, (feature_dim,)
    images : how many there were
    """

    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]
    images: int

    @classmethod
    def of(cls, batches: Iterable[Batch]) -> Self:
        """The moments of what `extract` gives, without keeping it.

        Examples
        --------
        >>> rows = np.array([[1, 5], [3, 5]], np.float32)
        >>> ImageMoments.of([Batch(2, rows, ["a", "b"], [None, None], [])]).mean.tolist()
        [2.0, 5.0]
        """
        count, total, squares = 0, np.zeros(1), np.zeros(1)
        for batch in batches:
            rows = batch.features.astype(np.float64)
            count += len(rows)
            total = total + rows.sum(axis=0)
            squares = squares + (rows * rows).sum(axis=0)
        if count < FEWEST:
            raise InvalidInput(f"{count} images could be read; expected at least {FEWEST}")
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - mean * mean, 0))
        return cls(mean.astype(np.float32), deviation.astype(np.float32), count)

    def to_json(self) -> str:
        """As an ONNX file carries it, under ``safle.calibration``."""
        numbers = {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}
        return json.dumps({"images": self.images, **numbers})

    @classmethod
    def from_json(cls, text: str, *, where: str) -> Self:
        """The inverse of `to_json`."""
        try:
            found = json.loads(text)
            mean, deviation = (np.array(found[n], np.float32) for n in ("mean", "deviation"))
            moments = cls(mean, deviation, int(found["images"]))
            moments.calibration()
        except (ValueError, TypeError, KeyError, InvalidInput) as error:
            raise BackboneError(f"{where}: its calibration is not valid ({error})") from None
        return moments

    def calibration(self) -> DeclaredMoments:
        """What an encoder is made of."""
        return DeclaredMoments(self.mean.astype(np.float64), self.deviation.astype(np.float64))


def write_shipped(name: str, source: str, moments: ImageMoments) -> None:
    """Put the moments of a backbone of the catalogue into the package."""
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps({"source": source, "images": moments.images})
    arrays = {"mean": moments.mean, "deviation": moments.deviation}
    (FOLDER / f"{name}.safetensors").write_bytes(write_tensors(text, arrays))


def read_shipped(name: str) -> tuple[ImageMoments, str]:
    """The moments of a backbone of the catalogue, and the source of features that they are of.

    Examples
    --------
    >>> moments, source = read_shipped("mobilenet_v2")
    >>> len(moments.mean), source[:20]
    (1280, 'mobilenet_v2 weights')
    >>> read_shipped("vgg11")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.BackboneError: no calibration of vgg11 is shipped; ...
    """
    path = FOLDER / f"{name}.safetensors"
    if not path.is_file():
        raise BackboneError(
            f"no calibration of {name} is shipped; calibrate by a public sample (--sample) or the "
            "clients' histograms (--histogram), with --features-source"
        )
    text, arrays = read_tensors(path.read_bytes())
    about = json.loads(text)
    return ImageMoments(arrays["mean"], arrays["deviation"], about["images"]), about["source"]


def calibration_of(name: str) -> tuple[DeclaredMoments, str]:
    """What encoders for a backbone are made of without any data, and the source of its features.

    Parameters
    ----------
    name : of the catalogue, of a backbone that was added, or an ``.onnx`` file

    Raises
    ------
    BackboneError
        No calibration is shipped for it, or is in its file.
    """
    if name in CARDS:
        moments, source = read_shipped(name)
        return moments.calibration(), source
    backbone = load_backbone(name)
    assert isinstance(backbone.network, OnnxNetwork), "only the catalogue runs elsewhere"
    text = backbone.network.metadata.get(CALIBRATED)
    if text is None:
        raise BackboneError(
            f"{name} carries no calibration; add it again with public images ('safle backbones add "
            "... --images FOLDER'), or calibrate by --sample or --histogram"
        )
    moments = ImageMoments.from_json(text, where=name)
    if len(moments.mean) != backbone.feature_dim:
        raise BackboneError(
            f"{name}: its calibration is of {len(moments.mean)} features, but it gives "
            f"{backbone.feature_dim}; add it again"
        )
    return moments.calibration(), backbone.source
