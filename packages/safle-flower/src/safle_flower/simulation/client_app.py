"""The ClientApp of a simulation: every node is a share of one table.

A node has only a number; the run's configuration says which table is split, and how.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.demo import partition
from safle.errors import SettingsError, TableError
from safle.site.log import LOG
from safle.tables import Table
from safle_flower.apps import make_client_app
from safle_flower.client import (
    Client,
    Settings,
    client_name,
    open_client,
    open_configured,
)
from safle_flower.private import Papers
from safle_flower.settings import Run, Simulation


def open_share(node_id: int, node: Settings, run: Settings) -> Client:
    """The client that a node's number stands for, or the node's own table if it has one."""
    if "partition-id" not in node or not run.get("features"):
        return open_client(node_id, node, run)
    settings = Run.from_flat(run)
    simulation = settings.simulation
    table, parts = _split(simulation, settings.rules.clients or int(node["num-partitions"]))
    rows = parts[int(node["partition-id"])]
    client = Client(client_name(node_id, node), table, simulation.features, rows, trusted=True)
    return replace(client, reading=Run(simulation=simulation).to_flat())


def find_papers(node: Settings, run: Settings) -> Papers:
    """The keys that a node's number stands for: those after the clients are keyholders."""
    folder = Path(str(run["keys"]))
    number, clients = int(node["partition-id"]), Run.from_flat(run).rules.clients
    holder = f"keyholder-{number - clients + 1}"
    name = client_name(0, node) if number < clients else holder
    history = folder / f"{name}.sqlite"
    return Papers(folder / f"{name}.key", folder / "operator.pub", history, folder / LOG)


# A process that stands for many clients reads and splits the table once.
@lru_cache(maxsize=1)
def _split(simulation: Simulation, clients: int) -> tuple[Table, list[NDArray[np.int64]]]:
    table = open_configured(Run(simulation=simulation).to_flat())
    if table.labels is None:
        raise TableError(
            f"{simulation.features}: has no labels; a client counts features with labels"
        )
    return table, split_over(table.labels, simulation, clients)


def split_over(
    labels: NDArray[Any], simulation: Simulation, clients: int
) -> list[NDArray[np.int64]]:
    """Who holds what, by the partition's name: "iid", "dirichlet" or "shards"."""
    scenarios = {
        "iid": "iid",
        "dirichlet": f"alpha={simulation.alpha}",
        "shards": f"shards={simulation.shards}",
    }
    if simulation.partition not in scenarios:
        raise SettingsError(f"partition {simulation.partition!r}; expected {', '.join(scenarios)}")
    generator = np.random.default_rng(simulation.seed)
    return partition(labels, scenarios[simulation.partition], clients=clients, generator=generator)


app = make_client_app(open_share, find_papers)
