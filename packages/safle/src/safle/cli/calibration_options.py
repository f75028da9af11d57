"""The options of ``safle encoder make`` that calibrate -> a calibration, and its source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import options as opt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from safle.encoders.calibration import Calibration
    from safle.tables import Table


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
