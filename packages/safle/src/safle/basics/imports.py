"""Import on first use: the public names of a package, and optional packages."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from typing import Any

from safle.errors import MissingExtra, SafleError


def define_public_names(package: str) -> None:
    """Give a package its public names: `__all__`, and a `__getattr__` that imports them when used.

    The package imports its names under ``if TYPE_CHECKING:``, each as itself (``import solve as
    solve``), which tells type checkers that a name is public. This function reads the same lines:
    there is one list, and a command that needs one name does not import the whole package.
    """
    module = sys.modules[package]
    modules = _public_names(Path(str(module.__file__)))

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules[name] == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(modules[name]), name)

    names = sorted(modules)
    vars(module).update(__all__=names, __getattr__=import_name, __dir__=lambda: names)


def _public_names(path: Path) -> dict[str, str]:
    """Map each name that is imported under ``if TYPE_CHECKING:`` to its module."""
    # The file has no other ``if``.
    blocks = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.If)]
    imports = [line for block in blocks for line in block.body]
    return {
        name.name: str(line.module)
        for line in imports
        if isinstance(line, ast.ImportFrom)
        for name in line.names
    }


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
