"""The page of commands, from the commands themselves; `reference.py` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import rich_click as click

INTRODUCTION = """# Commands

This page says what `safle COMMAND --help` says.
Every command also takes `--quiet` (only results and errors), `--debug` (where an error
comes from) and `--force` (overwrite files that exist, which is refused otherwise).
A command that fails prints one line and exits with 1, or with 2 for wrong usage
and 130 for Ctrl-C.
"""


def describe_all() -> Iterator[str]:
    """The lines of the page."""
    from safle.cli.main import app

    yield INTRODUCTION
    panels: dict[str, list[tuple[str, click.Command]]] = {}
    context = click.Context(app)
    # Not app.commands, which lacks those that other packages add.
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        panels.setdefault(getattr(command, "panel", None) or "More", []).append((name, command))
    for panel, commands in panels.items():
        yield f"## {panel}\n"
        for name, command in commands:
            yield from _describe(command, f"safle {name}", depth=3)


def _describe(command: click.Command, path: str, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} `{path}`\n"
    context = click.Context(command, info_name=path)
    yield f"{_prose(command.help or '')}\n"
    if not isinstance(command, click.Group):
        usage = " ".join([path, *command.collect_usage_pieces(context)])
        yield f"```text\n{usage}\n```\n"
        for parameter in command.get_params(context):
            yield from _explain(parameter, context)
        yield _examples(command.epilog or "")
        return
    for name in command.list_commands(context):
        subcommand = command.get_command(context, name)
        assert subcommand is not None
        yield from _describe(subcommand, f"{path} {name}", depth + 1)


def _explain(parameter: click.Parameter, context: click.Context) -> Iterator[str]:
    record = parameter.get_help_record(context)
    if isinstance(parameter, click.Argument):
        record = parameter.make_metavar(context), getattr(parameter, "help", None) or ""
    if record and "--help" not in parameter.opts:
        yield f"`{record[0]}`\n:   {_prose(record[1]) or '&nbsp;'}\n"


def _prose(text: str) -> str:
    """Help as Markdown: what is bold stays so, options are code, all else is as it stands."""
    paragraphs = re.split(r"\n\s*\n", text.replace("\b", "").strip())
    lines = (" ".join(paragraph.split()) for paragraph in paragraphs)
    text = (
        "\n\n".join(lines)
        .replace("<=", "&nbsp;≤&nbsp;")
        .replace(">=", "&nbsp;≥&nbsp;")
        .replace("<", "&lt;")
    )
    escaped = re.sub(r"([*_>\[\]`|])", r"\\\1", text)
    marked = re.sub(r"(?<![\w-])(--[a-z][a-z0-9-]*)", r"`\1`", escaped)
    return re.sub(r"\\\[/?(?:b|bold)\\\]", "**", marked)


def _examples(epilog: str) -> str:
    heading, *commands = [line.strip() for line in epilog.splitlines() if line.strip()] or [""]
    return f"{heading}\n\n```sh\n{chr(10).join(commands)}\n```\n" if commands else ""
