"""Options of ``safle encoder make``: of each kind, and of where thresholds come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import rich_click as click

from safle.basics.settings import Setting
from safle.cli import options as opt
from safle.encoders.calibration import Calibration, DeclaredMoments, DeclaredRange, PublicSample
from safle.encoders.features import check_source
from safle.encoders.registry import DEFAULT_KIND, kind_named, kinds
from safle.encoders.schema import Schema
from safle.errors import TableError
from safle.tables import open_table, read_moments, read_ranges
from safle.wire import read_histogram


def kind_options() -> opt.Decorator:
    """--kind, and an option for every setting that a kind declares."""
    summaries = "; ".join(f"{name}: {kind.summary}" for name, kind in kinds().items())
    kind = opt.option(
        "--kind",
        f"{summaries}.",
        "NAME",
        type=click.Choice([*kinds()]),
        default=DEFAULT_KIND,
        panel=opt.MOST,
    )
    return opt.options(kind, *(_option(name, of) for name, of in _settings().items()))


def given_settings(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given on the command line; those of another kind are refused."""
    # A program may register a kind after the command has its options.
    given = {name: options[name] for name in _settings() if options.get(name) is not None}
    for name in given:
        if name not in kind_named(kind).settings_type.declared():
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} does not apply to a {kind} encoder; leave it out")
    return given


def _settings() -> dict[str, dict[str, Setting]]:
    """Setting -> kind -> what it is there."""
    found: dict[str, dict[str, Setting]] = {}
    for kind, encoder in kinds().items():
        for name, declared in encoder.settings_type.declared().items():
            found.setdefault(name, {})[kind] = declared
    return found


def _option(name: str, by_kind: dict[str, Setting]) -> opt.Decorator:
    defaults = {k: s.chosen if s.default is None else s.default for k, s in by_kind.items()}
    each = "; ".join(f"{default} ({kind})" for kind, default in defaults.items())
    alike = len({*defaults.values()}) == 1
    some = f"{', '.join(by_kind)}: " if len(by_kind) < len(kinds()) else ""
    first = next(iter(by_kind))
    own = f"Only for --kind {first}: {kind_named(first).summary.partition(':')[0]}"
    settings: dict[str, Any] = {
        "show_default": str(defaults[first]) if alike else each,
        "panel": opt.FINER if DEFAULT_KIND in by_kind else own,
        "type": _type([*by_kind.values()]),
    }
    metavar: str | None = "NAME"
    flag = f"--{name.replace('_', '-')}"
    if settings["type"] is click.BOOL:
        flag, metavar = f"{flag}/--no-{flag[2:]}", None
        settings |= {"is_flag": True, "default": None}
    elif isinstance(settings["type"], click.IntRange):
        metavar = "N"
    elif isinstance(settings["type"], click.Choice):
        metavar = "|".join(map(str, settings["type"].choices))
    text = some + " ".join(dict.fromkeys(s.help for s in by_kind.values()))
    return opt.option(flag, text, metavar, **settings)


def _type(settings: Sequence[Setting]) -> click.ParamType[Any]:
    """What fits any of the settings of one name; each kind checks its own limits."""
    if all(s.choices for s in settings):
        return click.Choice([*dict.fromkeys(c for s in settings for c in s.choices)])
    if settings[0].type is not int:
        return click.BOOL if settings[0].type is bool else click.STRING
    least, most = [s.least for s in settings], [s.most for s in settings]
    return click.IntRange(
        None if None in least else min(x for x in least if x is not None),
        None if None in most else max(x for x in most if x is not None),
    )


def given_calibration(options: dict[str, Any]) -> Calibration:
    """What the one option that calibrates says of the features."""
    width = options["features"]
    if options["range"] is not None:
        low, high = options["range"]
        return DeclaredRange(low, high, width)
    if options["mean"] is not None:
        mean, deviation = options["mean"], options["deviation"]
        return DeclaredMoments(np.full(width, mean), np.full(width, deviation))
    calibration = _read_calibration(options)
    if width is not None and width != calibration.feature_dim:
        raise click.UsageError(
            f"--features {width}, but the calibration has {calibration.feature_dim}"
        )
    return calibration


def _read_calibration(options: dict[str, Any]) -> Calibration:
    if options["ranges"] is not None:
        return read_ranges(options["ranges"])
    if options["moments"] is not None:
        return read_moments(options["moments"])[0]
    if options["schema"] is not None:
        return Schema.read(options["schema"])
    if options["histogram"] is not None:
        return read_histogram(options["histogram"])
    table = open_table(options["sample"], **opt.selected(options))
    table = table.arranged(sorted(table.names), where=str(options["sample"]))
    return PublicSample(np.asarray(table.features), names=table.names)


def given_source(options: dict[str, Any]) -> str:
    """What the features declare to be made by; empty if they do not."""
    of_moments = "" if options["moments"] is None else read_moments(options["moments"])[1]
    declared = options["features_source"]
    path = declared or options["sample"]
    # Only its metadata count here: any split of the file will do.
    source = of_moments if path is None else open_table(path, **opt.selected(options)).source
    if declared is not None and not source:
        raise TableError(
            f"{declared}: does not say which backbone made it; expected a file that "
            "'safle features' wrote"
        )
    if of_moments:
        check_source(of_moments, source, where=str(path))
    return source
