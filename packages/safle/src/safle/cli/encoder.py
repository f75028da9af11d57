"""``safle encoder``: make the encoder that all clients share, once, before the round."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rich_click as click

from safle.basics.settings import Setting, describe
from safle.cli import options as opt
from safle.cli.facts import encoder_facts, warn_of_coarse, warn_of_no_classes
from safle.cli.readers import find_table
from safle.cli.session import Session, command, examples
from safle.encoders.base import Encoder
from safle.encoders.calibration import (
    Calibration,
    declared_range,
    of_schema,
    public_sample,
    read_moments,
)
from safle.encoders.linear import LinearEncoder
from safle.encoders.registry import DEFAULT_KIND, default_kind, kind_named, kinds, make_encoder
from safle.errors import TableError
from safle.statistics.histogram import Histogram
from safle.tables.checks import check_source
from safle.tables.reading import open_table
from safle.tables.schema import Schema
from safle.wire.formats import read

GROUP_EXAMPLES = examples(
    "safle encoder make --range 0 16 --features 64 -o encoder.safetensors",
    "safle inspect encoder.safetensors",
)
EXAMPLES = (
    "safle encoder make --range 0 16 --features 64 -o encoder.safetensors",
    "safle encoder make --moments moments.safetensors -o encoder.safetensors",
    "safle encoder make --histogram total.hist -o encoder.safetensors",
    "safle encoder make --schema schema.toml -o encoder.safetensors",
    "safle encoder make --sample public.npz --kind embedding -o encoder.safetensors",
    "safle encoder make --backbone resnet18.onnx --public photographs/ -o encoder.safetensors",
)
RANGE = "Calibrate by a declared range, the same for every feature; needs --features."
MOMENTS = "Calibrate by a file of moments, such as 'safle backbones moments' writes."
SCHEMA = (
    "Calibrate by the ranges and levels of a schema: an encoder of kind table; of another --kind, "
    "if all columns are numbers without gaps."
)
CLASSES = "The allowed labels: every client refuses others."
HISTOGRAM = "Calibrate by the clients' summed histograms."
SOURCE = "Only for features made by the same backbone as those in this file."
PUBLISHABLE = (
    "For sums that are published with noise (safle publish): a linear encoder, with the transform "
    "and the norm clip that suit the features, unless they are given."
)
OUTPUT = "The encoder file to write; give it to every client."
SAMPLE = "Calibrate by public features, or by public images and --backbone."
KIND_DEFAULT = (
    "products, where a --sample has 250 samples and 128 features; table with --schema; else "
    f"{DEFAULT_KIND}"
)
SOURCES = ("range", "moments", "sample", "histogram", "schema")


def _settings_by_name() -> dict[str, dict[str, Setting]]:
    """The name of a setting -> kind -> its declaration there."""
    by_name: dict[str, dict[str, Setting]] = {}
    for kind, encoder in kinds().items():
        for name, declared in describe(encoder.settings_type).items():
            by_name.setdefault(name, {})[kind] = declared
    return by_name


def _kind_options() -> opt.Decorator:
    """--kind, and an option for every setting that a kind declares."""
    summaries = "; ".join(f"{name}: {kind.summary}" for name, kind in kinds().items())
    choice: dict[str, Any] = {"type": click.Choice([*kinds()]), "show_default": KIND_DEFAULT}
    kind = opt.option("--kind", f"{summaries}.", "NAME", panel=opt.MAIN_PANEL, **choice)
    settings = [_make_option(name, by_kind) for name, by_kind in _settings_by_name().items()]
    return opt.options(kind, *settings)


def _make_option(name: str, by_kind: dict[str, Setting]) -> opt.Decorator:
    defaults = {k: s.chosen if s.default is None else s.default for k, s in by_kind.items()}
    all_defaults = "; ".join(f"{default} ({kind})" for kind, default in defaults.items())
    same_default = len({*defaults.values()}) == 1
    only_kinds = f"{', '.join(by_kind)}: " if len(by_kind) < len(kinds()) else ""
    first = next(iter(by_kind))
    kind_panel = f"Only for --kind {first}: {kind_named(first).summary.partition(':')[0]}"
    settings: dict[str, Any] = {
        "show_default": str(defaults[first]) if same_default else all_defaults,
        "panel": opt.FINER_PANEL if DEFAULT_KIND in by_kind else kind_panel,
        "type": _choose_type([*by_kind.values()]),
    }
    metavar: str | None = "NAME"
    flag = f"--{name.replace('_', '-')}"
    if settings["type"] is click.BOOL:
        flag = f"{flag}/--no-{flag[2:]}"
        metavar = None
        settings |= {"is_flag": True, "default": None}
    elif isinstance(settings["type"], click.IntRange):
        metavar = "N"
    elif isinstance(settings["type"], click.Choice):
        metavar = "|".join(map(str, settings["type"].choices))
    text = only_kinds + " ".join(dict.fromkeys(s.help for s in by_kind.values()))
    return opt.option(flag, text, metavar, **settings)


def _choose_type(settings: Sequence[Setting]) -> click.ParamType[Any]:
    """A type that suits all settings of one name; each kind checks its own limits."""
    if all(s.choices for s in settings):
        return click.Choice([*dict.fromkeys(c for s in settings for c in s.choices)])
    if settings[0].type is not int:
        return click.BOOL if settings[0].type is bool else click.STRING
    least = [s.minimum for s in settings]
    most = [s.maximum for s in settings]
    return click.IntRange(
        None if None in least else min(x for x in least if x is not None),
        None if None in most else max(x for x in most if x is not None),
    )


@click.group(epilog=GROUP_EXAMPLES)
def encoder() -> None:
    """Make the encoder: the function that all clients share.

    It turns features into integer codes, is a small file, and its fingerprint travels
    with every count; [b]safle inspect[/b] shows it.
    """


@command(*EXAMPLES, of=encoder)
@opt.option("--range", RANGE, "LOW HIGH", type=(float, float), panel=opt.MAIN_PANEL)
@opt.option("--features", "How many features.", "D", type=opt.COUNT, panel=opt.MAIN_PANEL)
@opt.file_option("--moments", MOMENTS, panel=opt.MAIN_PANEL)
@opt.option("--sample --public", SAMPLE, "PLACE", type=opt.PLACE, panel=opt.MAIN_PANEL)
@opt.backbone_option(show_default="none", panel=opt.MAIN_PANEL)
@opt.file_option("--histogram", HISTOGRAM, panel=opt.MAIN_PANEL)
@opt.file_option("--schema", SCHEMA, panel=opt.MAIN_PANEL)
@opt.written("-o --output", OUTPUT, required=True, panel=opt.MAIN_PANEL)
@_kind_options()
@opt.option(
    "--only-classes",
    CLASSES,
    "A,B,C",
    show_default="the schema's, or any",
    panel=opt.FINER_PANEL,
)
@opt.flag("--publishable", PUBLISHABLE, panel=opt.FINER_PANEL)
@opt.file_option("--features-source", SOURCE, show_default="the sample's", panel=opt.FINER_PANEL)
@opt.table_options(panel="How the sample is read")
def make(session: Session, /, output: Path, kind: str | None, **options: Any) -> None:
    """Make an encoder, by --range, --moments, --sample, --histogram or --schema.

    Thresholds must not come from one client's private data: declare them, take a backbone's
    moments or a public sample, or let every client send a histogram ([b]safle histogram[/b]) and
    sum those.
    """
    encoder: Encoder
    _check_usage(options)
    kind = _find_kind(kind, options)
    given = _find_settings(options)
    if kind is not None:
        _check_settings(kind, given)
    calibration, source = _read_calibration(session, options)
    _check_width(calibration, options["features"])
    if options["features_source"] is not None:
        found = _read_source(options["features_source"], options)
        if source:
            check_source(source, found, where=str(options["features_source"]))
        source = found
    classes = opt.parse_classes(options["only_classes"])
    if calibration.contract.schema is not None:
        _check_schema(session, calibration.contract.schema, options)
    if options["publishable"]:
        encoder = LinearEncoder.publishable(calibration, **given)
    else:
        chosen = kind or default_kind(calibration, given)
        encoder = make_encoder(calibration, chosen, class_count=len(classes or ()), **given)
    encoder = encoder.declare(source=source, classes=classes)
    encoder.save(output)
    session.facts(f"{output}: encoder", encoder_facts(encoder))


def _check_schema(session: Session, schema: Schema, options: dict[str, Any]) -> None:
    if options["publishable"] and any(column.is_category for column in schema.columns):
        raise click.UsageError(
            "--publishable makes a linear encoder, and this schema has levels: take --kind table "
            "--norm-clip 1 --units 1 instead"
        )
    if not schema.classes and not options["only_classes"]:
        warn_of_no_classes(session, schema.label_column)


def _check_usage(options: dict[str, Any]) -> None:
    given = [name for name in SOURCES if options[name] is not None]
    if len(given) != 1:
        named = " and ".join(f"--{name}" for name in given) or "none of them"
        raise click.UsageError(
            f"calibrate by exactly one of --{', --'.join(SOURCES)}; found {named}"
        )
    if given[0] == "range" and options["features"] is None:
        raise click.UsageError("--range needs --features, the number of features")
    if options["publishable"] and given[0] == "histogram":
        raise click.UsageError(
            "--publishable does not go with --histogram: what the clients' histograms say about "
            "their data is not covered by the noise; use --range, --schema or --sample"
        )


def _find_kind(given: str | None, options: dict[str, Any]) -> str | None:
    """--publishable implies linear: others need too much noise. --schema alone implies table."""
    if options["publishable"]:
        if given not in (None, "linear"):
            raise click.UsageError(
                f"--publishable makes a linear encoder; leave out --kind {given}"
            )
        return "linear"
    return "table" if given is None and options["schema"] is not None else given


def _find_settings(options: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given on the command line."""
    # A program may register a kind after the command has its options.
    return {name: options[name] for name in _settings_by_name() if options.get(name) is not None}


