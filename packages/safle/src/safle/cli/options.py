"""Options that several commands share, and the rule of overwriting."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import rich_click as click

from safle.cli.session import Session

Function = TypeVar("Function", bound=Callable[..., Any])
MOST, FINER = "What most need", "Finer settings"
"""Panels of the options of a command that has many."""
COUNT = click.IntRange(min=1)
POSITIVE = click.FloatRange(min=0, min_open=True)
# Existence is not click's to check: a missing file is an error (1), not wrong usage (2).
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


class Decorator(Protocol):
    """Adds options to a command's function."""

    def __call__(self, function: Function, /) -> Function: ...


def option(names: str, text: str, metavar: str | None = None, **settings: Any) -> Decorator:
    """An option by its names, as in ``"--out folder"``, with its help."""
    return click.option(*names.split(), help=text, metavar=metavar, **settings)


def options(*several: Decorator) -> Decorator:
    """Several options as one, in the order in which help lists them."""

    def decorate(function: Function) -> Function:
        for one in reversed(several):
            function = one(function)
        return function

    return decorate


def examples(*commands: str, title: str = "") -> str:
    """The end of a command's help: what a user would type."""
    heading = title or ("Example:" if len(commands) == 1 else "Examples:")
    return "\n\n".join([heading, *(f"  {command}" for command in commands)])


def _remember(context: click.Context, option: click.Parameter, value: bool) -> None:
    session = context.find_object(Session)
    if value and session is not None and option.name is not None:
        setattr(session, option.name, True)


def session_options(*, hidden: bool) -> list[click.Option]:
    """--quiet, --debug and --force."""
    explained = {
        "--quiet": "Only results and errors: no notes, no progress.",
        "--debug": "Show where an error comes from.",
        "--force": "Overwrite a file of another kind.",
    }
    return [
        click.RichOption(
            [name],
            is_flag=True,
            # Before the options that name files.
            is_eager=True,
            expose_value=False,
            callback=_remember,
            help=text,
            hidden=hidden,
        )
        for name, text in explained.items()
    ]


