"""Options that limit what a client may claim, of whatever admits contributions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import rich_click as click

from safle.basics.texts import split_names
from safle.cli.options import COUNT, Decorator, option, options

_FIRST = "any: the first client's"
_TYPES = click.Choice(["any", "int", "str"])


def _limit(name: str, text: str, metavar: str | None, default: str, kind: Any = None) -> Decorator:
    return option(name, text, metavar, type=kind, show_default=default)


limit_options = options(
    _limit("--most-samples", "Refuse a client that claims more samples.", "N", "10 million", COUNT),
    _limit("--most-classes", "Refuse what brings more classes than this.", "N", "1,000", COUNT),
    _limit("--only-classes", "Refuse all other classes.", "A,B,C", "any"),
    _limit("--class-type", "Refuse classes of the other type.", None, _FIRST, _TYPES),
)

empty_option = option(
    "--allow-empty", "Take contributions of no samples.", is_flag=True, default=None
)


def chosen_limits(options: dict[str, Any], before: Any = None) -> Any:
    """Take the `Limits` out of a command's ``options``; what they do not say is as ``before``."""
    from safle.server import Limits

    named = ("most_samples", "most_classes", "only_classes", "class_type", "allow_empty")
    given = {name: value for name in named if (value := options.pop(name, None)) is not None}
    if "only_classes" in given:
        given["classes"] = split_names(given.pop("only_classes"))
    return replace(before or Limits(), **given)
