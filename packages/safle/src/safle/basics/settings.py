"""Settings from outside: a mapping (TOML, a JSON header, options) -> a frozen Struct.

Settings are a `msgspec.Struct` whose fields carry their types and limits; `as_settings`
is the one place that checks a mapping against them, and says what was found where, and what was
expected. `describe` lists the fields for commands and documentation, so nothing lists them twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from safle.errors import SafleError, SettingsError

S = TypeVar("S")
Value = bool | int | float | str
_PLACE = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
"""The end of msgspec's message about a nested value: ``- at `$.inner.names[3]` ``."""
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
MAX_SHOWN = 60


def as_settings(
    settings_type: type[S],
    given: Any,
    *,
    where: str = "",
    error: type[SafleError] = SettingsError,
) -> S:
    """A mapping, ``given``, as settings of a type; ``error`` says where it is wrong, and how.

    Parameters
    ----------
    settings_type : a `msgspec.Struct`, with ``forbid_unknown_fields`` if unknown names are mistakes
    where : the beginning of a message: which mapping it is

    Examples
    --------
    >>> from typing import Annotated, Literal
    >>> bins = ("bins", Annotated[int, msgspec.Meta(ge=1, le=64)], 8)
    >>> spacing = ("spacing", Literal["equal", "log"], "equal")
    >>> Grid = msgspec.defstruct("Grid", [bins, spacing], forbid_unknown_fields=True)
    >>> as_settings(Grid, {"bins": 16})
    Grid(bins=16, spacing='equal')
    >>> as_settings(Grid, {"bins": 65}, where="grid.toml: ")
    Traceback (most recent call last):
    safle.errors.SettingsError: grid.toml: bins is 65; expected an integer, 1..64
    >>> as_settings(Grid, {"spacing": "lin"})
    Traceback (most recent call last):
    safle.errors.SettingsError: spacing is 'lin'; expected one of 'equal', 'log'
    >>> as_settings(Grid, {"bin": 4})
    Traceback (most recent call last):
    safle.errors.SettingsError: unknown setting 'bin'; expected some of bins, spacing
    """
    plain = _plain(given)
    if is_dataclass(settings_type) and isinstance(plain, dict):
        # msgspec ignores names that a dataclass does not have.
        known = [field.name for field in fields(settings_type)]
        if unknown := [name for name in plain if name not in known]:
            expected = ", ".join(known)
            raise error(f"{where}unknown setting {unknown[0]!r}; expected some of {expected}")
    try:
        return msgspec.convert(plain, settings_type)
    except msgspec.ValidationError as problem:
        if isinstance(problem.__cause__, SafleError):
            raise type(problem.__cause__)(f"{where}{problem.__cause__}") from None
        raise error(where + _explain(str(problem), settings_type, plain)) from None


def to_mapping(settings: Any) -> dict[str, Any]:
    """The inverse of `as_settings`, in plain values.

    >>> to_mapping(msgspec.defstruct("Grid", [("bins", int, 8)])())
    {'bins': 8}
    """
    content: dict[str, Any] = msgspec.to_builtins(settings)
    return content


@dataclass(frozen=True)
class Setting:
    """One field of settings, for people.

    Attributes
    ----------
    default : None if safle chooses the value; ``chosen`` then says how
    choices : all allowed values, if they are listed

    Examples
    --------
    >>> Setting("bins", int, 8, "Equal bins.", minimum=1).minimum
    1
    """

    name: str
    type: type[Value]
    default: Value | None
    help: str = ""
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[Value, ...] = ()
    chosen: str = ""


def describe(settings_type: type[Any]) -> dict[str, Setting]:
    """The fields of a type of settings, by name.

    Examples
    --------
    >>> from typing import Annotated
    >>> meta = msgspec.Meta(ge=1, description="Equal bins.")
    >>> Grid = msgspec.defstruct("Grid", [("bins", Annotated[int, meta], 8)])
    >>> describe(Grid)["bins"].help, describe(Grid)["bins"].minimum
    ('Equal bins.', 1)
    """
    return {field.name: _setting(field) for field in _fields(inspect.type_info(settings_type))}


