"""What other houses do to a value before it leaves: their options for the commands that count.

They add theirs by entry points in the group ``safle.releases``: an object with two functions,

- ``options(function)`` adds options to a command of click;
- ``prepare(options)`` reads what they name, before a long count, and returns a
  `safle.site.release.Before`; or None if the user asks for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

import rich_click as click

from safle.cli import options as opt
from safle.site.release import Before

HOUSE = "safle-private"
MASKS = f"Hide the counts under masks, in a private round. Needs the package {HOUSE}."


def _hooks() -> list[Any]:
    return [entry.load() for entry in entry_points(group="safle.releases")]


def before_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of all houses; without a house, --round says what to install."""
    hooks = _hooks()
    for hook in hooks:
        function = hook.options(function)
    return function if hooks else _masks(function)


def prepare_before(options: Mapping[str, Any]) -> Before | None:
    """What is done to a value before it leaves, by the options of `before_options`."""
    asked = (hook.prepare(options) for hook in _hooks())
    return next((before for before in asked if before is not None), None)


def _refuse(_context: click.Context, _option: click.Parameter, path: Any) -> None:
    if path is not None:
        raise click.UsageError(f"--round is in {HOUSE}: pip install {HOUSE}")


_masks = opt.file_option("--round", MASKS, callback=_refuse, expose_value=False)
