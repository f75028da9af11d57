"""A federation of real processes on 127.0.0.1: one SuperLink, SuperNodes, and their operator."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import psutil

from flower_support import processes
from flower_support.stores import count_members
from safle_flower.apps import write_app
from safle_flower.settings import Run

TESTS = Path(__file__).parents[1]
PATIENT = TESTS / "flower_support/patience"
SHARED = [PATIENT, TESTS, TESTS.parents[1] / "safle/tests", os.environ.get("PYTHONPATH", "")]
PATHS = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, SHARED))}
"""The environment of Flower's programs, and of a process that imports what tests share."""
PATIENCE = 300.0
"""Seconds that a busy machine may take for anything: nobody waits for it who need not."""
HALF = b"POST /v1/fleet/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nhalf"


def eventually(what, *, seconds: float = PATIENCE, explain=lambda: ""):
    """Wait until ``what()`` is true, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.05)
    raise AssertionError(f"it did not happen within {seconds} s: {explain()}")


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


@contextlib.contextmanager
def half_open(port: int, connections: int, trusting: ssl.SSLContext | None = None):
    """Connections that say nothing at all, half a header, or half a body; with TLS if trusted."""
    with contextlib.ExitStack() as stack:
        stalled = []
        for number in range(connections):
            plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
            said = HALF[: (0, 20, len(HALF))[number % 3]]
            if trusting is not None and said:
                plain = trusting.wrap_socket(plain, server_hostname="127.0.0.1")
            stalled.append(stack.enter_context(plain))
            plain.sendall(said)
        yield stalled


class CountingProxy:
    """Passes a node's bytes on to the SuperLink; once armed, only so many go up."""

    def __init__(self, target: int) -> None:
        self.reached = threading.Event()
        self._target, self._left = target, float("inf")
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, limit: int) -> None:
        self._left = limit

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
                    self._left -= len(data)
                    if self._left < 0:
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
    """A SuperLink, its nodes, and the operator's commands; ``pace``: seconds of the last run."""

    def __init__(self, federation, folder: Path, stack: contextlib.ExitStack) -> None:
        self.federation, self.folder, self._stack = federation, folder, stack
        self.port = processes.free_port()
        self.env = processes.environment(folder / "flwr") | {
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": PATHS["PYTHONPATH"],
        }
        processes.name_connection(folder / "flwr", f"127.0.0.1:{self.port}")
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.pace, self._started, self._deadline = 20.0, 0.0, 0.0
        self.proxy: CountingProxy | None = None
        (folder / "orders").mkdir()
        self.order()
        self.app = write_app(folder / "app", Run(), client="flower_support.playing:app")
        self.log = folder / "superlink.log"
        self.start_superlink()

    def start_superlink(self) -> None:
        """As the scripts of a deployment start it, with a database that outlives it."""
        command = [processes.program("flower-superlink"), "--insecure", "--port", str(self.port)]
        command += ["--host", "127.0.0.1", "--disable-runtime-dependency-installation"]
        command += ["--database", self.folder / "superlink.db"]
        started = processes.running(command, env=self.env, log=self.log)
        self.superlink = self._stack.enter_context(started)
        processes.wait_until_healthy(self.port, self.superlink, log=self.log)

    def kill_superlink(self) -> None:
        """-9, and nothing else: what it has started notices by itself."""
        self.superlink.kill()
        self.superlink.wait(PATIENCE)

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
        # A dead parent has no children that could be found.
        children = psutil.Process(self.nodes[name].pid).children(recursive=True)
        os.killpg(self.nodes[name].pid, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self.nodes[name].wait(PATIENCE)

    def order(self, **orders: str) -> None:
        """What each client shall do from now on; what was noted before is forgotten."""
        place = self.folder / "orders"
        (place / "orders.json").write_text(json.dumps(orders))
        (place / "notes.txt").write_text("")
        (place / "release").unlink(missing_ok=True)

    def release(self) -> None:
        """Let those go on that wait."""
        (self.folder / "orders" / "release").touch()

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
            "least": 1,
            **settings,
        }
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        self._started = time.monotonic()
        self._deadline = float(config["deadline"])
        return processes.start_run(self.app, "--run-config", text, env=self.env)

    def run(self, name: str, **settings) -> dict:
        """A whole run that must end well; its report."""
        return self.finish(name, self.start(name, **settings))

    def finish(self, name: str, run: str) -> dict:
        """Wait for the end of a run that must end well; its report, and how long it took."""
        path = self.folder / f"{name}-results" / "report.json"
        # A round that waits for somebody who is silent ends at its deadline, not before.
        seconds = self._deadline + PATIENCE
        eventually(path.exists, seconds=seconds, explain=lambda: processes.tail(self.log, 60))
        self.pace = time.monotonic() - self._started

        # Asking Flower starts a program: once there is a report, it does not take long.
        def status() -> str | None:
            found = processes.run_status(run, env=self.env)
            return found if found.startswith("finished") else None

        assert eventually(status) == "finished:completed", processes.tail(self.log, 60)
        return json.loads(path.read_text())

    def model(self, name: str) -> bytes:
        return (self.folder / f"{name}-results" / "model.safetensors").read_bytes()

    def members(self, name: str) -> int:
        return count_members(self.folder / f"{name}-store")

    def server_app(self) -> psutil.Process | None:
        for child in psutil.Process(self.superlink.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if any("flwr-serverapp" in part for part in child.cmdline()):
                    return child
        return None


def has_ended(process: psutil.Process) -> bool:
    """Whether it is gone, or dead and nobody has asked how it ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


def statuses(report: dict) -> dict[str, str]:
    """By the client's name.

    A node that has signed on anew, as all do to a SuperLink that comes back, may still be listed
    under its old number as well. Of a number that never answers no name is known.
    """
    named = [(row["client"], row["status"]) for row in report["clients"] if row["client"]]
    assert len(dict(named)) == len(named), named
    unnamed = {row["status"] for row in report["clients"] if not row["client"]}
    assert unnamed <= {"late", "failed"}, report["clients"]
    return dict(named)
