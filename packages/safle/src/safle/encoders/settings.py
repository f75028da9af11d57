"""Settings of a kind of encoder: a frozen dataclass whose fields say what they are for.

Everything that lets people choose (the command line, the estimator, Flower's run
configuration) reads the fields; nothing lists them a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from safle.encoders.features import as_integer
from safle.errors import SettingsError

if TYPE_CHECKING:
    from safle.encoders.calibration import Calibration

Value = bool | int | str
MOST_SEED = (1 << 64) - 1


@dataclass(frozen=True)
class Setting:
    """One field of a kind's settings.

    Attributes
    ----------
    default : None if the calibration decides, in the way that ``chosen`` tells people
    help : one line
    least, most : of a number
    choices : all that it may be, if they are few
    """

    name: str
    default: Value | None
    help: str
    least: int | None = None
    most: int | None = None
    choices: tuple[Value, ...] = ()
    chosen: str = ""

    @property
    def type(self) -> type[Value]:
        example = self.choices[0] if self.choices else self.default
        return type(example) if isinstance(example, bool | str) else int

    def read(self, text: str) -> Value | None:
        """The value that a text says."""
        if self.type is bool:
            return self.check({"true": True, "false": False}.get(text, text))
        return self.check(self.type(text))

    def check(self, value: Any) -> Value | None:
        """``value`` as a plain bool, int or str; `SettingsError` for what is not allowed."""
        if value is None and self.default is None:
            return None
        if self.type is bool:
            if type(value) is not bool:
                raise SettingsError(f"{self.name} is {value!r}; expected true or false")
        elif self.type is int:
            value = as_integer(self.name, value)
        elif not isinstance(value, str):
            raise SettingsError(f"{self.name} is {value!r}; expected text")
        if self.choices and value not in self.choices:
            expected = "one of " + ", ".join(map(str, self.choices))
        elif self.least is not None and value < self.least:
            expected = f"at least {self.least}" if self.most is None else self.range
        elif self.most is not None and value > self.most:
            expected = self.range
        else:
            return value
        raise SettingsError(f"{self.name} {value!r}; expected {expected}")

    @property
    def range(self) -> str:
        return f"{self.least}..{self.most}"


def setting(default: Value | None, help: str, **limits: Any) -> Any:  # noqa: A002
    """A field of a `Settings` dataclass; ``limits`` are those of `Setting`."""
    return field(default=default, metadata={"help": help, **limits})


@dataclass(frozen=True)
class Settings:
    """What a kind can be told; a subclass has a field, made by `setting`, for everything."""

    def __post_init__(self) -> None:
        for name, declared in self.declared().items():
            object.__setattr__(self, name, declared.check(getattr(self, name)))

    @classmethod
    def declared(cls) -> dict[str, Setting]:
        """The fields by name."""
        found: dict[str, Any] = {f.name: f.default for f in fields(cls)}
        limits = {f.name: f.metadata for f in fields(cls)}
        return {name: Setting(name, found[name], **limits[name]) for name in found}

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Settings by name; `SettingsError` for a name that there is not."""
        if unknown := [name for name in given if name not in cls.declared()]:
            known = ", ".join(cls.declared()) or "none"
            raise SettingsError(f"unknown setting {unknown[0]!r}; this kind has: {known}")
        return cls(**given)

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
