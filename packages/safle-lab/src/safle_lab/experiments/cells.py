"""Cells: one measurement each, kept in a file of its own as soon as it is made.

A file's name is a digest of its cell and data, so an interrupted run goes on where it stopped, and
experiments that need the same cell share its file. A user deletes a file to have its cell measured
again.
"""

import hashlib
import json
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from safle.basics import atomic
from safle.errors import InvalidInput
from safle_lab.baselines import method_named
from safle_lab.baselines.base import Progress
from safle_lab.experiments.data import DataSet

Figures = dict[str, Any]
FORMAT = "safle-cell-2"
PACKAGES = ("safle", "numpy", "scipy", "scikit-learn", "torch", "zstandard")


@dataclass(frozen=True)
class Cell:
    """One measurement to make.

    Attributes
    ----------
    kind : one of `safle_lab.experiments.measuring.MEASURES`
    scenario, clients : how clients share the samples, see `safle.demo.partition`
    method, settings : the method's name and its settings
    noise, rate : the kind of label noise and its rate; "" for none
    held_out : share of the training samples that replaces the test set; 0 for none
    octaves : ridges to try, as powers of two times the automatic choice
    leaving : number of clients whose counts are taken back
    """

    kind: str
    scenario: str
    clients: int
    seed: int
    method: str = "safle"
    settings: dict[str, Any] = field(default_factory=dict)
    noise: str = ""
    rate: float = 0.0
    held_out: float = 0.0
    octaves: tuple[int, ...] = ()
    leaving: int = 0

    def key(self, data: DataSet) -> str:
        """The name of the cell's file, without its ending."""
        identity = {"cell": asdict(self), "data": data.fingerprint}
        if self.kind == "method":
            method = method_named(self.method)
            if method.needs_texts:
                identity["texts"] = data.texts_fingerprint
            if method.program:
                identity["program"] = method.program
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


Measure = Callable[[DataSet, Cell, Progress], Figures]


class CellFolder:
    """Finished cells in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, cell: Cell, data: DataSet) -> Path:
        return self.folder / f"{cell.key(data)}.json"

    def find(self, cell: Cell, data: DataSet) -> Figures | None:
        """The figures of a cell that has been measured before."""
        path = self.path(cell, data)
        if not path.exists():
            return None
        try:
            content = json.loads(path.read_text("utf-8"))
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']!r}")
            figures: Figures = content["figures"]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(
                f"{path}: not a finished cell ({error}); delete it and run again"
            ) from error
        return figures

    def measure(self, cell: Cell, data: DataSet, measure: Measure, progress: Progress) -> Figures:
        """Measure a cell and keep it."""
        begin, worked = time.perf_counter(), time.process_time()
        figures = measure(data, cell, progress)
        figures["wall_seconds"] = time.perf_counter() - begin
        # Other work on the machine lengthens wall time; CPU time is what one quiet core would take.
        figures["cpu_seconds"] = time.process_time() - worked
        content = {
            "format": FORMAT,
            "cell": asdict(cell),
            "data": data.fingerprint,
            "versions": versions(),
            "figures": figures,
        }
        atomic.write_text(self.path(cell, data), json.dumps(content, indent=1) + "\n")
        return figures


def versions() -> dict[str, str]:
    """Versions of Python and of every package that affects the figures."""
    numbers = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            numbers[package] = version(package)
    return numbers
