"""Clients for tests: one that reads its table itself, and one whose site's own command answers."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from safle import Encoder, count, encode, open_table
from safle.basics import as_settings
from safle.cli.main import run
from safle_flower import messages
from safle_flower.adapter import InProcessGrid
from safle_flower.airlock import COUNT, Airlock, Refused
from safle_flower.apps import answer_from_outbox, client_name, make_client_app
from safle_flower.messages import Answer
from safle_flower.server import serve
from safle_flower.settings import Run

DEADLINE = 600.0
"""Seconds, on a machine however busy: nobody waits for it."""


def answer_directly(context, asked, settings):
    """Count the table of the node's configuration: for tests of what the server does."""
    node = context.node_config
    name = client_name(context)
    if messages.is_known(name, settings):
        return Answer(name, messages.KNOWN)
    table = open_table(node["features"])
    assert asked.kind == COUNT
    encoder = Encoder.from_bytes(asked.files["encoder.safetensors"])
    counted = count(encoder, np.asarray(table.features), table.labels)
    return Answer(name, messages.SENT, data=encode(counted))


direct_app = make_client_app(answer_directly)


def answer_by_site(context, asked, settings):
    """The real node; when it waits, the command ``site`` of its configuration runs once."""
    node = context.node_config
    try:
        return answer_from_outbox(context, asked, {**settings, "seconds": 0.0})
    except Refused:
        folders = [node["inbox"], node["outbox"]]
        with pytest.raises(SystemExit) as ended:
            run(["airlock", *folders, *shlex.split(node["site"])])
        assert ended.value.code == 0
        data = Airlock(*map(Path, folders)).find_answer(asked)
        return Answer(node["client"], messages.SENT, data=data)


site_app = make_client_app(answer_by_site)


def run_in(folder: Path, encoder: Path, clients: int, /, **settings) -> Run:
    """A run whose store and results are in a folder; nobody waits for its deadline."""
    places = {"store": folder / "store", "output": folder / "results", "encoder": encoder}
    config = {name: str(path) for name, path in places.items()}
    rules = {"clients": clients, "deadline": DEADLINE, "least": 1}
    return as_settings(Run, {**config, **rules, **settings})


def serve_sites(folder, encoder, nodes, *, kind=InProcessGrid, app=site_app, **settings):
    """The report of a round whose sites answer by their own commands, and its grid."""
    grid = kind(app, nodes)
    return serve(grid, run_in(folder, encoder, len(nodes), **settings)), grid


def node_with_airlock(folder: Path, name: str, *site: object, **config: str) -> dict[str, str]:
    """The configuration of a node whose site answers with these words of ``safle airlock``."""
    place = folder / "airlocks" / name
    for part in ("inbox", "outbox"):
        (place / part).mkdir(parents=True, exist_ok=True)
    folders = {part: str(place / part) for part in ("inbox", "outbox")}
    return {"client": name, **folders, "site": shlex.join(map(str, site)), **config}
