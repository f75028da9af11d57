"""The kinds of encoders by name, their settings, and `make_encoder`.

A kind registers itself when its module is imported (see `Encoder.__init_subclass__`); our own are
imported when they are asked for. Everything that lets people choose (the command line, the
estimator) reads the fields of a kind's settings.

A new kind is a module, a row in `_MODULES`, and a row in docs/heads.md. Its formula, written from
its docstring, goes into ``row_of`` of tests/support/reference.py: without it, theorems compare the
kind with itself. Its constructor refuses arrays that a file must not hold. `rehearse` expects dense
codes, over their scale, to have a mean square of at most 25, and `publish` a bound on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np

from safle.basics.settings import describe
from safle.basics.texts import require_type
from safle.encoders.calibration import Calibration
from safle.errors import SettingsError

if TYPE_CHECKING:
    from safle.encoders.base import Encoder

DEFAULT_KIND = "random-features"
"""The kind with the most accurate models of one round, where no public sample suits `PRODUCTS`."""
PRODUCTS = "products"
MIN_SAMPLES = 250
"""Without gaps, of a public sample; with fewer, its directions are mostly noise."""
MIN_FEATURES = 128
"""With fewer features there is little to choose from: products of 64 or 30 did less well."""
MAX_SEED = (1 << 63) - 1
"""The largest seed that fits a signed 64-bit integer."""

_MODULES = {
    "random-features": "safle.encoders.random_features",
    "products": "safle.encoders.products",
    "embedding": "safle.encoders.embedding",
    "linear": "safle.encoders.linear",
    "table": "safle.encoders.table",
}
"""Kind -> its module."""
_kinds: dict[str, type[Encoder]] = {}


def annotate(
    help: str,  # noqa: A002
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    chosen: str = "",
) -> msgspec.Meta:
    """What a field of `Settings` means, its limits, and what replaces None (``chosen``)."""
    return msgspec.Meta(ge=minimum, le=maximum, description=help, extra={"chosen": chosen})


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a kind; a subclass has a field for each, described by `annotate`."""

    def choose(self, calibration: Calibration, class_count: int) -> Self:  # noqa: ARG002
        """The settings with every None replaced by a value that suits the features."""
        return self


def register(kind: type[Encoder]) -> None:
    """Add a kind under its name."""
    _kinds[kind.kind] = kind


def kinds() -> dict[str, type[Encoder]]:
    """Every kind there is, the default one first.

    Examples
    --------
    >>> from safle import kinds
    >>> next(iter(kinds()))
    'random-features'
    """
    for module in _MODULES.values():
        import_module(module)
    in_order = {name: _kinds[name] for name in _MODULES}
    return in_order | _kinds


def kind_named(name: Any) -> type[Encoder]:
    """The kind called ``name``; `SettingsError` if there is none."""
    if isinstance(name, str) and name in _MODULES:
        import_module(_MODULES[name])
    if not isinstance(name, str) or name not in _kinds:
        raise SettingsError(f"unknown encoder kind {name!r}; expected one of {', '.join(kinds())}")
    return _kinds[name]


def default_kind(calibration: Calibration, settings: Iterable[str] = ()) -> str:
    """The kind that suits the features, and takes settings of these names.

    Examples
    --------
    >>> import numpy as np
    >>> from safle import declared_range, public_sample
    >>> default_kind(declared_range(0, 1, feature_dim=512))
    'random-features'
    >>> default_kind(public_sample(np.random.default_rng(0).normal(size=(300, 128))))
    'products'
    """
    sample = calibration.sample
    if sample is None or calibration.feature_dim < MIN_FEATURES:
        return DEFAULT_KIND
    if np.count_nonzero(~np.isnan(sample).any(axis=1)) < MIN_SAMPLES:
        return DEFAULT_KIND
    if {*settings} - {*describe(kind_named(PRODUCTS).settings_type)}:
        return DEFAULT_KIND
    return PRODUCTS


def setting_names() -> list[str]:
    """The settings of all kinds, each once."""
    described = [describe(kind.settings_type) for kind in kinds().values()]
    return [*dict.fromkeys(name for settings in described for name in settings)]


def make_encoder(
    calibration: Calibration,
    kind: str = "",
    *,
    class_count: int = 0,
    **settings: Any,
) -> Encoder:
    """Make an encoder of a kind; settings that are left out get values that suit the features.

    Parameters
    ----------
    calibration : describes the features; the encoder takes over its names, ranges and classes
    kind : a name of `kinds`; by default, the one that suits the features
    class_count : how many classes there will be, if that is known: many are counted by class
    settings : the fields of the kind's `Encoder.settings_type`; None counts as left out

    Examples
    --------
    >>> from safle import declared_range, make_encoder
    >>> make_encoder(declared_range(0, 16, feature_dim=64)).layout.dim
    1089
    >>> make_encoder(declared_range(0, 16, feature_dim=64), "linear").layout.dim
    65
    """
    given = kind_named(kind) if kind else None
    advice = "public_sample(features), declared_range and of_schema make one"
    require_type("calibration", calibration, Calibration, advice=advice)
    chosen = given or kind_named(default_kind(calibration, settings))
    return chosen.calibrated(calibration, class_count=class_count, **settings)
