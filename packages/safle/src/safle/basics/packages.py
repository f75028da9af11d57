"""Optional packages."""

from __future__ import annotations

import importlib
from typing import Any

from safle.errors import MissingExtra, SafleError


def require_package(module: str, requirement: str, purpose: str) -> Any:
    """Import a module of an optional package; `MissingExtra` if it is not installed.

    A package that is installed but cannot be imported (it was built for another version of torch)
    raises a `SafleError` that says so.

    >>> require_package("json", "safle[onnx]", "an example").loads("[1]")
    [1]
    >>> require_package("no_such_package", "safle[onnx]", "an example")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.MissingExtra: an example needs no_such_package, which is not installed; ...
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(module.partition(".")[0], requirement, purpose) from error
    except Exception as error:  # an import may raise anything
        raise SafleError(
            f"{purpose} needs {module}, which is installed but cannot be imported ({error}); "
            "install versions that belong together, in a fresh environment"
        ) from error
