"""Front doors: a package's public names, each imported when somebody first asks for it."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


def front_door(package: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that names what it offers under ``if TYPE_CHECKING:``.

    Type checkers read those imports, and so does this function: there is one list, and a command
    that needs one name of a room does not import the whole of it.
    """

    @cache
    def homes() -> dict[str, str]:
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
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes()[name] == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(homes()[name]), name)

    return find
