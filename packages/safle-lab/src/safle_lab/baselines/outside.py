"""Methods from outside: a Python file that defines ``METHOD``, measured beside all others."""

import hashlib
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from safle_lab.baselines.base import Method, MethodError, naming_errors

EXPECTED = "expected METHOD = safle_lab.baselines.Method(name, title, kind, run, defaults)"


def load_method(path: Path) -> Method[Any]:
    """The ``METHOD`` of a file, which is run as Python: load only what you trust.

    Measurements are kept under the file's digest: a changed file is measured again.
    """
    program = hashlib.sha256(path.read_bytes()).hexdigest()
    name = f"safle_method_{program[:16]}"
    spec = spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None:
        raise MethodError(f"{path} is no Python file; expected a name that ends in .py")
    # Types that are written as text are looked up there.
    module = sys.modules[name] = module_from_spec(spec)
    with naming_errors(path):
        spec.loader.exec_module(module)
    method = getattr(module, "METHOD", None)
    if not isinstance(method, Method):
        raise MethodError(f"{path}: METHOD is {type(method).__name__}; {EXPECTED}")
    return replace(method, program=program, path=path)
