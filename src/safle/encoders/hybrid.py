"""Several encoders side by side over the same features, with exact mixed gram blocks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safle._internal.tensors import Arrays
from safle.encoders.base import Encoder, restore_kind
from safle.encoders.codes import Codes, Layout
from safle.errors import SettingsError

MAX_PARTS = 64


class HybridEncoder(Encoder):
    """The codes of all ``parts``: their symbols side by side, then their dense columns."""

    kind = "hybrid"

    def __init__(self, parts: Sequence[Encoder]) -> None:
        self.parts = tuple(parts)
        if not 1 <= len(self.parts) <= MAX_PARTS:
            raise SettingsError(f"{len(self.parts)} parts; expected 1..{MAX_PARTS}")
        if any(isinstance(part, HybridEncoder) for part in self.parts):
            raise SettingsError("a hybrid holds plain encoders; list the inner parts directly")
        dims = sorted({part.feature_dim for part in self.parts})
        if len(dims) > 1:
            raise SettingsError(f"the parts expect different feature counts: {dims}")
        self.feature_dim = dims[0]
        sources = {part.source for part in self.parts}
        if len(sources) > 1:
            raise SettingsError(f"the parts are for features of different sources: {sources}")
        # The hybrid's own header names it, once.
        self.source = sources.pop()

    @cached_property
    def layout(self) -> Layout:
        return Layout.side_by_side([part.layout for part in self.parts])

    def settings(self) -> dict[str, Any]:
        return {"parts": [{"kind": p.kind, "settings": p.settings()} for p in self.parts]}

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
            raise SettingsError(f"a hybrid needs a list of 1..{MAX_PARTS} parts")
        parts = []
        for index, part in enumerate(declared):
            prefix = f"{index}."
            own = {
                name.removeprefix(prefix): array
                for name, array in arrays.items()
                if name.startswith(prefix)
            }
            if part["kind"] == cls.kind:
                raise SettingsError("a hybrid holds plain encoders")
            parts.append(restore_kind(part["kind"], part["settings"], own))
        return cls(parts)

    def plausible_features(
        self, samples: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        return self.parts[0].plausible_features(samples, generator)

    def encode_checked(self, features: NDArray[Any]) -> Codes:
        return Codes.side_by_side([part.encode_checked(features) for part in self.parts])
