"""The ClientApp of a simulation: every node holds one part of a table.

A node has only a number; the run's configuration names the file that says which table is split,
and how. No data leave a site in a simulation, so clients have no policy, release sheet or log.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

from safle.encoders import Encoder, check_source
from safle.errors import TableError
from safle.private import (
    History,
    PrivateKey,
    PrivateRound,
    PublicKey,
    Request,
    answer_on_record,
    mask,
)
from safle.site import LOG, airlock
from safle.statistics import Statistics, count
from safle.tables import Table, open_table
from safle.wire import encode_statistics
from safle_flower import messages
from safle_flower.apps import make_client_app
from safle_flower.client import Settings
from safle_flower.messages import Answer
from safle_flower.simulation.simulation import Simulation


def answer_share(context: Context, asked: airlock.Question, settings: Settings) -> Answer:
    """The answer of the client, or of the keyholder, that a node's number stands for."""
    simulation = Simulation.read(str(context.run_config["simulation"]))
    number = int(context.node_config["partition-id"])
    name = simulation.name_of(number)
    if number >= simulation.clients:
        if asked.kind == airlock.OPEN:
            return Answer(name, messages.SENT, data=_open(name, simulation, asked))
        return Answer(name, messages.KEYHOLDER, keyholder=name)
    if messages.is_known(name, settings):
        return Answer(name, messages.KNOWN)
    statistics = _count(simulation, number, asked.files[airlock.ENCODER])
    if asked.kind == airlock.MASK:
        private_round = _round(simulation, asked)
        key = PrivateKey.load(simulation.key_of(name))
        return Answer(name, messages.SENT, data=mask(private_round, key, statistics).to_bytes())
    return Answer(name, messages.SENT, data=encode_statistics(statistics))


def _round(simulation: Simulation, asked: airlock.Question) -> PrivateRound:
    operator = PublicKey.load(Path(simulation.keys, "operator.pub"))
    return PrivateRound.load(asked.files[airlock.ROUND], operator)


def _open(name: str, simulation: Simulation, asked: airlock.Question) -> bytes:
    """A keyholder's answer; its history and log are in the folder of keys."""
    request = Request.from_bytes(asked.files[airlock.REQUEST], _round(simulation, asked))
    key = PrivateKey.load(simulation.key_of(name))
    with History(Path(simulation.keys, f"{name}.sqlite")) as history:
        log = Path(simulation.keys, LOG)
        return answer_on_record(request, key, history, place=log).to_bytes(key)


def _count(simulation: Simulation, number: int, encoder_file: bytes) -> Statistics:
    encoder, table, parts = _split(simulation, encoder_file)
    rows = parts[number]
    weights = None if table.weights is None else table.weights[rows]
    assert table.labels is not None, "_split refuses a table without labels"
    return count(encoder, table.features[rows], table.labels[rows], weights=weights)


# A process that stands for many clients reads and splits the table once.
@lru_cache(maxsize=1)
def _split(
    simulation: Simulation, encoder_file: bytes
) -> tuple[Encoder, Table, list[NDArray[np.int64]]]:
    encoder = Encoder.from_bytes(encoder_file)
    where = simulation.features
    selection: dict[str, Any] = dict(simulation.selection)
    table = open_table(where, schema=encoder.schema, **selection)
    if table.labels is None:
        raise TableError(f"{where}: has no labels; a client counts features with labels")
    check_source(encoder.source, table.source, where=where, trusted=True)
    arranged = table.arranged(encoder.feature_names, where=where)
    return encoder, arranged, simulation.split(table.labels)


app = make_client_app(answer_share)