class Command(click.RichCommand):
    """A command; it takes --quiet, --debug and --force after its own name as well."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        # What every call needs comes before what some call for.
        first = [click.RichOptionPanel(name) for name in ("Arguments", "Options")]
        super().__init__(*args, **{"panels": first, **settings})
        own = {name for parameter in self.params for name in parameter.opts}
        self.params += [o for o in session_options(hidden=True) if not own & {*o.opts}]


def command(
    *lines: str,
    name: str | None = None,
    panel: str | None = None,
    of: click.RichGroup | None = None,
) -> Callable[[Callable[..., Any]], click.RichCommand]:
    """A command with examples, ``of`` a group or in a panel of the help.

    Its function takes the session first.
    """
    make: Callable[..., Any] = click.command if of is None else of.command

    def decorate(function: Callable[..., Any]) -> click.RichCommand:
        settings: dict[str, Any] = {"cls": Command, "panel": panel, "epilog": examples(*lines)}
        made: click.RichCommand = make(name, **settings)(click.pass_obj(function))
        return made

    return decorate


def _check_place(
    kinds: tuple[str, ...], context: click.Context, _option: click.Parameter, path: Path | None
) -> Path | None:
    """Refuse a place that cannot be written to before the work, not after it."""
    if path is None:
        return None
    session = context.find_object(Session)
    if path.is_file() and path.stat().st_size and not (session and session.force):
        _check_kind(path, kinds)
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such directory", str(path.parent))
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "not allowed to write here", str(path.parent))
    return path


def _check_kind(path: Path, kinds: tuple[str, ...]) -> None:
    from safle.cli.kinds import kind_of

    found = kind_of(path)
    if found not in kinds:
        shown = f"a file of kind {found}" if found else "no file of this kind"
        raise click.UsageError(
            f"{path} is there, and is {shown}: choose another name, or overwrite it with --force"
        )


def written(names: str, text: str, *kinds: str, **settings: Any) -> Decorator:
    """An option that names a file to write.

    It replaces a file of one of ``kinds``, as `safle.cli.kinds.kind_of` names them, and no other.
    """
    check = partial(_check_place, kinds)
    return option(names, text, "FILE", type=FILE, callback=check, **settings)


def output(text: str, *kinds: str) -> Decorator:
    """-o FILE; see `written`."""
    return written("-o --output", text, *kinds, required=True)


def encoder_file(text: str = "The encoder that all clients share.") -> Decorator:
    """--encoder FILE."""
    return option("--encoder encoder_path", text, "FILE", type=FILE, required=True)


def client_options(what: str, panel: str | None = None, about_classes: str = "") -> Decorator:
    """--samples and --classes of the client that ``what`` is sized for."""
    made: dict[str, Any] = {"metavar": "N", "type": COUNT, "panel": panel}
    samples = f"With {what}: how many samples a client has."
    classes = f"With {what}: how many classes a client has.{about_classes}"
    return options(
        option("--samples", samples, default=500, **made),
        option("--classes", classes, default=10, **made),
    )


def column_options(panel: str | None = None, label_default: str = "") -> Decorator:
    """Which columns of a table are no features."""
    shown = (
        {"default": label_default} if label_default else {"show_default": "the schema's, or label"}
    )
    label: dict[str, Any] = {"panel": panel, **shown}
    ignored = "A column that is no feature; may be said again."
    named = "The column that names the samples; no feature."
    return options(
        option("--label-column", "The column of labels (.csv, .parquet).", "NAME", **label),
        option("--ignore", ignored, "NAME", multiple=True, panel=panel),
        option("--id id_column", named, "NAME", panel=panel),
    )


def table_options(*, labels: bool, panel: str | None = None) -> Decorator:
    """How a table is read; with ``labels``, where labels and weights are."""
    split = "Which <split>_features (.npz, .safetensors), if there are several."
    key = "The array or list column of features, if not 'features' or 'X'."
    reading = [
        option("--split", split, "NAME", panel=panel),
        option("--features-key", key, "NAME", panel=panel),
        column_options(panel),
    ]
    if labels:
        second = "A second file with the labels: .npy, or .txt with one per line."
        key = "The array of labels, if not 'labels' or 'y'."
        often = "The column of whole numbers that say how often each sample is counted; no feature."
        reading += [
            option("--labels", second, "FILE", type=FILE, panel=panel),
            option("--labels-key", key, "NAME", panel=panel),
            option("--weight-column", often, "NAME", panel=panel),
        ]
    return options(*reading)


TABLE_OPTIONS = (
    *("split", "features_key", "label_column", "ignore", "id_column"),
    *("labels", "labels_key", "weight_column"),
)


def selected(options: dict[str, Any]) -> dict[str, Any]:
    """The table options among ``options``: how `safle.tables.open_table` reads."""
    return {name: options[name] for name in TABLE_OPTIONS if name in options}


store_argument: Decorator = click.argument(
    "folder", type=FOLDER, metavar="STORE", help="The store's folder."
)
model_argument: Decorator = click.argument("model", type=FILE, help="A model file.")
FEATURES = "Features: .npz, .npy, .safetensors, .parquet or .csv."
features_argument: Decorator = click.argument(
    # A folder is not click's to refuse: the reader says what to do with images.
    "features",
    type=click.Path(path_type=Path),
    help=FEATURES,
)
batch_option = option(
    "--batch",
    "Samples read at a time; the result does not depend on it.",
    "N",
    type=COUNT,
    default=4096,
)
outside_option = option(
    "--allow-outside",
    "Go on if more than a tenth of a column's values lie outside its range or levels.",
    is_flag=True,
)
trust_option = option(
    "--trust-features",
    "Go on if the features or the encoder do not say which backbone they are of.",
    is_flag=True,
)
policy_option = option(
    "--policy policy_path",
    "What this site lets out: see docs/release.md. Refuses what breaks a rule.",
    "FILE",
    type=FILE,
    show_default="$SAFLE_POLICY, or all",
)
classes_option = option(
    "--classes",
    "The only labels there may be; anything else is refused.",
    "A,B,C",
    show_default="all",
)
_ROUND = {
    "--round": "The round file that the operator has declared.",
    "--operator": "The operator's public key, from a source you trust.",
    "--key": "Your private key, whose public half is in the round.",
}


def round_options(*, key: bool = True, **settings: Any) -> Decorator:
    """--round FILE and --operator FILE and, with ``key``, --key FILE."""
    named = {name: text for name, text in _ROUND.items() if key or name != "--key"}
    return options(
        *(
            option(f"{name} {name[2:]}_path", text, "FILE", type=FILE, **settings)
            for name, text in named.items()
        )
    )


grid_options = options(
    option("--low", "For histograms: lower end of the grid of every feature.", "N", type=float),
    option("--high", "For histograms: upper end of the grid of every feature.", "N", type=float),
    option(
        "--ranges",
        "For histograms: a grid for each feature, by a file of ranges: .csv (name,low,high) or "
        ".toml (a schema).",
        "FILE",
        type=FILE,
    ),
    option("--bins", "For histograms: equal bins between the ends.", "N", type=int, default=256),
)
seed_option = option("--seed", "Seed of the split.", "N", type=click.IntRange(min=0), default=0)


def deadline_option(text: str) -> Decorator:
    """--deadline SECONDS of a round."""
    return option("--deadline", text, "SECONDS", type=POSITIVE, default=3600.0)


def alpha_option(text: str) -> Decorator:
    """--alpha A of a Dirichlet partition."""
    return option("--alpha", text, "A", type=POSITIVE, default=0.1)


def refuse_overwriting(output: Path | None, *inputs: Path | None) -> None:
    """Wrong usage if ``output`` is one of ``inputs``: data should not be lost to a slip."""
    if output is None or not output.exists():
        return
    for path in inputs:
        if path is not None and path.exists() and output.samefile(path):
            raise click.UsageError(f"{output} would overwrite an input; choose another name")
