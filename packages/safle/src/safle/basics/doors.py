"""Import on first use: the public names of a package, and optional packages."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from safle.errors import MissingExtra, SafleError


def front_door(package: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for a package, which imports a public name when it is first used.

    The package imports its public names under ``if TYPE_CHECKING:``. Type checkers read those
    imports, and so does this function: there is one list, and a command that needs one name of a
    room does not import the whole room.
    """

    @cache
    def modules_by_name() -> dict[str, str]:
        """Name -> the module that it is imported from."""
        source = Path(str(sys.modules[package].__file__)).read_text("utf-8")
        blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
        imports = [line for block in blocks for line in block.body]
        return {
            name.name: str(line.module)
            for line in imports
            if isinstance(line, ast.ImportFrom)
            for name in line.names
        }

    def find(name: str) -> Any:
        if name.startswith("__") or name not in modules_by_name():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules_by_name()[name] == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(modules_by_name()[name]), name)

    return find


def require(module: str, requirement: str, purpose: str) -> Any:
    """The module of an optional package; `MissingExtra` if it is not installed.

    A package that is installed but cannot be imported (it was built for another version of torch)
    raises a `SafleError` that says so.

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
    except Exception as error:  # an import may raise anything
        raise SafleError(
            f"{purpose} needs {module}, which is installed but cannot be imported ({error}); "
            "install versions that belong together, in a fresh environment"
        ) from error
