"""Packages that only some of the work needs: found when it begins, or said how to get."""

import importlib
from typing import Any

from safle.errors import MissingExtra


def require(module: str, extra: str, purpose: str) -> Any:
    """The module of an optional package; `MissingExtra` if it is not installed.

    Examples
    --------
    >>> require("json", "plots", "an example").loads("[1]")
    [1]
    >>> require("no_such_package", "plots", "an example")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.MissingExtra: an example needs no_such_package, which is not installed; ...
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(module.partition(".")[0], extra, purpose) from error
