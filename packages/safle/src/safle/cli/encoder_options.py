"""Options of ``safle encoder make``: of each kind, and of where thresholds come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import options as opt
from safle.encoders.registry import DEFAULT_KIND, kind_named, kinds
from safle.encoders.settings import Setting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from safle.encoders.calibration import Calibration
    from safle.tables import Table


def kind_options() -> list[click.Parameter]:
    """--kind, and an option for every setting that a kind declares."""
    summaries = "; ".join(f"{name}: {kind.summary}" for name, kind in kinds().items())
    kind = click.RichOption(
        ["--kind"],
        type=click.Choice([*kinds()]),
        default=DEFAULT_KIND,
        metavar="NAME",
        help=f"{summaries}.",
        panel=opt.MOST,
    )
    return [kind, *[_option(name, by_kind) for name, by_kind in _settings().items()]]


def given_settings(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given on the command line; those of another kind are refused."""
    given = {name: options[name] for name in _settings() if options[name] is not None}
    for name in given:
        if name not in kind_named(kind).declared(given):
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


def _heading(kind: str) -> str:
    return f"Only for --kind {kind}: {kind_named(kind).summary.partition(':')[0]}"


def _option(name: str, by_kind: dict[str, Setting]) -> click.Option:
    defaults = {k: s.chosen if s.default is None else s.default for k, s in by_kind.items()}
    shown = f"{', '.join(by_kind)}: " if len(by_kind) < len(kinds()) else ""
    each = "; ".join(f"{default} ({kind})" for kind, default in defaults.items())
    alike = len({*defaults.values()}) == 1
    kind = _type([*by_kind.values()])
    flag: dict[str, Any] = {"is_flag": True, "default": None} if kind is click.BOOL else {}
    option = name.replace("_", "-")
    named = "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else "NAME"
    return click.RichOption(
        [f"--{option}/--no-{option}" if flag else f"--{option}"],
        type=kind,
        metavar="N" if isinstance(kind, click.IntRange) else None if flag else named,
        help=shown + " ".join(dict.fromkeys(s.help for s in by_kind.values())),
        show_default=str(next(iter(defaults.values()))) if alike else each,
        panel=opt.FINER if DEFAULT_KIND in by_kind else _heading(next(iter(by_kind))),
        **flag,
    )


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
    import numpy as np

    from safle.encoders.calibration import DeclaredRange, PublicSample
    from safle.encoders.schema import Schema
    from safle.tables import read_moments, read_ranges
    from safle.wire import read_histogram

    if options["range"] is not None:
        low, high = options["range"]
        return DeclaredRange(low, high, options["features"])
    if options["ranges"] is not None:
        return _checked(read_ranges(options["ranges"]), options)
    if options["moments"] is not None:
        return _checked(read_moments(options["moments"])[0], options)
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
    from safle.tables import open_table

    return open_table(path, **opt.selected(options))


def given_source(options: dict[str, Any]) -> str:
    """What the features declare to be made by; empty if they do not."""
    from safle.encoders.source import check_source
    from safle.errors import TableError
    from safle.tables import read_moments

    of_moments = "" if options["moments"] is None else read_moments(options["moments"])[1]
    declared = options["features_source"]
    path = declared or options["sample"]
    # Only its metadata count here: any split of the file will do.
    source = of_moments if path is None else _table(path, options).source
    if declared is not None and not source:
        raise TableError(
            f"{declared}: does not say which backbone made it; expected a file that "
            "'safle features' wrote"
        )
    if of_moments:
        check_source(of_moments, source, where=str(path))
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

    from safle.errors import TableError
    from safle.tables.arrays import read_npy

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
