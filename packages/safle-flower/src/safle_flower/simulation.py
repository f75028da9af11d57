"""K clients in one process: a table, split by a partition, through a deployment's server."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

from safle import (
    LOG,
    Encoder,
    Limits,
    Statistics,
    Table,
    count,
    encode,
    load_encoder,
    open_matching,
)
from safle.basics import atomic, require_package
from safle_flower import airlock, messages
from safle_flower.adapter import InProcessGrid
from safle_flower.apps import Settings, make_client_app
from safle_flower.messages import Answer
from safle_flower.report import Report
from safle_flower.server import serve
from safle_flower.settings import Run
from safle_private import (
    History,
    PrivateKey,
    Request,
    answer_request,
    declare_round,
    mask,
)

KEYHOLDERS = 2
"""How many keyholders a private simulation has."""


def simulate(
    features: Path,
    encoder_path: Path,
    output: Path,
    *,
    clients: int,
    scenario: str = "iid",
    seed: int = 0,
    private: bool = False,
    deadline: float = 3600.0,
    limits: Limits | None = None,
    reading: Mapping[str, Any] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Report:
    """Run a federation of simulated clients and return its report.

    Parameters
    ----------
    output : folder of the model, the sum and the report
    scenario : "iid": equal parts at random; else as `safle_lab.partitions.partition` says
    private : clients mask their contributions, and further nodes are keyholders
    reading : options of `safle.tables.open_table`
    progress : called with the share of the clients that have contributed
    """
    # One machine counts no more clients at once than it has cores; as many again may wait, so
    # that neither side is idle. More would only fill the server's memory.
    at_once = 2 * (os.cpu_count() or 1)
    encoder = load_encoder(encoder_path)
    table = open_matching(encoder, features, **reading or {})
    generator = np.random.default_rng(seed)
    parts = _split(table, scenario, clients, generator)
    atomic.make_folder(output)
    with TemporaryDirectory(prefix=".simulation-", dir=output) as name:
        scratch = Path(name)
        sites = _Sites(encoder, table, parts, scratch)
        run = Run.limited(
            # A split may leave clients without samples.
            replace(limits or Limits(), allow_empty=True),
            store=str(scratch / "store"),
            output=str(output),
            encoder=str(encoder_path),
            clients=clients,
            least=min(Run().least, clients),
            deadline=deadline,
            at_once=at_once,
            **(sites.declare_round() if private else {}),
        )
        nodes = [{"client": name} for name in (*sites.rows, *sites.keyholders)]
        grid = InProcessGrid(make_client_app(sites.answer), nodes)
        return serve(grid, run, progress=progress)


def _split(
    table: Table, scenario: str, clients: int, generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """The rows of each client."""
    if scenario == "iid":
        order = generator.permutation(len(table)).astype(np.int64)
        return [np.sort(part) for part in np.array_split(order, clients)]
    need = f"splitting a table by {scenario}"
    partitions = require_package("safle_lab.partitions", "safle-lab", need)
    labels = np.asarray(table.labels)
    parts: list[NDArray[np.int64]] = partitions.partition(
        labels, scenario, clients=clients, generator=generator
    )
    return parts


class _Sites:
    """All clients and keyholders of a simulation; no data leave a site, so they have no policy."""

    def __init__(
        self, encoder: Encoder, table: Table, parts: Sequence[NDArray[np.int64]], scratch: Path
    ) -> None:
        self._encoder = encoder
        self._table = table
        self._labels = np.asarray(table.labels)
        self._scratch = scratch
        self.rows = {f"client-{number:03d}": part for number, part in enumerate(parts)}
        self.keyholders: tuple[str, ...] = ()

    def declare_round(self) -> dict[str, str]:
        """Make keys and a round for the table's samples and classes; return their settings."""
        self.keyholders = tuple(f"keyholder-{number + 1}" for number in range(KEYHOLDERS))
        self._keys = {name: PrivateKey.new(name) for name in (*self.rows, *self.keyholders)}
        operator = PrivateKey.new("operator")
        classes = sorted({*self._labels.tolist()})
        self._round = declare_round(
            operator,
            Statistics.empty(self._encoder.space, classes),
            max(1, len(self._table)),
            clients=[self._keys[name].public for name in self.rows],
            keyholders=[self._keys[name].public for name in self.keyholders],
            least_clients=None if len(self.rows) > 2 else 2,
        )
        public, declared = self._scratch / "operator.pub", self._scratch / "round.private"
        operator.public.save(public)
        atomic.write_bytes(declared, self._round.data)
        return {"round": str(declared), "operator": str(public)}

    def answer(self, context: Context, question: airlock.Question, settings: Settings) -> Answer:
        """The answer of the client, or of the keyholder, that a node represents."""
        del settings
        name = str(context.node_config["client"])
        if name not in self.keyholders:
            return Answer(name, messages.SENT, data=self._count(name, question.kind))
        if question.kind == airlock.OPEN:
            return Answer(name, messages.SENT, data=self._open(name, question))
        return Answer(name, messages.KEYHOLDER)

    def _count(self, name: str, kind: str) -> bytes:
        rows = self.rows[name]
        statistics = count(self._encoder, self._table.features[rows], self._labels[rows])
        if kind == airlock.MASK:
            return mask(self._round, self._keys[name], statistics).to_bytes()
        return encode(statistics)

    def _open(self, name: str, question: airlock.Question) -> bytes:
        request = Request.from_bytes(question.files[airlock.REQUEST], self._round)
        key, log = self._keys[name], self._scratch / LOG
        place = self._scratch / f"{name}.history"
        history = History(place, new=not place.exists())
        return answer_request(request, key, history, log=log).to_bytes(key)
