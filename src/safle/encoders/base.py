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

from safle._internal import atomic
from safle._internal.tensors import Arrays, read_tensors, write_tensors
from safle.encoders.codes import Codes, Layout
from safle.encoders.features import as_features
from safle.encoders.source import as_source
from safle.errors import EncoderMismatch, SafleError, WireError

FORMAT = "safle-encoder-2"
MAX_FILE_BYTES = 1 << 28
"""An encoder holds thresholds, not data: anything larger is not one."""

_kinds: dict[str, type[Encoder]] = {}


class Made(Protocol):
    """What an encoder made (statistics, a solution), or the encoder itself."""

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

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over kind, settings, source and arrays: equal if and only if the codes are."""
        digest = hashlib.sha256(encoder_header(self).encode())
        for name, array in sorted(self.arrays().items()):
            digest.update(f"\n{name} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return digest.hexdigest()

    def require(self, made: Made) -> None:
        """Raise `EncoderMismatch` unless ``made``, statistics mostly, is of this encoder.

        Examples
        --------
        >>> from safle import DeclaredRange, LinearEncoder, Statistics
        >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
        >>> encoder.require(Statistics.empty(encoder))
        """
        require_same(self, made)

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
        return write_tensors(encoder_header(self), arrays)

    @staticmethod
    def from_bytes(data: bytes) -> Encoder:
        """The inverse of `to_bytes`, for every kind; nothing in ``data`` is executed."""
        if len(data) > MAX_FILE_BYTES:
            raise WireError(f"{len(data)} bytes; an encoder file has at most {MAX_FILE_BYTES}")
        return restore_encoder(*read_tensors(data))

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
            raise WireError(
                f"not a safle encoder: format {content['format']!r}; this safle reads {FORMAT!r}"
            )
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
    with Path(path).open("rb") as file:
        # One byte more than allowed is enough to refuse a file, whatever its size.
        data = file.read(MAX_FILE_BYTES + 1)
    try:
        return Encoder.from_bytes(data)
    except WireError as error:
        raise WireError(f"{path}: {error}") from error


def require_same(expected: Made, found: Made) -> None:
    """Raise `EncoderMismatch` unless both were made with one encoder."""
    if found.fingerprint != expected.fingerprint:
        raise EncoderMismatch(
            f"counted with encoder {found.fingerprint[:12]}…, this federation uses "
            f"{expected.fingerprint[:12]}…; take the federation's encoder file and count again"
        )
    if found.layout != expected.layout:
        raise EncoderMismatch(
            f"claims encoder {found.fingerprint[:12]}… but has another layout of codes"
        )
