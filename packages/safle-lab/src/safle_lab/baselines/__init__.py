"""Baselines: every method on the same features, labels and partition, one file per method.

A new method is one file with its paper in the docstring, and one line here. `add_method` adds
one from a file anywhere else. One of ours also has

- its name among the methods of the tables of experiments/suite.py, and of experiments/digits.toml,
  with small settings and a small grid; in ``ITERATIVE`` or ``ROBUST`` there if it iterates;
- a test of its equation on few samples, and quick settings in ``SMALL`` of test_methods.py;
- a row in docs/experiments.md, under "Methods".
"""

import hashlib
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
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
from safle_lab.baselines.base import (
    Method,
    MethodError,
    MethodSettings,
    Point,
    Result,
    Task,
    message,
    naming_errors,
)

_ALL = (
    *(fedavg.METHOD, fedprox.METHOD, moon.METHOD, feddyn.METHOD, fedntd.METHOD, fednova.METHOD),
    *(fednoro.METHOD, fedcorr.METHOD),
    *(oneshot.LOCAL, oneshot.AVERAGE, oneshot.ENSEMBLE, fedkd.METHOD, coboosting.METHOD),
    *(wisard.METHOD, fedcgs.METHOD, tofa.METHOD),
    *(afl.METHOD, deepafl.METHOD, safle.METHOD, safle.SMALLEST, safle.DEFAULT),
    *(safle.UNIFORM, trimmed.METHOD),
)
METHODS: dict[str, Method[Any]] = {method.name: method for method in _ALL}


def add_method(path: Path) -> Method[Any]:
    """Make the ``METHOD`` that a file defines known under its name, beside all others.

    The file is run as Python: add only what you trust. Measurements are kept under the file's
    digest: a changed file is measured again.

    >>> add_method(Path("nowhere.py"))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.py'
    """
    method = _load_method(path)
    known = METHODS.get(method.name)
    if known is not None and known.program != method.program:
        raise SettingsError(
            f"{path}: there is another method {method.name!r}; expected a name of its own"
        )
    METHODS[method.name] = method
    return method


def _load_method(path: Path) -> Method[Any]:
    program = hashlib.sha256(path.read_bytes()).hexdigest()
    name = f"safle_method_{program[:16]}"
    spec = spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None:
        raise MethodError(f"{path} is not a Python file; expected a name that ends in .py")
    # Python looks up types that are written as text in sys.modules.
    module = sys.modules[name] = module_from_spec(spec)
    with naming_errors(path):
        spec.loader.exec_module(module)
    method = getattr(module, "METHOD", None)
    if not isinstance(method, Method):
        raise MethodError(
            f"{path}: METHOD is {type(method).__name__}; expected METHOD = "
            "safle_lab.baselines.Method(name, title, kind, run, defaults)"
        )
    return replace(method, program=program, path=path)


def method_named(name: str) -> Method[Any]:
    """A method by its name.

    >>> method_named("afl").invariant
    True
    """
    if name not in METHODS:
        raise SettingsError(f"no method {name!r}; expected one of {', '.join(METHODS)}")
    return METHODS[name]


__all__ = [
    "METHODS",
    "Method",
    "MethodSettings",
    "Point",
    "Result",
    "Task",
    "add_method",
    "message",
    "method_named",
]
