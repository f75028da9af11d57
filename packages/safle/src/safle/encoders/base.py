"""The base class of encoders: data in a file, with a fingerprint, that map features to codes.

The file is described in docs/wire-format.md.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.basics import atomic
from safle.basics.paths import naming, read_capped
from safle.basics.settings import as_settings, to_mapping
from safle.basics.tensors import (
    Arrays,
    decode_tensors,
    encode_tensors,
    read_header,
    refusing_malformed,
)
from safle.encoders.calibration import Calibration, require_numbers
from safle.encoders.codes import Codes, CodeSpace, Layout
from safle.encoders.operations import NumpyOperations, Operations, T
from safle.encoders.registry import Settings, kind_named, register
from safle.errors import SettingsError, WireError
from safle.tables.contract import Contract
from safle.tables.schema import Schema

FORMAT = "safle-encoder-5"
MAX_FILE_BYTES = 1 << 28
"""An encoder holds thresholds, not data: a larger file is not one."""


class Encoder(ABC):
    """Features -> codes; a function that all clients share, and a file.

    A kind is one subclass in one module: it names itself, declares its settings, holds
    arrays of float64 and expresses its codes. Its constructor takes arrays and settings by
    name. Everything else (commands, the estimator, exports, tests) follows from that.

    Examples
    --------
    >>> from safle import declared_range, make_encoder
    >>> encoder = make_encoder(declared_range(0, 1, feature_dim=4), kind="linear")
    >>> Encoder.from_bytes(encoder.to_bytes()) == encoder
    True
    """

    kind: ClassVar[str]
    summary: ClassVar[str] = ""
    """One line for people who choose between kinds."""
    settings_type: ClassVar[type[Settings]] = Settings

    gaps: ClassVar[bool] = False
    """Whether features may be missing: NaN."""

    settings: Settings
    contract: Contract
    """What it expects of features."""

    def __init_subclass__(cls) -> None:
        register(cls)

    def __init__(self, contract: Contract, **settings: Any) -> None:
        self.contract = contract
        self.settings = as_settings(self.settings_type, settings)
        for name, value in to_mapping(self.settings).items():
            if value is None:
                raise SettingsError(f"{name} is None; expected a value: make_encoder chooses one")

    @classmethod
    @abstractmethod
    def measure(cls, calibration: Calibration, settings: Any) -> dict[str, Any]:
        """The constructor's arguments beside ``settings``, from the features' distribution."""

    @classmethod
    def calibrated(cls, calibration: Calibration, *, class_count: int = 0, **settings: Any) -> Self:
        """An encoder for the features that ``calibration`` describes; see `make_encoder`."""
        known = calibration.contract
        if not cls.gaps:
            require_numbers(known.schema)
        class_count = class_count or len(known.classes)
        chosen = as_settings(cls.settings_type, settings).choose(calibration, class_count)
        encoder = cls(**cls.measure(calibration, chosen), **to_mapping(chosen))
        return encoder.declare(
            source=known.source, names=known.names, ranges=known.ranges, classes=known.classes
        )

    @property
    def feature_dim(self) -> int:
        return self.contract.feature_dim

    @cached_property
    @abstractmethod
    def layout(self) -> Layout:
        """The columns of the codes."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Arrays by name: float64, or integers."""

    @abstractmethod
    def express(self, ops: Operations[T], features: T) -> tuple[T | None, T | None]:
        """Symbols and dense codes, computed with ``ops``: on arrays, or for exports as a graph.

        None where the layout does not have such columns.
        """

    def facts(self) -> dict[str, str]:
        """The settings, and the columns or the arrays' ranges, as text for people."""
        facts = {n.replace("_", " "): f"{v}" for n, v in to_mapping(self.settings).items()}
        if self.contract.schema is not None:
            return facts | {column.name: column.text for column in self.contract.schema.columns}
        return facts | {n: f"{a.min():.6g} to {a.max():.6g}" for n, a in self.arrays().items()}

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        """Codes of features that the `contract` has checked."""
        # float64 for features of any type: the codes must not depend on it.
        with np.errstate(over="ignore"):
            expressed = self.express(NumpyOperations(), features.astype(np.float64))
        symbols, dense = (np.empty((len(features), 0)) if x is None else x for x in expressed)
        # Kernels expect this order of memory; operations may leave another.
        return Codes(
            symbols.astype(self.layout.symbol_type, order="C"), dense.astype(np.int16, order="C")
        )

    @property
    def level_count(self) -> int:
        """How many levels of a value its sums distinguish; 0 if only those that symbols have."""
        return 0

    def levels(self, features: NDArray[Any]) -> NDArray[np.unsignedinteger[Any]]:
        """The level of each feature, or sum of columns; no columns if `level_count` is 0.

        Only a policy asks: a pair of levels may occur in few samples though every pair of symbols
        occurs in many.
        """
        return np.empty((len(features), 0), np.uint8)

    @property
    def gap_codes(self) -> NDArray[np.int64] | None:
        """The code of each feature's gap, (feature_dim,); None where a gap has no code."""
        return None

    def encode(self, features: ArrayLike) -> Codes:
        """Codes of features, (samples, feature_dim)."""
        return self.encode_checked(self.contract.check(features))

    def declare(self, **facts: Any) -> Self:
        """A copy whose `Contract` declares these facts; its fingerprint differs.

        Examples
        --------
        >>> from safle import declared_range, make_encoder
        >>> encoder = make_encoder(declared_range(0, 120, feature_dim=2), kind="linear")
        >>> encoder.declare(names=["age", "dose"]).contract.names
        ('age', 'dose')
        """
        other = copy.copy(self)
        other.contract = self.contract.declare(**facts)
        other.__dict__.pop("fingerprint", None)
        return other

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over header and arrays: one fingerprint, the same codes."""
        digest = hashlib.sha256(encoder_header(self).encode())
        for name, array in sorted(self.arrays().items()):
            digest.update(f"\n{name} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return digest.hexdigest()

    @property
    def space(self) -> CodeSpace:
        """Fingerprint and layout: what statistics of this encoder share."""
        return CodeSpace(self.fingerprint, self.layout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoder) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.feature_dim:,} features, "
            f"{self.layout.dim:,} columns, fingerprint {self.fingerprint[:12]}…>"
        )

    def to_bytes(self) -> bytes:
        """The encoder as a safetensors file."""
        return encode_tensors(encoder_header(self), self.arrays())

    @staticmethod
    def from_bytes(data: bytes) -> Encoder:
        """The inverse of `to_bytes`, for every kind; nothing in ``data`` is executed."""
        if len(data) > MAX_FILE_BYTES:
            raise WireError(f"{len(data)} bytes; an encoder file has at most {MAX_FILE_BYTES}")
        return restore_encoder(*decode_tensors(data))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the encoder file, atomically."""
        atomic.write_bytes(path, self.to_bytes())


