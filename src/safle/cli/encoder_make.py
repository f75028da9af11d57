"""``safle encoder make``: an encoder file from a calibration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli.options import (
    FILE,
    Command,
    client_options,
    output,
    refuse_overwriting,
    table_options,
)
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.encoders.calibration import Calibration

EXAMPLE = """\
Examples:

  safle encoder make --range 0 16 --features 64 -o encoder.safetensors

  safle encoder make --histogram total.hist --megabytes 5 -o encoder.safetensors

  safle encoder make --sample public.npz --kind embedding -o encoder.safetensors
"""
SOURCES = ("range", "mean", "sample", "histogram")
OPTIONS = {
    "random-features": ("units", "megabytes", "bits", "transform", "seed"),
    "embedding": ("bucketing", "buckets", "group_size", "seed"),
    "linear": ("fraction_bits", "transform"),
    "hybrid": ("bucketing", "buckets", "group_size", "seed", "fraction_bits", "transform"),
}
"""What each kind of encoder can be told."""


@click.command(cls=Command, epilog=EXAMPLE)
@click.option(
    "--range",
    type=(float, float),
    metavar="LOW HIGH",
    help="Calibrate by a declared range, the same for every feature; needs --features.",
)
@click.option("--features", type=click.IntRange(min=1), metavar="D", help="How many features.")
@click.option(
    "--mean",
    metavar="NUMBER|FILE",
    help="Calibrate by moments: a number (needs --features) or a .npy or .txt file.",
)
@click.option("--deviation", metavar="NUMBER|FILE", help="Goes with --mean.")
@click.option(
    "--sample", type=FILE, metavar="FILE", help="Calibrate by a table of public features."
)
@click.option(
    "--histogram", type=FILE, metavar="FILE", help="Calibrate by the clients' summed histograms."
)
@click.option(
    "--features-source",
    type=FILE,
    metavar="FILE",
    show_default="the sample's",
    help="Only for features made by the same backbone as those in this file.",
)
@click.option(
    "--kind",
    type=click.Choice(list(OPTIONS)),
    default="random-features",
    metavar="NAME",
    help="random-features (the strongest: linear and rectified sums side by side), embedding "
    "(the paper's SAFLe), linear (AFL), or hybrid: linear and embedding.",
)
@click.option(
    "--units",
    type=click.IntRange(min=1),
    metavar="N",
    show_default="16 a feature, at most 8,192",
    help="Random features: more are more accurate, and more to send.",
)
@click.option(
    "--megabytes",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MB",
    help="As many random features as a client of --samples samples can send in so many MB.",
)
@client_options("--megabytes")
@click.option(
    "--bits", type=click.IntRange(2, 8), default=4, metavar="B", help="Bits of a random feature."
)
@click.option(
    "--transform",
    type=click.Choice(["none", "square-root"]),
    show_default="square-root with random features that are never negative, else none",
    metavar="NAME",
    help="Of features, before they are standardised: none or square-root.",
)
@click.option(
    "--bucketing",
    type=click.Choice(["binary-overlap", "one-hot", "integer"]),
    default="binary-overlap",
    metavar="NAME",
    help="How a value becomes digits: binary-overlap, one-hot or integer.",
)
@click.option(
    "--buckets",
    type=click.IntRange(min=1),
    metavar="B",
    show_default="8, fewer for many features",
    help="Buckets a feature.",
)
@click.option(
    "--group-size",
    type=click.IntRange(min=1),
    metavar="G",
    show_default="the largest up to 6 with about 12,000 columns",
    help="Digits an expert.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Of the random features, or of the permutation of digits.",
)
@click.option(
    "--fraction-bits",
    type=int,
    default=8,
    metavar="BITS",
    help="Bits behind the point of linear codes.",
)
@table_options(labels=False)
@output("The encoder file to write; give it to every client.")
@click.pass_context
def make(context: click.RichContext, /, output: Path, kind: str, **options: Any) -> None:
    """Make an encoder, calibrated by exactly one of --range, --mean, --sample, --histogram.

    Thresholds must not come from one client's private data: declare them, take a public
    sample, or let every client send a histogram ([b]safle histogram[/b]) and sum those.
    """
    from safle.cli.describe import encoder_facts
    from safle.encoders.building import build_encoder

    _check_usage(context, kind, options)
    for name in ("sample", "histogram", "features_source"):
        refuse_overwriting(output, options[name])
    settings = {name: options[name] for name in OPTIONS[kind] if name != "megabytes"}
    calibration = _calibration(options)
    session = context.find_object(Session) or Session()
    if options["megabytes"] is not None:
        settings["units"] = _units(session, calibration, settings, options)
    encoder = build_encoder(calibration, kind=kind, **settings)
    encoder = encoder.with_source(_source(options))
    encoder.save(output)
    session.facts(f"{output}: encoder", encoder_facts(encoder))


def _units(
    session: Session, calibration: Calibration, settings: dict[str, Any], options: dict[str, Any]
) -> int:
    """As many random features as --megabytes allow, found by rehearsals."""
    from safle.encoders.building import build_encoder
    from safle.encoders.default import default_units
    from safle.federation.rehearsal import units_within

    session.announce_compilation()
    session.note("rehearsing what a client would send ...")
    return units_within(
        lambda units: build_encoder(calibration, **settings | {"units": units}),
        1e6 * options["megabytes"],
        most_units=default_units(calibration.feature_dim),
        samples=options["samples"],
        classes=options["classes"],
    )


def _check_usage(context: click.Context, kind: str, options: dict[str, Any]) -> None:
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
    if given == ["range"] and options["features"] is None:
        raise click.UsageError("--range needs --features, the number of features")
    for name in sorted({name for names in OPTIONS.values() for name in names} - {*OPTIONS[kind]}):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} does not apply to a {kind} encoder; leave it out")


def _calibration(options: dict[str, Any]) -> Calibration:
    from safle.encoders.calibration import DeclaredRange

    if options["range"] is not None:
        low, high = options["range"]
        return DeclaredRange(low, high, options["features"])
    if options["mean"] is not None:
        return _moments(options["mean"], options["deviation"], options["features"])
    if options["sample"] is not None:
        return _sample(options)
    from safle.wire import read_histogram

    return _checked(read_histogram(options["histogram"]), options)


def _sample(options: dict[str, Any]) -> Calibration:
    import numpy as np

    from safle.data.tables import open_table
    from safle.encoders.calibration import PublicSample

    selection = {name: options[name] for name in ("split", "features_key", "label_column")}
    table = open_table(options["sample"], **selection)
    return _checked(PublicSample(np.asarray(table.features)), options)


def _source(options: dict[str, Any]) -> str:
    """What the features declare to be made by; empty if they do not."""
    from safle.data.tables import open_table
    from safle.errors import TableError

    declared = options["features_source"]
    path = declared or options["sample"]
    if path is None:
        return ""
    # Only its metadata count here: any split of the file will do.
    selection = {name: options[name] for name in ("split", "features_key", "label_column")}
    source = open_table(path, **selection).source
    if declared is not None and not source:
        raise TableError(
            f"{declared}: does not say which backbone made it; expected a file that "
            "'safle features' wrote"
        )
    return source


def _checked(calibration: Calibration, options: dict[str, Any]) -> Calibration:
    declared = options["features"]
    if declared is not None and declared != calibration.feature_dim:
        raise click.UsageError(
            f"--features {declared}, but the calibration has {calibration.feature_dim}"
        )
    return calibration


def _moments(mean: str, deviation: str, features: int | None) -> Calibration:
    import numpy as np

    from safle.cli.vectors import number_or_vector
    from safle.encoders.calibration import DeclaredMoments
    from safle.errors import InvalidInput

    given = {"--mean": number_or_vector(mean), "--deviation": number_or_vector(deviation)}
    sizes = {name: len(value) for name, value in given.items() if isinstance(value, np.ndarray)}
    if features is not None:
        sizes["--features"] = features
    if not sizes:
        raise click.UsageError("--mean and --deviation are numbers; say --features as well")
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise InvalidInput(f"the numbers of features differ: {found}")
    (size,) = set(sizes.values())
    return DeclaredMoments(*(np.broadcast_to(value, size) for value in given.values()))
