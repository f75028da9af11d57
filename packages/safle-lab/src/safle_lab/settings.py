"""Settings with defaults, and what a user gives in their place."""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct

from safle.basics import as_settings, to_mapping

S = TypeVar("S", bound=Struct)


def with_given(defaults: S, given: Mapping[str, Any], where: str) -> S:
    """``defaults`` with ``given`` in their place, checked.

    Parameters
    ----------
    given : values as TOML has them; tables are merged with those of the defaults
    where : what they are, at the beginning of an error
    """
    return as_settings(type(defaults), _merge(to_mapping(defaults), given), where=where)


def _merge(default: Any, value: Any) -> Any:
    if not isinstance(default, Mapping) or not isinstance(value, Mapping):
        return value
    return {**default, **{name: _merge(default.get(name), inner) for name, inner in value.items()}}