def _check_settings(kind: str, given: dict[str, Any]) -> None:
    """Refuse settings of another kind."""
    for name in given:
        if name not in describe(kind_named(kind).settings_type):
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} does not apply to a {kind} encoder; leave it out")


def _read_calibration(session: Session, options: dict[str, Any]) -> tuple[Calibration, str]:
    """The calibration that the one given option names, and its source; empty if it has none."""
    if options["range"] is not None:
        low, high = options["range"]
        return declared_range(low, high, options["features"]), ""
    if options["moments"] is not None:
        moments = read_moments(options["moments"])
        return moments, moments.contract.source
    if options["schema"] is not None:
        return of_schema(Schema.read(options["schema"])), ""
    if options["histogram"] is not None:
        histogram = read(options["histogram"], Histogram)
        warn_of_coarse(session, histogram)
        return histogram.calibration(), ""
    place, how = find_table(session, options["sample"], options, labelled=False)
    table = open_table(place, **how)
    table = table.arrange(sorted(table.names), where=str(options["sample"]))
    return public_sample(np.asarray(table.features), names=table.names), table.source


def _check_width(calibration: Calibration, width: int | None) -> None:
    if width is not None and width != calibration.feature_dim:
        raise click.UsageError(
            f"--features {width}, but the calibration has {calibration.feature_dim}"
        )


def _read_source(path: Path, options: dict[str, Any]) -> str:
    """The source of the features in a file, which must name one."""
    # Only the file's metadata matter here: any split will do.
    source = open_table(path, **opt.pick_table_options(options)).source
    if not source:
        raise TableError(
            f"{path}: does not say which backbone made it; expected a file that "
            "'safle features' wrote"
        )
    return source
