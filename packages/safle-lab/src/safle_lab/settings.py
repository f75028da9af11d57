"""Settings with defaults, and what a user gives in their place, checked by msgspec."""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields, replace

from safle.errors import SettingsError

S = TypeVar("S", bound=Struct)


def with_given(defaults: S, given: Mapping[str, Any], place: str) -> S:
    """``defaults`` with ``given`` in their place.

    Parameters
    ----------
    given : values as TOML has them; tables are merged with those of the defaults
    place : where they stand, for errors
    """
    kinds = {field.name: field.type for field in fields(defaults)}
    changed: dict[str, Any] = {}
    for name, value in given.items():
        here = f"{place}.{name}" if place[-1:] not in (" ", "") else f"{place}{name}"
        if name not in kinds:
            raise SettingsError(
                f"{place}: unknown setting {name!r}; expected some of {', '.join(kinds)}"
            )
        default = getattr(defaults, name)
        if value in ([], ()):
            raise SettingsError(f"{here} is empty; expected something like {default}")
        if isinstance(default, Struct) and isinstance(value, Mapping):
            changed[name] = with_given(default, value, here)
            continue
        try:
            changed[name] = convert(_merge(default, value), kinds[name])
        except ValidationError as error:
            raise SettingsError(
                f"{here} is {value!r}; expected something like {default!r}: {error}"
            ) from None
    return replace(defaults, **changed)


def _merge(default: Any, value: Any) -> Any:
    if not isinstance(default, Mapping) or not isinstance(value, Mapping):
        return value
    return {**default, **{name: _merge(default.get(name), inner) for name, inner in value.items()}}
