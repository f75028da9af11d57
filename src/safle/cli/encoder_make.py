"""``safle encoder make``: an encoder file from a calibration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.options import FINER, MOST
from safle.cli.session import Session

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from safle.data.tables import Table
    from safle.encoders.calibration import Calibration

EXAMPLES = opt.examples(
    "safle encoder make --range 0 16 --features 64 -o encoder.safetensors",
    "safle encoder make --backbone efficientnet_lite0 -o encoder.safetensors",
    "safle encoder make --histogram total.hist --megabytes 5 -o encoder.safetensors",
    "safle encoder make --schema schema.toml -o encoder.safetensors",
    "safle encoder make --ranges ranges.csv -o encoder.safetensors",
    "safle encoder make --sample public.npz --kind embedding -o encoder.safetensors",
)
RANGE = "Calibrate by a declared range, the same for every feature; needs --features."
RANGES = "Calibrate by a range for each feature: .csv (name,low,high) or .toml (a schema)."
MEAN = "Calibrate by moments: a number (needs --features) or a .npy or .txt file."
BACKBONE = "Calibrate by public images that this backbone has seen, and only for its features."
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
SOURCES = ("range", "ranges", "backbone", "mean", "sample", "histogram", "schema")


class MakeCommand(opt.Command):
    """A command with an option for every setting of every kind.

    They are added when they are asked for: the kinds are slow to import, and other
    packages may have registered some of their own.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        from safle.cli.kind_options import kind_options

        place = next(i for i, option in enumerate(self.params) if option.name == "samples")
        own = [*self.params[:place], *kind_options(), *self.params[place:]]
        return [*own, *[p for p in super().get_params(ctx) if p not in self.params]]


def _most(names: str, text: str, metavar: str, **settings: Any) -> opt.Decorator:
    return opt.option(names, text, metavar, panel=MOST, **settings)


@click.command(cls=MakeCommand, panels=[], epilog=EXAMPLES)
@_most("--range", RANGE, "LOW HIGH", type=(float, float))
@_most("--ranges", RANGES, "FILE", type=opt.FILE)
@_most("--features", "How many features.", "D", type=opt.COUNT)
@_most("--backbone", BACKBONE, "NAME|FILE.onnx")
@_most("--sample", "Calibrate by a table of public features.", "FILE", type=opt.FILE)
@_most("--histogram", HISTOGRAM, "FILE", type=opt.FILE)
@_most("--schema", SCHEMA, "FILE", type=opt.FILE)
@_most("--mean", MEAN, "NUMBER|FILE")
@_most("--deviation", "Goes with --mean.", "NUMBER|FILE")
@opt.written("-o --output", OUTPUT, "encoder", required=True, panel=MOST)
@_most("--megabytes", MEGABYTES, "MB", type=opt.POSITIVE)
@opt.client_options("--megabytes", FINER, COUNTED_APART)
@opt.option(*("--only-classes", CLASSES, "A,B,C"), show_default="the schema's, or any", panel=FINER)
@opt.option("--publishable", PUBLISHABLE, is_flag=True, panel=FINER)
@opt.option(
    *("--features-source", SOURCE, "FILE"),
    type=opt.FILE,
    show_default="the sample's",
    panel=FINER,
)
@opt.table_options(labels=False, panel="How the sample is read")
@click.pass_context
def make(context: click.RichContext, /, output: Path, kind: str, **options: Any) -> None:
    """Make an encoder, by --range, --ranges, --backbone, --sample, --histogram, --schema or --mean.

    Thresholds must not come from one client's private data: declare them, take a backbone's or
    a public sample, or let every client send a histogram ([b]safle histogram[/b]) and sum those.
    """
    from safle.cli.describe import encoder_facts, warn_of_coarse
    from safle.cli.kind_options import given_settings
    from safle.cli.reading import declared_classes
    from safle.encoders import Encoder, LinearEncoder, make_encoder
    from safle.encoders.histogram import Histogram

    encoder: Encoder
    _check_usage(options)
    if options["publishable"] or options["schema"] is not None:
        kind = _implied_kind(context, kind, options)
    settings = given_settings(kind, options)
    for name in ("ranges", "sample", "histogram", "schema", "features_source"):
        opt.refuse_overwriting(output, options[name])
    calibration, source = _calibration(options), _source(options)
    classes = declared_classes(options["only_classes"]) or ()
    settings |= _by_class(context, kind, settings, calibration.feature_dim, len(classes))
    session = context.find_object(Session) or Session()
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


