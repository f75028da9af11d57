"""The ClientApp of a simulation: every node is a share of one table.

A node has only a number; the run's configuration says which table is split, and how.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.data.tables import Table, open_table
from safle.errors import SettingsError, TableError
from safle.federation.flower.client import Client, Settings, client_name, open_client
from safle.federation.flower.client_app import make_app
from safle.lab.partitions import Parts, dirichlet, iid, shards


def open_share(node_id: int, node: Settings, run: Settings) -> Client:
    """The client that a node's number stands for, or the node's own table if it has one."""
    if "partition-id" not in node or not run.get("features"):
        return open_client(node_id, node, run)
    table, parts = _simulated(
        str(run["features"]),
        str(run["split"]),
        str(run["partition"]),
        float(run["alpha"]),
        int(run["shards"]),
        int(run["seed"]),
        int(node["num-partitions"]),
    )
    rows = parts[int(node["partition-id"])]
    return Client(client_name(node_id, node), table, str(run["features"]), rows, trusted=True)


# A process that stands for many clients reads and splits the table once.
@lru_cache(maxsize=1)
def _simulated(
    features: str,
    split: str,
    partition: str,
    alpha: float,
    per_client: int,
    seed: int,
    clients: int,
) -> tuple[Table, Parts]:
    table = open_table(features, split=split or None)
    if table.labels is None:
        raise TableError(f"{features}: has no labels; a client counts features with labels")
    return table, split_over(
        table.labels, partition, clients, alpha=alpha, per_client=per_client, seed=seed
    )


def split_over(
    labels: NDArray[Any], partition: str, clients: int, *, alpha: float, per_client: int, seed: int
) -> Parts:
    """Who holds what, by the partition's name: "iid", "dirichlet" or "shards"."""
    generator = np.random.default_rng(seed)
    if partition == "iid":
        return iid(len(labels), clients=clients, generator=generator)
    if partition == "dirichlet":
        return dirichlet(labels, clients=clients, alpha=alpha, generator=generator)
    if partition == "shards":
        return shards(labels, clients=clients, shards_per_client=per_client, generator=generator)
    raise SettingsError(f"partition {partition!r}; expected iid, dirichlet or shards")


app = make_app(open_share)
