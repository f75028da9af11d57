"""Baselines: every method on the same features, labels and partition, one file each.

A further method is one file with its paper in the docstring, and one line here.
"""

from typing import Any

from safle.errors import SettingsError
from safle_lab.baselines import (
    afl,
    coboosting,
    deepafl,
    fedavg,
    fedcgs,
    fedcorr,
    feddyn,
    fedkd,
    fednoro,
    fednova,
    fedntd,
    fedprox,
    moon,
    oneshot,
    safle,
    tofa,
    trimmed,
    wisard,
)
from safle_lab.baselines.base import Method, MethodSettings, Point, Result, Task

_ALL = (
    *(fedavg.METHOD, fedprox.METHOD, moon.METHOD, feddyn.METHOD, fedntd.METHOD, fednova.METHOD),
    *(fednoro.METHOD, fedcorr.METHOD),
    *(oneshot.LOCAL, oneshot.AVERAGE, oneshot.ENSEMBLE, fedkd.METHOD, coboosting.METHOD),
    *(wisard.METHOD, fedcgs.METHOD, tofa.METHOD),
    *(afl.METHOD, deepafl.METHOD, safle.METHOD, safle.SMALLEST, safle.DEFAULT),
    trimmed.METHOD,
)
METHODS: dict[str, Method[Any]] = {method.name: method for method in _ALL}


def method_named(name: str) -> Method[Any]:
    """A method by its name.

    >>> method_named("afl").invariant
    True
    """
    if name not in METHODS:
        raise SettingsError(f"no method {name!r}; expected one of {', '.join(METHODS)}")
    return METHODS[name]


__all__ = ["METHODS", "Method", "MethodSettings", "Point", "Result", "Task", "method_named"]
