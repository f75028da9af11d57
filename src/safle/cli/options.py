"""Options that several commands share."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import rich_click as click

from safle.cli.session import Session

Function = TypeVar("Function", bound=Callable[..., Any])


class Decorator(Protocol):
    """Adds options to a command's function."""

    def __call__(self, function: Function, /) -> Function: ...


# Existence is not click's to check: a missing file is an error (1), not wrong usage (2).
FILE = click.Path(dir_okay=False, path_type=Path)


def _remember(context: click.Context, option: click.Parameter, value: bool) -> None:
    session = context.find_object(Session)
    if value and session is not None and option.name is not None:
        setattr(session, option.name, True)


def session_options(*, hidden: bool) -> list[click.Option]:
    """--quiet and --debug."""
    explained = {
        "--quiet": "Only results and errors: no notes, no progress.",
        "--debug": "Show where an error comes from.",
    }
    return [
        click.RichOption(
            [name], is_flag=True, expose_value=False, callback=_remember, help=text, hidden=hidden
        )
        for name, text in explained.items()
    ]


class Command(click.RichCommand):
    """A command; it takes --quiet and --debug after its own name as well."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += session_options(hidden=True)


def _check_place(
    _context: click.Context, _option: click.Parameter, path: Path | None
) -> Path | None:
    """Refuse a place that cannot be written to before the work, not after it."""
    if path is None:
        return None
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such directory", str(path.parent))
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "not allowed to write here", str(path.parent))
    return path


def written(*names: str, required: bool = False, **settings: Any) -> Decorator:
    """An option that names a file to write."""
    return click.option(
        *names, type=FILE, metavar="FILE", required=required, callback=_check_place, **settings
    )


def output(text: str) -> Decorator:
    """-o FILE."""
    return written("-o", "--output", required=True, help=text)


def encoder_file(text: str = "The encoder that all clients share.") -> Decorator:
    """--encoder FILE."""
    return click.option(
        "--encoder", "encoder_path", type=FILE, metavar="FILE", required=True, help=text
    )


def store_argument(function: Function) -> Function:
    """STORE, a folder."""
    place = click.Path(file_okay=False, path_type=Path)
    return click.argument("folder", type=place, metavar="STORE", help="The store's folder.")(
        function
    )


def features_argument(function: Function) -> Function:
    """FEATURES, a table."""
    text = "Features: .npz, .npy, .safetensors, .parquet or .csv."
    return click.argument("features", type=FILE, help=text)(function)


def table_options(*, labels: bool) -> Decorator:
    """How a table is read; with ``labels``, where its labels are."""
    options = [
        _text("--split", "Which <split>_features (.npz, .safetensors), if there are several."),
        _text("--features-key", "The array or list column of features, if not 'features' or 'X'."),
        _text("--label-column", "The column of labels (.csv, .parquet).", default="label"),
    ]
    if labels:
        options += [
            click.option(
                "--labels",
                type=FILE,
                metavar="FILE",
                help="A second file with the labels: .npy, or .txt with one a line.",
            ),
            _text("--labels-key", "The array of labels, if not 'labels' or 'y'."),
        ]

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def client_options(what: str) -> Decorator:
    """--samples and --classes of the client that ``what`` is sized for."""

    def decorate(function: Function) -> Function:
        for name, default, many in (("--classes", 10, "classes"), ("--samples", 500, "samples")):
            function = click.option(
                name,
                type=click.IntRange(min=1),
                default=default,
                metavar="N",
                help=f"With {what}: how many {many} a client has.",
            )(function)
        return function

    return decorate


def batch_option(function: Function) -> Function:
    """--batch N."""
    return click.option(
        "--batch",
        type=click.IntRange(min=1),
        default=4096,
        metavar="N",
        help="Samples read at a time; the result does not depend on it.",
    )(function)


def trust_option(function: Function) -> Function:
    """--trust-features."""
    return click.option(
        "--trust-features",
        is_flag=True,
        help="Go on if the features or the encoder do not say which backbone they are of.",
    )(function)


def _text(name: str, text: str, default: str | None = None) -> Decorator:
    return click.option(name, metavar="NAME", default=default, help=text)


def refuse_overwriting(output: Path, *inputs: Path | None) -> None:
    """Wrong usage if ``output`` is one of ``inputs``: data should not be lost to a slip."""
    for path in inputs:
        if path is not None and path.exists() and output.exists() and output.samefile(path):
            raise click.UsageError(f"{output} would overwrite an input; choose another name")
