"""What a client may claim, as options: the fields of `safle.federation.limits.Limits`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli.options import Function

if TYPE_CHECKING:
    from safle.federation.limits import Limits


def limit_options(function: Function) -> Function:
    """--most-samples, --most-classes, --only-classes and --class-type."""
    number = click.IntRange(min=1)
    options = [
        ("--most-samples", number, "N", "Refuse a client that claims more samples.", "10 million"),
        ("--most-classes", number, "N", "Refuse what brings more classes than this.", "1,000"),
        ("--only-classes", str, "A,B,C", "Refuse all other classes.", "any"),
        (
            "--class-type",
            click.Choice(["any", "int", "str"]),
            None,
            "Refuse classes of the other type.",
            "any: the first client's",
        ),
    ]
    for name, kind, metavar, text, default in reversed(options):
        function = click.option(
            name, type=kind, metavar=metavar, help=text, show_default=default, default=None
        )(function)
    return function


def chosen_limits(options: dict[str, Any], before: Limits | None = None) -> Limits:
    """Take the limits out of a command's ``options``; what they do not say is as ``before``."""
    from dataclasses import replace

    from safle.federation.limits import Limits

    said = {
        name: options.pop(name)
        for name in ("most_samples", "most_classes", "only_classes", "class_type")
    }
    if said["only_classes"] is not None:
        names = (name.strip() for name in said.pop("only_classes").split(","))
        said["classes"] = tuple(name for name in names if name)
    given = {name: value for name, value in said.items() if value is not None}
    return replace(before or Limits(), **given)
