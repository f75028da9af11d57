"""A federation of real processes on 127.0.0.1: one SuperLink, SuperNodes, and what befalls them."""

from __future__ import annotations

import contextlib
import shutil

import pytest

from flower_support import processes
from flower_support.network import (
    PATIENCE,
    CountingProxy,
    Network,
    eventually,
    half_open,
    statuses,
)
from safle import Model, solve
from safle.server.store import Store

pytestmark = pytest.mark.slow
STALLED = 40


@pytest.fixture(scope="module")
def network(federation, tmp_path_factory):
    """One SuperLink for all of these tests, which follow each other."""
    with contextlib.ExitStack() as stack:
        network = Network(federation, tmp_path_factory.mktemp("network"), stack)
        network.proxy = CountingProxy(network.port)
        stack.callback(network.proxy.close)
        for name in "abc":
            network.start_node(name)
        network.start_node("e", through=network.proxy.port)
        yield network


def test_three_nodes_give_the_model_of_files_and_a_copy_is_refused(network, federation, tmp_path):
    shutil.copy(federation.statistics_file("a"), network.folder / "orders" / "stolen.stats")
    network.order(e="duplicate")
    # Half-open connections hold nobody up.
    with half_open(network.port, STALLED):
        run = network.start("plain", clients=4)
        eventually(lambda: network.members("plain") == 3, explain=lambda: network.notes("counted"))
        # Only now does e send what a has sent.
        network.release()
        report = network.finish("plain", run)
    assert statuses(report) == {**dict.fromkeys("abc", "accepted"), "e": "refused"}
    (copied,) = [row for row in report["clients"] if row["client"] == "e"]
    assert "came from 'a' already" in copied["reason"]
    assert network.model("plain") == federation.by_files("abc", tmp_path)
    assert network.model("plain") == federation.pooled("abc")
    sizes = [federation.statistics_file(name).stat().st_size for name in "aabc"]
    assert sorted(row["bytes"] for row in report["clients"] if row["client"]) == sorted(sizes)


def test_a_killed_server_goes_on_and_a_late_client_is_added(network, federation, tmp_path):
    network.order(c="wait", e="wait")
    network.start("killed", expected="a,b,c")
    eventually(lambda: network.members("killed") == 2)
    eventually(lambda: {*network.notes("asked")} == {*"abce"})
    server = network.server_app()
    server.kill()
    network.release()
    # What c answers now, nobody takes.
    eventually(lambda: {*network.notes("counted")} == {*"abce"})
    assert not (network.folder / "killed-results" / "report.json").exists()
    assert sorted(Store.open(network.folder / "killed-store").members) == ["a", "b"]
    network.order()
    network.start_node("d")
    report = network.run("killed", expected="a,b,c,d")
    expected = {"a": "kept", "b": "kept", "c": "accepted", "d": "accepted", "e": "refused"}
    # e is not expected; whether it had answered before all the others were in is its own affair.
    found = statuses(report)
    assert found.items() <= expected.items()
    assert {"a", "b", "c", "d"} <= set(found)
    assert {"c", "d"} <= set(network.notes("counted")) <= {"c", "d", "e"}
    assert network.model("killed") == federation.by_files("abcd", tmp_path)


def test_nodes_that_die_lie_or_sleep_are_left_behind(network, federation, tmp_path):
    network.order(b="sleep", c="sleep", d="corrupt", e="large")
    network.proxy.arm(20_000_000)
    if "d" not in network.nodes:
        network.start_node("d")
    # Time enough for those who answer, on this machine as busy as it is.
    deadline = max(60.0, 3 * network.pace)
    run = network.start("dying", expected="a,b,c,d,e", deadline=deadline)
    eventually(lambda: "b" in network.notes("asked"))
    network.kill_node("b")
    assert network.proxy.reached.wait(PATIENCE), processes.tail(network.folder / "node-e.log", 40)
    network.kill_node("e")
    report = network.finish("dying", run)
    assert report["accepted"] == ["a"]
    # Nobody has waited for the one that sleeps.
    assert "c" not in network.notes("counted")
    # Two died and one sleeps: the server knows that they have not answered, and of a dead node,
    # some 40 s later, that it went away.
    never = dict.fromkeys("bce", "missing")
    assert statuses(report) == {"a": "accepted", "d": "refused", **never}
    assert len([row for row in report["clients"] if not row["client"]]) >= 3
    (corrupt,) = [row for row in report["clients"] if row["status"] == "refused"]
    assert corrupt["client"] == "d"
    assert "checksum" in corrupt["reason"]
    assert network.model("dying") == federation.by_files("a", tmp_path)
    # The dead one's counts come by file, and nobody else is asked for anything.
    with Store.open(network.folder / "dying-store", writing=True) as store:
        store.add("b", federation.statistics_file("b").read_bytes())
        statistics = store.total().snapshot()
    model = Model.of(federation.encoder, solve(statistics))
    assert model.to_bytes() == federation.by_files("ab", tmp_path)
