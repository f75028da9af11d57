"""Declared settings: a dataclass with defaults, and what a user gives in their place."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from safle.errors import SettingsError

D = TypeVar("D")


def with_given(defaults: D, given: Mapping[str, Any], place: str) -> D:
    """``defaults``, an instance of a dataclass, with ``given`` in their place, checked.

    Parameters
    ----------
    given : values as TOML has them; a list becomes a tuple, a table is merged
    place : where they stand, for errors
    """
    declared = cast("Any", defaults)
    names = [field.name for field in fields(declared)]
    hints = get_type_hints(type(declared))
    changed = {}
    for name, value in given.items():
        here = f"{place}.{name}" if place[-1:] not in (" ", "") else f"{place}{name}"
        if name not in names:
            raise SettingsError(f"{here} is no setting; expected one of {', '.join(names)}")
        default = getattr(defaults, name)
        if value in ([], ()):
            raise SettingsError(f"{here} is empty; expected something like {default}")
        nested = is_dataclass(default)
        if not (isinstance(value, Mapping) if nested else _fits(value, hints[name])):
            raise SettingsError(f"{here} is {value!r}; expected something like {default}")
        changed[name] = (
            with_given(default, value, here) if nested else _merge(default, _to_tuples(value))
        )
    return cast("D", replace(declared, **changed))


def _fits(value: Any, hint: Any) -> bool:
    inner = get_args(hint)
    if isinstance(hint, UnionType):
        return any(_fits(value, one) for one in inner)
    if get_origin(hint) is tuple:
        return isinstance(value, list | tuple) and all(_fits(item, inner[0]) for item in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(_fits(item, inner[1]) for item in value.values())
    if hint in (int, float):
        kinds = (int,) if hint is int else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool)
    return hint is Any or isinstance(value, hint)


def _to_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _to_tuples(inner) for name, inner in value.items()}
    return tuple(map(_to_tuples, value)) if isinstance(value, list) else value


def _merge(default: Any, value: Any) -> Any:
    if not isinstance(default, dict) or not isinstance(value, dict):
        return value
    return {**default, **{name: _merge(default.get(name), inner) for name, inner in value.items()}}
