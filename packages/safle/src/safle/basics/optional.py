"""Packages that only some of the work needs: found when it begins, or said how to get."""

import importlib
from typing import Any

from safle.errors import MissingExtra, SafleError


def require(module: str, requirement: str, purpose: str) -> Any:
    """The module of an optional package; `MissingExtra` if it is not installed.

    A package that is there but cannot be imported, as one that was built for another version of
    torch, is a `SafleError` that says so.

    Examples
    --------
    >>> require("json", "safle[plots]", "an example").loads("[1]")
    [1]
    >>> require("no_such_package", "safle[plots]", "an example")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.MissingExtra: an example needs no_such_package, which is not installed; ...
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(module.partition(".")[0], requirement, purpose) from error
    except Exception as error:  # whatever the package does when it is imported
        raise SafleError(
            f"{purpose} needs {module}, which is installed but cannot be imported ({error}); "
            "install versions that belong together, in a fresh environment"
        ) from error
