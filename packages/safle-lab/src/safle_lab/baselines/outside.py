"""Methods from outside: a Python file that defines ``METHOD``, measured beside all others."""

import hashlib
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from safle.errors import SafleError
from safle_lab.baselines.base import Method, Result, Task


class MethodError(SafleError):
    """A method from outside that cannot be run, or gives something else than a result."""


EXPECTED = "expected METHOD = safle_lab.baselines.Method(name, title, kind, run, defaults)"


def load_method(path: Path) -> Method[Any]:
    """The ``METHOD`` of a file, which is run as Python: load only what you trust.

    Measurements are kept under the file's digest: a changed file is measured again.

    Examples
    --------
    >>> load_method(Path("nowhere.py"))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.py'
    """
    program = hashlib.sha256(path.read_bytes()).hexdigest()
    method = getattr(_import(path, f"safle_method_{program[:16]}"), "METHOD", None)
    if not isinstance(method, Method):
        raise MethodError(f"{path}: METHOD is {type(method).__name__}; {EXPECTED}")
    return replace(method, run=_Guarded(path, method), program=program)


def _import(path: Path, name: str) -> ModuleType:
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise MethodError(f"{path} is no Python file; expected a name that ends in .py")
    module = module_from_spec(spec)
    # Types that are written as text are looked up there.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise MethodError(f"{path} cannot be imported: {error!r}; {EXPECTED}") from error
    return module


class _Guarded:
    """A method's function whose errors name its file."""

    def __init__(self, path: Path, method: Method[Any]) -> None:
        self.path, self.run = path, method.run

    def __call__(self, task: Task, settings: Any) -> Result:
        try:
            result = self.run(task, settings)
        except SafleError:
            raise
        except Exception as error:
            raise MethodError(
                f"{self.path}: its method stopped with {error!r}; --debug shows where"
            ) from error
        if not isinstance(result, Result):
            raise MethodError(
                f"{self.path}: its method gives {type(result).__name__}; expected a Result"
            )
        return result
