"""The SuperLink dies in the middle of a round."""

from __future__ import annotations

import contextlib
import json

import pytest

from flower_support import processes
from flower_support.network import Network, eventually, has_ended, statuses
from safle.server.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def network(federation, tmp_path_factory):
    with contextlib.ExitStack() as stack:
        network = Network(federation, tmp_path_factory.mktemp("network"), stack)
        for name in "abc":
            network.start_node(name)
        yield network


def test_a_superlink_that_dies_and_comes_back_loses_nothing(network, federation, tmp_path):
    network.order(c="wait")
    network.start("dead", expected="a,b,c")
    eventually(lambda: network.members("dead") == 2, explain=lambda: processes.tail(network.log))
    eventually(lambda: "c" in network.notes("asked"))
    server = network.server_app()
    network.kill_superlink()
    # The server's app ends by itself and says why, in one line.
    eventually(lambda: has_ended(server), explain=lambda: processes.tail(network.log))
    report = json.loads((network.folder / "dead-results" / "report.json").read_text())
    assert "the SuperLink or its operator has ended this run" in report["error"]
    assert "\n" not in report["error"]
    assert sorted(report["accepted"]) == ["a", "b"]
    assert sorted(Store.open(network.folder / "dead-store").members) == ["a", "b"]
    (network.folder / "dead-results" / "report.json").unlink()

    # What c answers now, nobody takes.
    network.release()
    eventually(lambda: "c" in network.notes("counted"))
    network.order()
    network.start_superlink()
    report = network.run("dead", expected="a,b,c")
    assert statuses(report) == {"a": "kept", "b": "kept", "c": "accepted"}
    assert network.notes("counted") == ["c"]
    assert network.model("dead") == federation.by_files("abc", tmp_path)
