"""What every encoder is: data in a file, with a fingerprint, that maps features to codes.

A further encoder is one new subclass: it names its ``kind``, says its settings and
arrays, restores itself from them and encodes. Nothing else changes.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from safle._internal import atomic
from safle.encoders.codes import Codes, Layout
from safle.encoders.features import as_features
from safle.encoders.source import as_source
from safle.errors import EncoderMismatch, SafleError, WireError

FORMAT = "safle-encoder-1"
MAX_FILE_BYTES = 1 << 28
"""An encoder holds thresholds, not data: anything larger is not one."""

Arrays = dict[str, NDArray[Any]]

_kinds: dict[str, type[Encoder]] = {}


class Made(Protocol):
    """What an encoder's codes became: statistics, or a solution."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def layout(self) -> Layout: ...


class Encoder(ABC):
    """Features -> codes."""

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        _kinds[cls.kind] = cls

    feature_dim: int
    source: str = ""
    """What makes the features: empty, or a backbone's name, weights and preprocessing."""

    @cached_property
    @abstractmethod
    def layout(self) -> Layout:
        """The code space."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Float64 arrays by name."""

    @classmethod
    @abstractmethod
    def restore(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        """The inverse of `settings` and `arrays`; raises a `SafleError` on nonsense."""

    @abstractmethod
    def encode_checked(self, features: NDArray[Any]) -> Codes:
        """Codes of features that `as_features` has passed."""

    @abstractmethod
    def plausible_features(
        self, samples: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Features as the calibration expects them, each drawn on its own.

        (samples, feature_dim); for rehearsals, where there are no features yet.
        """

    def encode(self, features: ArrayLike) -> Codes:
        """Codes of features, (samples, feature_dim)."""
        return self.encode_checked(as_features(features, self.feature_dim))

    def with_source(self, source: str) -> Self:
        """The same encoder for the features of one source only; its fingerprint differs."""
        other = copy.copy(self)
        other.source = as_source(source)
        other.__dict__.pop("fingerprint", None)
        return other

    def require(self, made: Made) -> None:
        """Raise `EncoderMismatch` unless this encoder made ``made``."""
        if self.fingerprint != made.fingerprint:
            raise EncoderMismatch(
                f"it was made with encoder {made.fingerprint[:12]}…, not with "
                f"{self.fingerprint[:12]}…; use the federation's encoder file"
            )
        if self.layout != made.layout:
            raise EncoderMismatch(
                f"it claims encoder {self.fingerprint[:12]}… but has another layout of codes"
            )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over kind, settings, source and arrays: equal if and only if the codes are."""
        digest = hashlib.sha256(encoder_header(self).encode())
        for name, array in sorted(self.arrays().items()):
            digest.update(f"\n{name} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoder) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def to_bytes(self) -> bytes:
        """The encoder as a safetensors file."""
        arrays = {
            name: np.ascontiguousarray(array, dtype=np.float64)
            for name, array in self.arrays().items()
        }
        return to_safetensors(arrays, metadata={"safle": encoder_header(self)})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the encoder file, atomically."""
        atomic.write_bytes(path, self.to_bytes())


def encoder_header(encoder: Encoder) -> str:
    """Kind, settings and source as canonical JSON; encoders without a source do not mention it."""
    settings = encoder.settings() | ({"source": encoder.source} if encoder.source else {})
    content = {"format": FORMAT, "kind": encoder.kind, "settings": settings}
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def restore_encoder(header: str, arrays: Arrays) -> Encoder:
    """An encoder from its header and arrays; `WireError` if they do not make one."""
    try:
        content = json.loads(header)
        if content["format"] != FORMAT:
            raise WireError(f"encoder format {content['format']!r}; this safle reads {FORMAT!r}")
        return restore_kind(content["kind"], content["settings"], arrays)
    except WireError:
        raise
    except (SafleError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise WireError(f"not a valid encoder: {error!r}") from error


def restore_kind(kind: Any, settings: Any, arrays: Arrays) -> Encoder:
    """An encoder of a kind by name."""
    if kind not in _kinds:
        raise WireError(
            f"unknown encoder kind {kind!r}; this safle knows {', '.join(sorted(_kinds))}: "
            "it may need an upgrade"
        )
    for name, array in arrays.items():
        if array.dtype != np.float64 or not np.isfinite(array).all():
            raise WireError(f"encoder array {name!r} is not finite float64")
    encoder = _kinds[kind].restore(settings, arrays)
    return encoder.with_source(settings["source"]) if settings.get("source") else encoder


def load_encoder(path: str | os.PathLike[str]) -> Encoder:
    """Read an encoder file; nothing in it is executed."""
    size = Path(path).stat().st_size
    if size > MAX_FILE_BYTES:
        raise WireError(f"{path} has {size} bytes; an encoder file has at most {MAX_FILE_BYTES}")
    try:
        with safe_open(path, framework="numpy") as file:
            header = (file.metadata() or {}).get("safle", "")
            if not header or json.loads(header).get("format") != FORMAT:
                raise WireError(f"{path} is a safetensors file but not a safle encoder")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, AttributeError, TypeError, RecursionError) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(f"{path} is not a safle encoder: {error}") from error
    return restore_encoder(header, arrays)