def _setting(field: inspect.Field) -> Setting:
    expected = field.type
    text = ""
    chosen = ""
    if isinstance(expected, inspect.UnionType):
        expected = next(t for t in expected.types if not isinstance(_bare(t), inspect.NoneType))
    if isinstance(expected, inspect.Metadata):
        text = (expected.extra_json_schema or {}).get("description", "")
        chosen = (expected.extra or {}).get("chosen", "")
    bare = _bare(expected)
    listed = bare.values if isinstance(bare, inspect.LiteralType) else ()
    choices = tuple(value for value in listed if value is not None)
    types = {inspect.BoolType: bool, inspect.IntType: int, inspect.FloatType: float}
    return Setting(
        field.name,
        type=type(choices[0]) if choices else types.get(type(bare), str),
        default=None if field.default is msgspec.NODEFAULT else field.default,
        help=text,
        minimum=getattr(bare, "ge", None),
        maximum=getattr(bare, "le", None),
        choices=choices,
        chosen=chosen,
    )


def _bare(expected: inspect.Type) -> inspect.Type:
    return expected.type if isinstance(expected, inspect.Metadata) else expected


def _fields(expected: inspect.Type) -> tuple[inspect.Field, ...]:
    bare = _bare(expected)
    if isinstance(bare, inspect.UnionType):
        return next((_fields(member) for member in bare.types if _fields(member)), ())
    return bare.fields if isinstance(bare, inspect.StructType | inspect.DataclassType) else ()


def _plain(value: Any) -> Any:
    """Turn NumPy's numbers, which msgspec refuses, into Python's."""
    if type(value).__module__ == "numpy" and not getattr(value, "ndim", 1):
        return value.item()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value


def _explain(message: str, settings_type: type[Any], given: Any) -> str:
    """What msgspec says, with the name of the setting, what was found and what was expected."""
    place = _PLACE.search(message)
    path = place[1] if place else ""
    name = path.removeprefix(".")
    expected = inspect.type_info(settings_type)
    found = given
    for key, index in _STEP.findall(path):
        try:
            found = found[key or int(index)]
        except (KeyError, IndexError, TypeError):
            # An unknown name is in the message, and may end like a place.
            break
        expected = _inside(expected, key)
    fields = {field.encode_name: field for field in _fields(expected)}
    if message.startswith("Object contains unknown field") and isinstance(found, Mapping):
        unknown = next((key for key in found if key not in fields), "")
        inside = f" of {name}" if name else ""
        known = ", ".join(fields) or "none"
        return f"unknown setting {unknown!r}{inside}; expected some of {known}"
    if message.startswith("Object missing required field"):
        missing = message.split("`")[1]
        # The tag that separates the types of a union is not a field of any of them.
        words = _in_words(fields[missing].type) if missing in fields else ""
        inside = f"{name} has" if name else "there is"
        return f"{inside} no {missing!r}; expected {words or 'it'}"
    text = message[: place.start()] if place else message
    if "[...]" in path:
        # A value of a table whose names are not known: msgspec does not say which.
        return f"{name}: {text[0].lower()}{text[1:]}"
    shown = repr(found)
    shown = shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."
    return f"{name or 'it'} is {shown}; expected {_in_words(expected) or text}"


def _inside(expected: inspect.Type, key: str) -> inspect.Type:
    """The type of a field, or of an element."""
    if key:
        return next((f.type for f in _fields(expected) if f.encode_name == key), inspect.AnyType())
    item: inspect.Type = getattr(_bare(expected), "item_type", inspect.AnyType())
    return item


def _in_words(expected: inspect.Type) -> str:
    """A type in words; empty if there are none."""
    bare = _bare(expected)
    if isinstance(bare, inspect.UnionType):
        return " or ".join(filter(None, map(_in_words, bare.types)))
    if isinstance(bare, inspect.LiteralType):
        return "one of " + ", ".join(map(repr, bare.values))
    if isinstance(bare, inspect.IntType | inspect.FloatType):
        return ("an integer" if isinstance(bare, inspect.IntType) else "a number") + _limits(bare)
    if isinstance(bare, inspect.StrType):
        return "text" + (f" of at most {bare.max_length} characters" if bare.max_length else "")
    if isinstance(bare, inspect.ListType | inspect.VarTupleType | inspect.TupleType):
        return "a list: [...]"
    if isinstance(bare, inspect.StructType | inspect.DataclassType | inspect.DictType):
        return "a table of settings"
    return "true or false" if isinstance(bare, inspect.BoolType) else ""


def _limits(found: inspect.IntType | inspect.FloatType) -> str:
    if found.ge is not None and found.le is not None:
        return f", {found.ge}..{found.le}"
    bounds = {"of at least": found.ge, "above": found.gt, "of at most": found.le, "below": found.lt}
    return "".join(f" {word} {bound}" for word, bound in bounds.items() if bound is not None)
