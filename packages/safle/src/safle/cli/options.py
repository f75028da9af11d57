"""Options that several commands share, and functions that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.basics.paths import naming
from safle.cli.session import Written
from safle.errors import InvalidInput

if TYPE_CHECKING:
    from safle.tables.checks import ClassName

MAIN_PANEL = "What most need"
FINER_PANEL = "Finer settings"
"""Panels of the options of a command that has many."""
COUNT = click.IntRange(min=1)
POSITIVE = click.FloatRange(min=0, min_open=True)
# click does not check that files exist: a missing file is an error (1), not wrong usage (2).
PLACE = click.Path(path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


Decorator = Callable[[Any], Any]
"""Adds options to a command's function."""


def option(names: str, text: str, metavar: str | None = None, **settings: Any) -> Decorator:
    """An option by its names, as in ``"--out folder"``, with its help."""
    return click.option(*names.split(), help=text, metavar=metavar, **settings)


def flag(names: str, text: str, **settings: Any) -> Decorator:
    """An option without a value."""
    return option(names, text, is_flag=True, **settings)


def file_option(names: str, text: str, **settings: Any) -> Decorator:
    """An option that names a file to read."""
    return option(names, text, "FILE", type=FILE, **settings)


def options(*several: Decorator) -> Decorator:
    """Several options as one, in the order in which help lists them."""

    def decorate(function: Any) -> Any:
        for one in reversed(several):
            function = one(function)
        return function

    return decorate


def written(names: str, text: str, **settings: Any) -> Decorator:
    """An option that names a file to write; one that exists is refused unless --force is given.

    A file that the command reads is always refused.
    """
    return option(names, text, "FILE", type=FILE, cls=Written, **settings)


def output(text: str, **settings: Any) -> Decorator:
    """-o FILE; see `written`."""
    return written("-o --output", text, required=True, **settings)


def encoder_file(text: str = "The encoder that all clients share.") -> Decorator:
    """--encoder FILE."""
    return file_option("--encoder encoder_path", text, required=True)


def names_option(names: str, text: str, **settings: Any) -> Decorator:
    """An option of names of columns, separated by commas, which may be repeated."""
    return option(names, text, "A,B,C", multiple=True, **settings)


def column_options(shown: str = "the schema's, or label", **settings: Any) -> Decorator:
    """Which columns of a table are not features."""
    label = {"show_default": shown, **settings}
    ignored = "Columns that are not features."
    named = "The column that names the samples; it is not a feature."
    return options(
        option("--label-column", "The column of labels (.csv, .parquet).", "NAME", **label),
        names_option("--ignore", ignored, **settings),
        option("--id id_column", named, "NAME", **settings),
    )


def table_options(**settings: Any) -> Decorator:
    """How a table is read."""
    split = "Which <split>_features (.npz, .safetensors), if there are several."
    return options(option("--split", split, "NAME", **settings), column_options(**settings))


def pick_table_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `table_options` among ``options``: how `safle.tables.open_table` reads."""
    names = ("split", "label_column", "ignore", "id_column")
    return {name: options[name] for name in names if name in options}


BACKBONE = (
    "The backbone, if FEATURES are images: its name, or the file that 'safle backbones export' "
    "wrote. Needs the package safle-images."
)


def backbone_option(**settings: Any) -> Decorator:
    """The option --backbone NAME|FILE.onnx."""
    shown = {"show_default": "the encoder's, if it is efficientnet_lite0", **settings}
    return option("--backbone", BACKBONE, "NAME|FILE.onnx", **shown)


store_argument: Decorator = click.argument(
    "folder", type=FOLDER, metavar="STORE", help="The store's folder."
)
model_argument: Decorator = click.argument("model", type=FILE, help="A model file.")
FEATURES = (
    "Features: .npz, .safetensors, .parquet or .csv; or images, if the encoder is for a backbone: "
    "a folder, an archive, a list of paths (package safle-images)."
)
features_argument: Decorator = click.argument("features", type=PLACE, help=FEATURES)
OUTSIDE = "Go on if more than a tenth of a column's values lie outside its range or levels."
TRUST = "Go on if the features or the encoder do not say which backbone made them."
trust_options = options(flag("--allow-outside", OUTSIDE), flag("--trust-features", TRUST))
POLICY = "The rules by which files may leave this site: see docs/release.md."
policy_option = file_option("--policy policy_path", POLICY, show_default="$SAFLE_POLICY, or all")
CLASSES = "The allowed labels; all others are refused."
classes_option = option("--classes", CLASSES, "A,B,C", show_default="all")
EMPTY = "Write a file that counts no samples; it changes nothing in a sum."
counting_options = options(
    table_options(),
    classes_option,
    flag("--allow-empty", EMPTY),
    trust_options,
    policy_option,
)
"""How a site reads its table, and by which rules its counts leave."""
grid_options = options(
    option("--low", "For histograms: lower end of the grid of every feature.", "N", type=float),
    option("--high", "For histograms: upper end of the grid of every feature.", "N", type=float),
    file_option("--schema", "For histograms: a grid for each feature, by the ranges of a schema."),
    option("--bins", "For histograms: equal bins between the ends.", "N", type=int, default=256),
)


def parse_classes(text: str | None, like: Any = None) -> Sequence[ClassName] | None:
    """``a,b,c`` as class names; as text if the labels ``like`` are text."""
    import numpy as np

    from safle.tables.columns import parse_labels

    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise InvalidInput(f"classes {text!r}; expected names separated by commas")
    if like is not None and len(like) and np.asarray(like).dtype.kind == "U":
        return names
    parsed: Sequence[ClassName] = parse_labels(names, where="the list of classes").tolist()
    return parsed


def parse_grid(options: dict[str, Any]) -> dict[str, Any] | None:
    """Arguments of `Histogram.empty` by --low and --high, or --schema; None without them."""
    from safle.encoders.calibration import require_numbers
    from safle.tables.schema import Schema

    low, high, schema = (options[name] for name in ("low", "high", "schema"))
    if low is None and high is None and schema is None:
        return None
    if (low is None) != (high is None) or (low is None) == (schema is None):
        raise click.UsageError("give --low and --high, or --schema FILE")
    names: Sequence[str] = ()
    if schema is not None:
        with naming(schema):
            declared = Schema.read(schema)
            require_numbers(declared)
        low, high = declared.ranges
        names = declared.names
    return {"low": low, "high": high, "names": names, "bins": options["bins"]}


MOST_SAMPLES = "Refuse a client that claims more samples."
MOST_CLASSES = "Refuse a client after which there would be more classes."
limit_options = options(
    option("--most-samples", MOST_SAMPLES, "N", type=COUNT, show_default="10 million"),
    option("--most-classes", MOST_CLASSES, "N", type=COUNT, show_default="1,000"),
    option("--only-classes", "Refuse all other classes.", "A,B,C", show_default="any"),
    flag("--allow-empty", "Accept contributions without samples.", default=None),
)
"""What a client may claim, for every command that admits contributions."""


def take_limits(options: dict[str, Any], before: Any = None) -> Any:
    """Take the `Limits` out of a command's ``options``; limits not given are as ``before``."""
    from safle.server.limits import Limits

    names = ("most_samples", "most_classes", "only_classes", "allow_empty")
    given = {name: value for name in names if (value := options.pop(name, None)) is not None}
    if "only_classes" in given:
        given["classes"] = parse_classes(given.pop("only_classes"))
    return replace(before or Limits(), **given)


seed_option = option("--seed", "Seed of the split.", "N", type=click.IntRange(min=0), default=0)
