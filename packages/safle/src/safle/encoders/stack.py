"""Several encoders side by side over the same features, with exact mixed gram blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safle.basics.tensors import Arrays
from safle.encoders.base import Encoder
from safle.encoders.calibration import Calibration
from safle.encoders.codes import Codes, Layout
from safle.encoders.encoder_file import restore_kind
from safle.encoders.operations import Expressed, Operations, T
from safle.encoders.registry import kind_named, kinds
from safle.encoders.settings import Setting, Settings, setting
from safle.errors import SettingsError

MAX_PARTS = 64


@dataclass(frozen=True)
class StackSettings(Settings):
    """Of a `StackEncoder`, beside those of its parts."""

    parts: str = setting("linear,embedding", "Kinds that a stack puts side by side.")


class StackEncoder(Encoder):
    """The codes of all ``parts``: their symbols side by side, then their dense columns.

    >>> from safle import DeclaredRange, make_encoder
    >>> stack = make_encoder(DeclaredRange(0, 1, feature_dim=2), kind="stack")
    >>> [part.kind for part in stack.parts]
    ['linear', 'embedding']
    """

    kind = "stack"
    summary = "several kinds side by side"
    settings_type = StackSettings

    def __init__(self, parts: Sequence[Encoder]) -> None:
        self.parts = tuple(parts)
        if not 1 <= len(self.parts) <= MAX_PARTS:
            raise SettingsError(f"{len(self.parts)} parts; expected 1..{MAX_PARTS}")
        if any(isinstance(part, StackEncoder) for part in self.parts):
            raise SettingsError("a stack holds plain encoders; list the inner parts directly")
        super().__init__(parts=",".join(part.kind for part in self.parts))
        dims = sorted({part.feature_dim for part in self.parts})
        if len(dims) > 1:
            raise SettingsError(f"the parts expect different feature counts: {dims}")
        self.feature_dim = dims[0]
        sources = {part.source for part in self.parts}
        if len(sources) > 1:
            raise SettingsError(f"the parts are for features of different sources: {sources}")
        # The stack's own header names it, once.
        self.source = sources.pop()

    @classmethod
    def declared(cls, given: Mapping[str, Any]) -> dict[str, Setting]:
        """Its own settings, and those of the parts that ``given`` names."""
        declared = super().declared(given)
        for part in _kinds_of(given):
            declared = part.declared({}) | declared
        return declared

    @classmethod
    def _calibrated(cls, calibration: Calibration, **settings: Any) -> Self:
        if unknown := set(settings) - set(cls.declared(settings)):
            raise SettingsError(f"no part of the stack has the setting {min(unknown)!r}")
        parts = [
            kind.calibrated(
                calibration, **{n: settings[n] for n in kind.declared({}) if n in settings}
            )
            for kind in _kinds_of(settings)
        ]
        return cls(parts)

    @classmethod
    def draw(cls, calibration: Calibration, generator: np.random.Generator) -> Self:
        plain = [kind for kind in kinds().values() if kind is not cls]
        parts: list[Encoder] = []
        for index in generator.integers(len(plain), size=generator.integers(1, 4)):
            part = plain[index].draw(calibration, generator)
            if not any(p.layout.class_layout and part.layout.class_layout for p in parts):
                parts.append(part)
        return cls(parts)

    @cached_property
    def layout(self) -> Layout:
        return Layout.side_by_side([part.layout for part in self.parts])

    def header(self) -> dict[str, Any]:
        return {"parts": [{"kind": part.kind, "settings": part.header()} for part in self.parts]}

    def arrays(self) -> Arrays:
        return {
            f"{index}.{name}": array
            for index, part in enumerate(self.parts)
            for name, array in part.arrays().items()
        }

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        declared = settings["parts"]
        if not isinstance(declared, list) or not 1 <= len(declared) <= MAX_PARTS:
            raise SettingsError(f"a stack needs a list of 1..{MAX_PARTS} parts")
        parts = []
        for index, part in enumerate(declared):
            prefix = f"{index}."
            own = {
                name.removeprefix(prefix): array
                for name, array in arrays.items()
                if name.startswith(prefix)
            }
            if part["kind"] == cls.kind:
                raise SettingsError("a stack holds plain encoders")
            parts.append(restore_kind(part["kind"], part["settings"], own))
        return cls(parts)

    def facts(self) -> dict[str, str]:
        return {
            f"{part.kind}: {name}": fact
            for part in self.parts
            for name, fact in part.facts().items()
        }

    def plausible_features(
        self, samples: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        return self.parts[0].plausible_features(samples, generator)

    def express(self, ops: Operations[T], features: T) -> Expressed[T]:
        parts = [part.express(ops, features) for part in self.parts]
        symbols = [part.symbols for part in parts if part.symbols is not None]
        dense = [part.dense for part in parts if part.dense is not None]
        return Expressed(ops.join(symbols) if symbols else None, ops.join(dense) if dense else None)

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        return Codes.side_by_side([part.encode_checked(features) for part in self.parts])


def _kinds_of(given: Mapping[str, Any]) -> list[type[Encoder]]:
    names = str(given.get("parts", StackSettings.parts)).split(",")
    if StackEncoder.kind in names:
        raise SettingsError("a stack holds plain encoders; list the inner parts directly")
    return [kind_named(name.strip()) for name in names]
