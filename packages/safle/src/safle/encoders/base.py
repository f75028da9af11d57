"""What every encoder is: data in a file, with a fingerprint, that maps features to codes."""

from __future__ import annotations

import copy
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.basics import atomic
from safle.basics.settings import Setting
from safle.basics.tensors import Arrays, write_tensors
from safle.encoders.calibration import Calibration
from safle.encoders.code_space import CodeSpace
from safle.encoders.codes import Codes, Layout
from safle.encoders.encoder_file import encoder_arrays, encoder_header, read_encoder
from safle.encoders.features import ClassName, as_class_names, as_features, as_names
from safle.encoders.frames import arrange_frame
from safle.encoders.operations import Expressed, NumpyOperations, Operations, T
from safle.encoders.outside import Ranges, as_ranges
from safle.encoders.registry import register
from safle.encoders.schema import Schema
from safle.encoders.settings import Settings
from safle.encoders.source import as_source
from safle.errors import SettingsError


class Encoder(ABC):
    """Features -> codes; a function that all clients share, and a file.

    A kind is one subclass in one module: it names itself, declares its settings, holds
    arrays of float64 and expresses its codes. Its constructor takes arrays and settings by
    name. Everything else (commands, the estimator, exports, tests) follows from that.

    Examples
    --------
    >>> from safle import DeclaredRange, make_encoder
    >>> encoder = make_encoder(DeclaredRange(0, 1, feature_dim=4), kind="linear")
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
    feature_dim: int
    source: str = ""
    """What makes the features: empty, or a backbone's name, weights and preprocessing."""
    feature_names: tuple[str, ...] = ()
    """What the features are called, in order: empty, or a name for each."""
    classes: tuple[ClassName, ...] = ()
    """The only labels that are counted: empty if any are."""
    schema: Schema | None = None
    """What the columns of its tables are, where that was declared."""
    ranges: Ranges | None = None
    """Lowest and highest values that the features are expected to have, where that was declared."""

    def __init_subclass__(cls) -> None:
        register(cls)

    def __init__(self, **settings: Any) -> None:
        self.settings = self.settings_type.of(settings)
        for name, value in self.settings.to_dict().items():
            if value is None:
                expected = {int: "an integer", bool: "True or False", str: "text"}
                raise SettingsError(
                    f"{name} is None; expected {expected[self.settings.declared()[name].type]}: "
                    "only 'calibrated' chooses it"
                )

    @classmethod
    @abstractmethod
    def _calibrated(cls, calibration: Calibration, **settings: Any) -> Self:
        """What `calibrated` gives, without the names, classes and ranges of the features."""

    @classmethod
    def calibrated(cls, calibration: Calibration, **settings: Any) -> Self:
        """An encoder for the features that ``calibration`` describes.

        Where the calibration has names of features, their ranges, or classes, the encoder has
        them too. ``settings`` are the fields of `settings_type`; what is None or left out is
        chosen.
        """
        encoder = cls._calibrated(calibration, **settings)
        encoder = encoder.with_names(getattr(calibration, "names", ()))
        ranges: Ranges | None = getattr(calibration, "ranges", None)
        if encoder.schema is None and encoder.feature_names and ranges is not None:
            encoder = encoder.with_ranges(*ranges)
        return encoder.with_classes(getattr(calibration, "classes", ()))

    @cached_property
    @abstractmethod
    def layout(self) -> Layout:
        """The code space."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Float64 arrays by name."""

    @abstractmethod
    def express(self, ops: Operations[T], features: T) -> Expressed[T]:
        """The codes in the words of ``ops``; what exports, and is computed by default."""

    @abstractmethod
    def plausible_features(
        self, samples: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Features as the calibration expects them, each drawn on its own.

        (samples, feature_dim); for rehearsals, where there are no features yet.
        """

    @classmethod
    def declared(cls, given: Mapping[str, Any]) -> dict[str, Setting]:  # noqa: ARG003
        """The settings that apply beside those that are ``given``, by name."""
        return cls.settings_type.declared()

    @classmethod
    def draw(cls, calibration: Calibration, generator: np.random.Generator) -> Self:
        """A small encoder with settings at random: for tests."""
        drawn = cls.settings_type.draw(generator, calibration.feature_dim)
        return cls.calibrated(calibration, **drawn.to_dict())

    def header(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON."""
        return self.settings.to_dict()

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        """The inverse of `header` and `arrays`; raises a `SafleError` on nonsense."""
        return cls(**arrays, **settings)

    def facts(self) -> dict[str, str]:
        """Settings and ranges of the arrays, for people."""
        settings = {n.replace("_", " "): f"{v}" for n, v in self.settings.to_dict().items()}
        ranges = {n: f"{a.min():.6g} to {a.max():.6g}" for n, a in self.arrays().items()}
        return settings | ranges

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        """Codes of features that `as_features` has passed."""
        # float64 whatever the features' type: the codes must not depend on it.
        with np.errstate(over="ignore"):
            made = self.express(NumpyOperations(), features.astype(np.float64))
        symbols, dense = (np.empty((len(features), 0)) if x is None else x for x in made)
        # In the order of memory that kernels expect, whatever the operations left.
        return Codes(
            symbols.astype(self.layout.symbol_type, order="C"), dense.astype(np.int16, order="C")
        )

    def encode(self, features: ArrayLike) -> Codes:
        """Codes of features, (samples, feature_dim)."""
        return self.encode_checked(self.check(features))

    def check(self, features: ArrayLike) -> NDArray[Any]:
        """Features as `encode_checked` takes them, (samples, feature_dim).

        The columns of a frame (pandas, polars, pyarrow) are matched by name, and read as the
        encoder's schema says, if it has one.
        """
        arranged = arrange_frame(features, self.feature_names, self.schema)
        return as_features(arranged, self.feature_dim, gaps=self.gaps)

    def with_source(self, source: str) -> Self:
        """The same encoder for the features of one source only; its fingerprint differs."""
        return self._declared("source", as_source(source))

    def with_names(self, names: Sequence[str]) -> Self:
        """The same encoder for features of these names; its fingerprint differs.

        Examples
        --------
        >>> from safle import DeclaredRange, make_encoder
        >>> encoder = make_encoder(DeclaredRange(0, 120, feature_dim=2), kind="linear")
        >>> encoder.with_names(["age", "dose"]).feature_names
        ('age', 'dose')
        """
        return self._declared("feature_names", as_names(names, self.feature_dim))

    def with_ranges(self, low: ArrayLike, high: ArrayLike) -> Self:
        """The same encoder for features that lie within these ranges; its fingerprint differs.

        Values outside are encoded all the same, and counted: see `safle.encoders.outside`.

        Parameters
        ----------
        low, high : float64, (feature_dim,)

        Examples
        --------
        >>> from safle import DeclaredRange, make_encoder
        >>> encoder = make_encoder(DeclaredRange(0, 1, feature_dim=2), kind="linear")
        >>> [end.tolist() for end in encoder.with_ranges([0, 0], [120, 9]).ranges]
        [[0.0, 0.0], [120.0, 9.0]]
        """
        return self._declared("ranges", as_ranges(low, high, self.feature_dim))

    def with_classes(self, classes: Sequence[ClassName]) -> Self:
        """The same encoder for these labels only; its fingerprint differs.

        Examples
        --------
        >>> from safle import DeclaredRange, count, make_encoder
        >>> encoder = make_encoder(DeclaredRange(0, 1, feature_dim=1), kind="linear")
        >>> count(encoder.with_classes(["ill", "well"]), [[0.5]], ["wel"])
        Traceback (most recent call last):
            ...
        safle.errors.InvalidInput: labels contain 'wel', which are not among the declared classes \
'ill', 'well'
        """
        return self._declared("classes", as_class_names(classes))

    def _declared(self, name: str, value: object) -> Self:
        other = copy.copy(self)
        setattr(other, name, value)
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
            f"{self.layout.embedding_dim:,} columns, fingerprint {self.fingerprint[:12]}…>"
        )

    def to_bytes(self) -> bytes:
        """The encoder as a safetensors file."""
        return write_tensors(encoder_header(self), encoder_arrays(self))

    @staticmethod
    def from_bytes(data: bytes) -> Encoder:
        """The inverse of `to_bytes`, for every kind; nothing in ``data`` is executed."""
        return read_encoder(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the encoder file, atomically."""
        atomic.write_bytes(path, self.to_bytes())
