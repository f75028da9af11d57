"""A simulation's settings: one table, how it is read, and how it is split over clients."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.basics import as_settings, atomic
from safle.demo import partition
from safle.errors import SettingsError


@dataclass(frozen=True)
class Simulation:
    """One table, split over clients; a file, so that every process of a run reads the same.

    Attributes
    ----------
    features, encoder : paths of the table and of the encoder
    selection : how the table is read: options of `safle.tables.open_table`, in pairs
    partition : "iid", "dirichlet" (by ``alpha``) or "shards" (by ``shards``)
    keys : the folder of everybody's keys; empty if contributions come plain
    """

    features: str
    encoder: str
    clients: int
    selection: tuple[tuple[str, Any], ...] = ()
    partition: str = "iid"
    alpha: float = 0.1
    shards: int = 2
    seed: int = 0
    keys: str = ""

    @staticmethod
    def read(path: str | Path) -> "Simulation":
        """The settings in a file that `remember` wrote."""
        found = as_settings(Simulation, json.loads(Path(path).read_text()), where=f"{path}: ")
        # JSON has lists alone, and settings are compared and looked up.
        chosen = ((k, tuple(v) if isinstance(v, list) else v) for k, v in found.selection)
        return replace(found, selection=tuple(chosen))

    def remember(self, path: Path) -> None:
        """Write the settings; an unfinished simulation goes on only with the very same ones."""
        if path.exists() and (before := Simulation.read(path)) != self:
            called = {"features": "the table", "keys": "--private", "selection": "how it is read"}
            changed = [
                called.get(name, f"--{name}")
                for name, value in vars(self).items()
                if getattr(before, name) != value
            ]
            raise SettingsError(
                f"{path.parent} holds a simulation that differs in {', '.join(changed)}: what it "
                "counted would be taken for this one's; choose another folder"
            )
        atomic.write_text(path, json.dumps(asdict(self), indent=1) + "\n")

    def name_of(self, number: int) -> str:
        """Who a node's number stands for: those after the clients are keyholders."""
        if number < self.clients:
            return f"client-{number:03d}"
        return f"keyholder-{number - self.clients + 1}"

    def key_of(self, name: str) -> Path:
        """Where somebody's key is."""
        return Path(self.keys, f"{name}.key")

    def split(self, labels: NDArray[Any]) -> list[NDArray[np.int64]]:
        """Who holds what: the samples of each client."""
        scenarios = {
            "iid": "iid",
            "dirichlet": f"alpha={self.alpha}",
            "shards": f"shards={self.shards}",
        }
        if self.partition not in scenarios:
            raise SettingsError(f"partition {self.partition!r}; expected {', '.join(scenarios)}")
        generator = np.random.default_rng(self.seed)
        return partition(
            labels, scenarios[self.partition], clients=self.clients, generator=generator
        )
