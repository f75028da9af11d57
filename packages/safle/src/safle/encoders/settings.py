"""Settings of a kind of encoder: a frozen dataclass whose fields say what they are for.

Everything that lets people choose (the command line, the estimator, Flower's run
configuration) reads the fields; nothing lists them a second time. `safle.basics.settings` checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args, get_type_hints

import msgspec
import numpy as np

from safle.basics.settings import Setting, Value, as_settings, describe

if TYPE_CHECKING:
    from safle.encoders.calibration import Calibration

MOST_SEED = (1 << 63) - 1


def setting(
    default: Value | None,
    help: str,  # noqa: A002
    *,
    least: int | None = None,
    most: int | None = None,
    choices: tuple[Value, ...] = (),
    chosen: str = "",
) -> Any:
    """A field of a `Settings` dataclass: see `Setting`."""
    meta = msgspec.Meta(ge=least, le=most, description=help, extra={"chosen": chosen})
    return field(default=default, metadata={"meta": meta, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """The settings of a kind; a subclass has a field, made by `setting`, for each."""

    def __post_init__(self) -> None:
        checked = as_settings(self._struct(), self.to_dict())
        for name in self.declared():
            object.__setattr__(self, name, getattr(checked, name))

    @classmethod
    @cache
    def _struct(cls) -> type[msgspec.Struct]:
        """The same fields, as the one validator knows them."""
        hints = get_type_hints(cls)
        described: list[tuple[str, Any, Any]] = []
        for each in fields(cls):
            choices: tuple[Any, ...] = each.metadata["choices"]
            plain = [held for held in get_args(hints[each.name]) if held is not NoneType]
            kind = Literal[choices] if choices else (plain or [hints[each.name]])[0]
            allowed = Annotated[kind, each.metadata["meta"]]  # type: ignore[valid-type]
            optional = allowed | None if each.default is None else allowed
            described.append((each.name, optional, each.default))
        return msgspec.defstruct(cls.__name__, described, forbid_unknown_fields=True)

    @classmethod
    def declared(cls) -> dict[str, Setting]:
        """The fields by name."""
        return describe(cls._struct())

    @classmethod
    def of(cls, given: Mapping[str, Any], *, texts: bool = False) -> Self:
        """Settings by name; `SettingsError` for a name or a value that there is not.

        With ``texts``, texts that say numbers or truth values are taken for them.
        """
        return cls(**msgspec.structs.asdict(as_settings(cls._struct(), given, texts=texts)))

    def choose(self, calibration: Calibration) -> Self:  # noqa: ARG002
        """The settings with a value for every None, as it suits the features."""
        return self

    @classmethod
    def draw(cls, generator: np.random.Generator, feature_dim: int) -> Self:  # noqa: ARG003
        """Small settings at random, valid for so many features: for tests."""
        drawn: dict[str, Value] = {}
        for name, declared in cls.declared().items():
            if declared.choices:
                drawn[name] = declared.choices[generator.integers(len(declared.choices))]
            elif declared.type is bool:
                drawn[name] = bool(generator.integers(2))
            elif declared.type is int:
                least = declared.least or 0
                most = least + 12 if declared.most is None else min(least + 12, declared.most)
                drawn[name] = int(generator.integers(least, most + 1))
        return cls(**drawn)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
