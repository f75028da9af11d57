"""``safle encoder``: make what all clients count with, once, before the round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click
from click.core import ParameterSource
from click.globals import get_current_context

from safle.cli import options as opt
from safle.cli.encoder_options import given_calibration, given_settings, given_source, kind_options
from safle.cli.facts import encoder_facts, warn_of_coarse
from safle.cli.reading import declared_classes
from safle.cli.session import Session
from safle.encoders import Encoder, LinearEncoder, make_encoder
from safle.encoders.calibration import Calibration
from safle.encoders.histogram import Histogram
from safle.encoders.random_features import suits_by_class
from safle.encoders.registry import kind_named
from safle.site.rehearsal import units_within

GROUP_EXAMPLES = opt.examples(
    "safle encoder make --range 0 16 --features 64 -o encoder.safetensors",
    "safle inspect encoder.safetensors",
)
EXAMPLES = (
    "safle encoder make --range 0 16 --features 64 -o encoder.safetensors",
    "safle encoder make --moments moments.safetensors -o encoder.safetensors",
    "safle encoder make --histogram total.hist --megabytes 5 -o encoder.safetensors",
    "safle encoder make --schema schema.toml -o encoder.safetensors",
    "safle encoder make --ranges ranges.csv -o encoder.safetensors",
    "safle encoder make --sample public.npz --kind embedding -o encoder.safetensors",
)
RANGE = "Calibrate by a declared range, the same for every feature; needs --features."
RANGES = "Calibrate by a range for each feature: .csv (name,low,high) or .toml (a schema)."
MEAN = "Calibrate by a mean, the same for every feature; needs --deviation and --features."
MOMENTS = "Calibrate by a file of moments, such as 'safle backbones moments' writes."
SCHEMA = "Calibrate by the ranges and levels of a schema, for tables of categories and gaps."
CLASSES = "The only labels there may be: every client refuses others."
HISTOGRAM = "Calibrate by the clients' summed histograms."
SOURCE = "Only for features made by the same backbone as those in this file."
MEGABYTES = "As many random features as a client of --samples samples can send in so many MB."
PUBLISHABLE = (
    "For sums that are published with noise (safle publish): a linear encoder, with the transform "
    "and the norm clip that suit the features, unless they are given."
)
COUNTED_APART = " Without it, too: from 20 on, random features count them apart (--by-class)."
OUTPUT = "The encoder file to write; give it to every client."
SOURCES = ("range", "ranges", "moments", "mean", "sample", "histogram", "schema")


def _most(names: str, text: str, metavar: str, **settings: Any) -> opt.Decorator:
    return opt.option(names, text, metavar, panel=opt.MOST, **settings)


@click.group(epilog=GROUP_EXAMPLES)
def encoder() -> None:
    """Make the encoder: the function that all clients share.

    It turns features into integer codes, is a small file, and its fingerprint travels
    with every count; [b]safle inspect[/b] shows it.
    """


@opt.command(*EXAMPLES, of=encoder)
@_most("--range", RANGE, "LOW HIGH", type=(float, float))
@_most("--ranges", RANGES, "FILE", type=opt.FILE)
@_most("--features", "How many features.", "D", type=opt.COUNT)
@_most("--moments", MOMENTS, "FILE", type=opt.FILE)
@_most("--sample", "Calibrate by a table of public features.", "FILE", type=opt.FILE)
@_most("--histogram", HISTOGRAM, "FILE", type=opt.FILE)
@_most("--schema", SCHEMA, "FILE", type=opt.FILE)
@_most("--mean", MEAN, "NUMBER", type=float)
@_most("--deviation", "Goes with --mean.", "NUMBER", type=float)
@opt.written("-o --output", OUTPUT, "encoder", required=True, panel=opt.MOST)
@_most("--megabytes", MEGABYTES, "MB", type=opt.POSITIVE)
@kind_options()
@opt.client_options("--megabytes", opt.FINER, COUNTED_APART)
@opt.option(
    *("--only-classes", CLASSES, "A,B,C"), show_default="the schema's, or any", panel=opt.FINER
)
@opt.option("--publishable", PUBLISHABLE, is_flag=True, panel=opt.FINER)
@opt.option(
    *("--features-source", SOURCE, "FILE"),
    type=opt.FILE,
    show_default="the sample's",
    panel=opt.FINER,
)
@opt.table_options(labels=False, panel="How the sample is read")
def make(session: Session, /, output: Path, kind: str, **options: Any) -> None:
    """Make an encoder, by --range, --ranges, --moments, --sample, --histogram, --schema or --mean.

    Thresholds must not come from one client's private data: declare them, take a backbone's
    moments or a public sample, or let every client send a histogram ([b]safle histogram[/b]) and
    sum those.
    """
    encoder: Encoder
    _check_usage(options)
    if options["publishable"] or options["schema"] is not None:
        kind = _implied_kind(kind, options)
    settings = given_settings(kind, options)
    for name in ("ranges", "moments", "sample", "histogram", "schema", "features_source"):
        opt.refuse_overwriting(output, options[name])
    calibration, source = given_calibration(options), given_source(options)
    classes = declared_classes(options["only_classes"]) or ()
    settings |= _by_class(kind, settings, calibration.feature_dim, len(classes))
    if isinstance(calibration, Histogram):
        warn_of_coarse(session, calibration)
    if options["megabytes"] is not None:
        settings["units"] = _units(session, calibration, kind, settings, options)
    if options["publishable"]:
        encoder = LinearEncoder.publishable(calibration, **settings)
    else:
        encoder = make_encoder(calibration, kind, **settings)
    encoder = encoder.with_source(source)
    if classes:
        encoder = encoder.with_classes(classes)
    encoder.save(output)
    session.facts(f"{output}: encoder", encoder_facts(encoder))


def _implied_kind(kind: str, options: dict[str, Any]) -> str:
    """--schema implies table, --publishable implies linear: others need too much noise."""
    given = get_current_context().get_parameter_source("kind") is not ParameterSource.DEFAULT
    option, implied = ("publishable", "linear") if options["publishable"] else ("schema", "table")
    if given and kind != implied:
        raise click.UsageError(f"--{option} makes a {implied} encoder; leave out --kind {kind}")
    if options["schema"] is not None:
        if options["publishable"]:
            raise click.UsageError("--publishable does not go with --schema")
        return implied
    if options["histogram"] is not None:
        raise click.UsageError(
            "--publishable does not go with --histogram: what the clients' histograms say about "
            "their data is not covered by the noise; use --range, --mean or --sample"
        )
    return implied


def _by_class(kind: str, settings: dict[str, Any], features: int, declared: int) -> dict[str, bool]:
    """Whether classes are counted apart, where the options say how many there are."""
    setting = kind_named(kind).settings_type.declared().get("by_class")
    if setting is None or setting.default is not None or "by_class" in settings:
        return {}
    context = get_current_context()
    if context.get_parameter_source("classes") is not ParameterSource.DEFAULT:
        declared = declared or context.params["classes"]
    return {"by_class": suits_by_class(features, declared)} if declared else {}


def _units(
    session: Session,
    calibration: Calibration,
    kind: str,
    settings: dict[str, Any],
    options: dict[str, Any],
) -> int:
    """As many random features as --megabytes allow, found by rehearsals."""
    if "units" not in kind_named(kind).settings_type.declared():
        raise click.UsageError(f"--megabytes does not apply to a {kind} encoder; leave it out")
    session.note("rehearsing what a client would send ...")
    most = make_encoder(calibration, kind, **settings).settings.to_dict()["units"]
    return units_within(
        lambda units: make_encoder(calibration, kind, **settings | {"units": units}),
        1e6 * options["megabytes"],
        most_units=most,
        samples=options["samples"],
        classes=options["classes"],
    )


def _check_usage(options: dict[str, Any]) -> None:
    given = [name for name in SOURCES if options[name] is not None]
    if len(given) != 1:
        found = " and ".join(f"--{name}" for name in given) or "none of them"
        raise click.UsageError(
            f"calibrate by exactly one of --{', --'.join(SOURCES)}; found {found}"
        )
    if (options["mean"] is None) != (options["deviation"] is None):
        raise click.UsageError("--mean and --deviation go together")
    if options["megabytes"] is not None and options["units"] is not None:
        raise click.UsageError("--megabytes chooses the units: leave out --units")
    if given[0] in ("range", "mean") and options["features"] is None:
        raise click.UsageError(f"--{given[0]} needs --features, the number of features")
