"""A federation of real processes on 127.0.0.1: one SuperLink, SuperNodes, and what befalls them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest

from safle.federation.flower import processes
from safle.federation.flower.app_folder import SERVER_APP, write_app
from safle.federation.index import read_index
from safle.federation.store import Store
from safle.model import Model
from safle.solver import solve

pytestmark = pytest.mark.slow
PLAYING = Path(__file__).with_name("playing.py")
PATIENCE = 120.0


def eventually(what, *, seconds: float = PATIENCE, explain=lambda: ""):
    """Wait until ``what()`` is true, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.05)
    raise AssertionError(f"it did not happen within {seconds} s: {explain()}")


class CountingProxy:
    """Passes a node's bytes on to the SuperLink and says when many have gone up."""

    def __init__(self, target: int, limit: int) -> None:
        self.reached = threading.Event()
        self._target, self._limit, self._sent = target, limit, 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                node, _ = self._server.accept()
                link = socket.create_connection(("127.0.0.1", self._target))
                for ends in ((node, link, True), (link, node, False)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if up:
                    self._sent += len(data)
                    if self._sent >= self._limit:
                        # The rest never arrives: the node is killed in the middle of it.
                        self.reached.set()
                        return
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()


class Network:
    """A SuperLink, its nodes, and the operator's commands."""

    def __init__(self, federation, folder: Path, stack: contextlib.ExitStack) -> None:
        self.federation, self.folder, self._stack = federation, folder, stack
        self.port = processes.free_port()
        self.env = processes.environment(folder / "flwr") | {
            "OMP_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
        }
        processes.name_connection(folder / "flwr", f"127.0.0.1:{self.port}")
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "orders").mkdir()
        self.order()
        self.app = write_app(folder / "app", {}, server=SERVER_APP, client="playing:app")
        shutil.copy(PLAYING, self.app / "playing.py")
        command = [processes.program("flower-superlink"), "--insecure", "--port", str(self.port)]
        command += ["--host", "127.0.0.1", "--disable-runtime-dependency-installation"]
        self.log = folder / "superlink.log"
        self.superlink = stack.enter_context(processes.running(command, env=self.env, log=self.log))
        processes.wait_until_healthy(self.port, self.superlink, log=self.log)

    def start_node(self, name: str, *, through: int | None = None) -> None:
        settings = {
            "client": name,
            "features": str(self.federation.table(name)),
            "orders": str(self.folder / "orders"),
        }
        config = " ".join(f"{key}={json.dumps(value)}" for key, value in settings.items())
        command = [processes.program("flower-supernode"), "--insecure", "--host", "127.0.0.1"]
        command += ["--superlink", f"127.0.0.1:{through or self.port}"]
        command += ["--port", str(processes.free_port()), "--node-config", config]
        log = self.folder / f"node-{name}.log"
        self.nodes[name] = self._stack.enter_context(
            processes.running(command, env=self.env, log=log)
        )

    def kill_node(self, name: str) -> None:
        """With its ClientApp: -9, and no time to say anything."""
        os.killpg(self.nodes[name].pid, signal.SIGKILL)
        for child in psutil.Process(self.nodes[name].pid).children(recursive=True):
            child.kill()
        self.nodes[name].wait(30)

    def order(self, **orders: str) -> None:
        """What each client shall do from now on; what was noted before is forgotten."""
        place = self.folder / "orders"
        (place / "orders.json").write_text(json.dumps(orders))
        (place / "notes.txt").write_text("")
        (place / "release").unlink(missing_ok=True)

    def notes(self, what: str) -> list[str]:
        lines = (self.folder / "orders" / "notes.txt").read_text().splitlines()
        return sorted(line.split()[0] for line in lines if line.endswith(what))

    def start(self, name: str, **settings) -> str:
        """``flwr run`` with results and store of that name."""
        config = {
            "store": str(self.folder / f"{name}-store"),
            "output": str(self.folder / f"{name}-results"),
            "encoder": str(self.federation.encoder_path),
            "deadline": PATIENCE,
            **settings,
        }
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        return processes.start_run(self.app, "--run-config", text, env=self.env)

    def finish(self, run: str) -> str:
        """Its status at the end."""

        def ended() -> str | None:
            status = processes.run_status(run, env=self.env)
            return status if status.startswith("finished") else None

        return eventually(ended, explain=lambda: processes.tail(self.log, 40))

    def run(self, name: str, **settings) -> dict:
        """A whole run that must end well; its report."""
        status = self.finish(self.start(name, **settings))
        assert status == "finished:completed", processes.tail(self.log, 60)
        return self.report(name)

    def report(self, name: str) -> dict:
        return json.loads((self.folder / f"{name}-results" / "report.json").read_text())

    def model(self, name: str) -> bytes:
        return (self.folder / f"{name}-results" / "model.safetensors").read_bytes()

    def members(self, name: str) -> int:
        index = self.folder / f"{name}-store" / "index"
        return len(read_index(index)) - 1 if index.exists() else 0

    def server_app(self) -> psutil.Process | None:
        for child in psutil.Process(self.superlink.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if any("flwr-serverapp" in part for part in child.cmdline()):
                    return child
        return None


@pytest.fixture(scope="module")
def network(federation, tmp_path_factory):
    """One SuperLink for all of these tests, which follow each other."""
    with contextlib.ExitStack() as stack:
        network = Network(federation, tmp_path_factory.mktemp("network"), stack)
        for name in "abc":
            network.start_node(name)
        yield network


def statuses(report: dict) -> dict[str, str]:
    return {row["client"]: row["status"] for row in report["clients"]}


def test_three_nodes_give_the_model_of_files_and_of_the_pooled_data(network, federation, tmp_path):
    report = network.run("plain", expected="a,b,c")
    assert statuses(report) == dict.fromkeys("abc", "accepted")
    assert network.notes("counted") == ["a", "b", "c"]
    assert network.model("plain") == federation.by_files("abc", tmp_path)
    assert network.model("plain") == federation.pooled("abc")
    sizes = [federation.statistics_file(name).stat().st_size for name in "abc"]
    assert sorted(row["bytes"] for row in report["clients"]) == sorted(sizes)


def test_a_client_that_comes_late_is_added_without_the_others(network, federation, tmp_path):
    network.start_node("d")
    network.order()
    report = network.run("plain", clients=4)
    assert statuses(report) == {**dict.fromkeys("abc", "kept"), "d": "accepted"}
    assert network.notes("counted") == ["d"]
    assert network.model("plain") == federation.by_files("abcd", tmp_path)


def test_a_corrupted_and_a_duplicated_payload_are_refused(network, federation, tmp_path):
    shutil.copy(federation.statistics_file("a"), network.folder / "orders" / "stolen.stats")
    network.order(b="corrupt", c="duplicate", a="honest", d="wait")
    run = network.start("hostile", clients=4)
    # d comes last, so that c's copy of a's counts cannot come before a's.
    eventually(lambda: network.members("hostile") >= 1)
    (network.folder / "orders" / "release").touch()
    assert network.finish(run) == "finished:completed"
    report = network.report("hostile")
    taken = report["accepted"]
    assert len(taken) == 2
    assert "d" in taken
    assert statuses(report)["b"] == "refused"
    # Whoever of the two was first is in, under its own name, with the very same counts.
    assert {statuses(report)["a"], statuses(report)["c"]} == {"accepted", "refused"}
    assert network.model("hostile") == federation.by_files("ad", tmp_path)


def test_a_server_killed_between_two_contributions_goes_on(network, federation, tmp_path):
    network.order(c="wait", d="wait")
    run = network.start("killed", clients=4)
    eventually(lambda: network.members("killed") == 2)
    server = network.server_app()
    server.kill()
    (network.folder / "orders" / "release").touch()
    assert network.finish(run) == "finished:failed"
    assert not (network.folder / "killed-results" / "model.safetensors").exists()
    assert sorted(Store.open(network.folder / "killed-store").members) == ["a", "b"]
    network.order()
    report = network.run("killed", clients=4)
    assert statuses(report) == {"a": "kept", "b": "kept", "c": "accepted", "d": "accepted"}
    assert network.notes("counted") == ["c", "d"]
    assert network.model("killed") == federation.by_files("abcd", tmp_path)


def test_nodes_that_die_or_sleep_are_left_behind_at_the_deadline(network, federation, tmp_path):
    proxy = CountingProxy(network.port, 20_000_000)
    network.start_node("e", through=proxy.port)
    network.order(b="sleep", d="sleep", e="large")
    begun = time.monotonic()
    run = network.start("dying", expected="a,b,c,d,e", deadline=25.0)
    eventually(lambda: "b" in network.notes("asked"))
    network.kill_node("b")
    assert proxy.reached.wait(PATIENCE), processes.tail(network.folder / "node-e.log", 40)
    network.kill_node("e")
    assert network.finish(run) == "finished:completed"
    assert time.monotonic() - begun < 80
    proxy.close()
    report = network.report("dying")
    assert sorted(report["accepted"]) == ["a", "c"]
    assert sorted(row["status"] for row in report["clients"])[:2] == ["accepted", "accepted"]
    assert {row["status"] for row in report["clients"]} <= {"accepted", "failed", "late", "missing"}
    assert report["round_seconds"] < 30
    assert network.model("dying") == federation.by_files("ac", tmp_path)
    # The dead one's counts come by file, and nobody else is asked for anything.
    with Store.open(network.folder / "dying-store", writing=True) as store:
        store.add("b", federation.statistics_file("b").read_bytes())
        statistics = store.total().statistics()
    model = Model.from_solution(federation.encoder, statistics, solve(statistics))
    assert model.to_bytes() == federation.by_files("abc", tmp_path)