def encoder_header(encoder: Encoder) -> str:
    """Everything except the arrays as canonical JSON; keys without a value are left out.

    The layout follows from the other keys. It is written so that a version of safle that
    derives another one refuses the encoder instead of misreading statistics.
    """
    if not encoder.feature_dim:
        # The constructor cannot check it: the linear part of a table may have no features.
        raise SettingsError("the encoder has no features; expected at least one")
    settings = to_mapping(encoder.settings)
    if encoder.contract.schema is not None:
        settings["schema"] = encoder.contract.schema.to_json()
    content: dict[str, Any] = {
        "format": FORMAT,
        "kind": encoder.kind,
        "settings": settings,
        "layout": encoder.layout.to_json(),
    }
    return json.dumps(content | encoder.contract.to_json(), sort_keys=True, separators=(",", ":"))


def restore_encoder(header: str, arrays: Arrays) -> Encoder:
    """An encoder from its header and arrays; `WireError` if they do not make one."""
    with refusing_malformed("encoder"):
        content = read_header(header, FORMAT, "a safle encoder")
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise WireError(f"encoder array {name!r} is not finite; make it again")
        settings = dict(content["settings"])
        if "schema" in settings:
            settings["schema"] = Schema.from_json(settings["schema"])
        # A kind's constructor takes its arrays and settings by name.
        kind: Any = kind_named(content["kind"])
        encoder = kind(**arrays, **settings).declare(
            source=content.get("source"),
            names=content.get("features"),
            ranges=content.get("ranges"),
            classes=content.get("classes"),
        )
        for name, array in encoder.arrays().items():
            if arrays[name].dtype != array.dtype:
                raise WireError(
                    f"encoder array {name!r} is {arrays[name].dtype}; expected {array.dtype}"
                )
        written = encoder_header(encoder)
    # Two texts of one header would give one encoder two fingerprints.
    if written != header:
        raise WireError("the header differs from what this safle writes; make the encoder again")
    return encoder


def load_encoder(path: str | os.PathLike[str]) -> Encoder:
    """Read an encoder file; nothing in it is executed.

    Examples
    --------
    >>> load_encoder("nowhere.safetensors")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.safetensors'
    """
    with naming(path):
        return Encoder.from_bytes(read_capped(path, MAX_FILE_BYTES, "an encoder file"))
