"""Settings of experiments: TOML, the defaults of their kind below what a user gives.

The defaults lie beside this module, one file for features files and one, much smaller,
for digits. What an experiment ran with is saved beside its results.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from safle.errors import SettingsError

Values = dict[str, Any]
Place = tuple[str, ...]
OPEN: tuple[Place, ...] = (
    ("methods",),
    ("federation", "seeds_of"),
    ("tuning", "grids"),
    ("table1", "only"),
)
"""Tables that take other names than the defaults have."""


def default_settings(*, small: bool) -> Values:
    """Of features files, or of the built-in digits (``small``)."""
    name = "digits.toml" if small else "defaults.toml"
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text("utf-8"))


def load_settings(path: Path | None, *, small: bool) -> Values:
    """Defaults, with what the file says in their place."""
    defaults = default_settings(small=small)
    if path is None:
        return defaults
    try:
        given = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    return _merged(defaults, given, (str(path),))


def _merged(defaults: Mapping[str, Any], given: Mapping[str, Any], place: Place) -> Values:
    merged = dict(defaults)
    # A method's settings are checked by the method, which knows them all.
    free = any(place[1 : 1 + len(open_place)] == open_place for open_place in OPEN)
    for name, value in given.items():
        here = (*place, name)
        default = defaults.get(name)
        if name not in defaults and not free:
            raise SettingsError(
                f"{_dotted(here)} is no setting; expected one of {', '.join(defaults)}"
            )
        if (
            default is not None
            and isinstance(default, dict | list)
            and type(default) is not type(value)
        ):
            raise SettingsError(f"{_dotted(here)} is {value!r}; expected something like {default}")
        if isinstance(default, list) and not value:
            raise SettingsError(f"{_dotted(here)} is empty; expected something like {default}")
        merged[name] = _merged(default or {}, value, here) if isinstance(value, dict) else value
    return merged


def _dotted(place: Place) -> str:
    return f"{place[0]}: {'.'.join(place[1:])}"


def to_toml(values: Mapping[str, Any], *, prefix: str = "") -> str:
    """Settings as TOML: plain values first, then a section for every table."""
    lines = [f"{name} = {_value(v)}" for name, v in values.items() if not isinstance(v, dict)]
    text = "".join(f"{line}\n" for line in lines)
    for name, value in values.items():
        if isinstance(value, dict):
            inner = to_toml(value, prefix=f"{prefix}{name}.")
            text += f"\n[{prefix}{name}]\n{inner}"
    return text


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    # TOML writes numbers, strings and booleans as JSON does.
    return json.dumps(value, ensure_ascii=False)