def _implied_kind(context: click.Context, kind: str, options: dict[str, Any]) -> str:
    """Of --schema, table; of --publishable, linear: others need too much noise."""
    from click.core import ParameterSource

    given = context.get_parameter_source("kind") is not ParameterSource.DEFAULT
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


def _by_class(
    context: click.Context, kind: str, settings: dict[str, Any], features: int, declared: int
) -> dict[str, bool]:
    """Whether classes are counted apart, where the options say how many there are."""
    from click.core import ParameterSource

    from safle.encoders.random_features import suits_by_class
    from safle.encoders.registry import kind_named

    setting = kind_named(kind).declared(settings).get("by_class")
    if setting is None or setting.default is not None or "by_class" in settings:
        return {}
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
    from safle.encoders import make_encoder
    from safle.encoders.registry import kind_named
    from safle.federation.rehearsal import units_within

    if "units" not in kind_named(kind).declared(settings):
        raise click.UsageError(f"--megabytes does not apply to a {kind} encoder; leave it out")
    session.announce_compilation()
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
    if given == ["backbone"] and options["features_source"] is not None:
        raise click.UsageError("--backbone says what makes the features: leave --features-source")
    if given == ["range"] and options["features"] is None:
        raise click.UsageError("--range needs --features, the number of features")


def _calibration(options: dict[str, Any]) -> Calibration:
    import numpy as np

    from safle.data.tables import read_ranges
    from safle.encoders.calibration import DeclaredRange, PublicSample
    from safle.encoders.schema import Schema
    from safle.wire import read_histogram

    if options["range"] is not None:
        low, high = options["range"]
        return DeclaredRange(low, high, options["features"])
    if options["ranges"] is not None:
        return _checked(read_ranges(options["ranges"]), options)
    if options["backbone"] is not None:
        from safle.data.backbones.calibration import calibration_of

        return _checked(calibration_of(options["backbone"])[0], options)
    if options["mean"] is not None:
        return _moments(options["mean"], options["deviation"], options["features"])
    if options["sample"] is not None:
        table = _table(options["sample"], options)
        table = table.arranged(sorted(table.names), where=str(options["sample"]))
        return _checked(PublicSample(np.asarray(table.features), names=table.names), options)
    if options["schema"] is not None:
        return _checked(Schema.read(options["schema"]), options)
    return _checked(read_histogram(options["histogram"]), options)


def _table(path: Path, options: dict[str, Any]) -> Table:
    from safle.data.tables import open_table

    return open_table(path, **opt.selected(options))


def _source(options: dict[str, Any]) -> str:
    """What the features declare to be made by; empty if they do not."""
    from safle.errors import TableError

    declared = options["features_source"]
    if options["backbone"] is not None:
        from safle.data.backbones.calibration import calibration_of

        return calibration_of(options["backbone"])[1]
    path = declared or options["sample"]
    # Only its metadata count here: any split of the file will do.
    source = "" if path is None else _table(path, options).source
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

    from safle.encoders.calibration import DeclaredMoments
    from safle.errors import InvalidInput

    given = {"--mean": _number_or_vector(mean), "--deviation": _number_or_vector(deviation)}
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


def _number_or_vector(text: str) -> float | NDArray[np.float64]:
    """``text`` as a number, else the vector in the file of that name, float64, (feature_dim,)."""
    import numpy as np

    from safle.data.tables.arrays import read_npy
    from safle.errors import TableError

    try:
        return float(text)
    except ValueError:
        path = Path(text)
    if path.suffix.lower() == ".npy":
        vector = read_npy(path)
    else:
        try:
            vector = np.array([float(number) for number in path.read_text("utf-8").split()])
        except ValueError as error:
            raise TableError(f"{path}: {error}; expected one number per line") from None
    if vector.ndim != 1 or vector.dtype.kind not in "fiu" or not len(vector):
        raise TableError(
            f"{path}: {vector.dtype} of shape {vector.shape}; expected one number per feature"
        )
    return vector.astype(np.float64)
