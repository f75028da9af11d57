"""nginx in front of the SuperLink, as the deployment guide says, and looked at from outside."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flower_support import processes
from flower_support.network import PATHS, PATIENCE, answers, eventually, half_open
from safle_flower.checking import check_folder
from safle_flower.deployment import Deployment, make_folder

# Debian keeps it where only the administrator looks.
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not NGINX, reason="needs nginx")]
CLOSED = (
    "/",
    "/health",
    "/v1/control/start-run",
    "/v1/control/list-runs",
    "/v1/runtime/pull-task-input",
    "//v1/control/list-runs",
    "/v1/fleet/../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/fleet/..%2fcontrol/list-runs",
    "/v1/fleet/x/../../control/list-runs",
)
SURROUNDINGS = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


def two_free_ports() -> int:
    """A free port whose successor is free as well: nginx and, behind it, the SuperLink."""
    for _ in range(100):
        port = processes.free_port()
        with contextlib.suppress(OSError, OverflowError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port + 1))
            return port
    raise AssertionError("no two free ports beside each other")


class Front:
    """A deployment of one node behind nginx."""

    def __init__(self, folder: Path, federation, stack: contextlib.ExitStack) -> None:
        self.port, self.folder, self._stack = two_free_ports(), folder / "federation", stack
        self.server = self.folder / "server"
        self.env = PATHS | {
            "SAFLE_VENV": sys.prefix,
            "SAFLE_LISTEN": "127.0.0.1",
            "SAFLE_PORT": str(self.port + 1),
            "SAFLE_NODE_PORT": str(processes.free_port()),
            "OMP_NUM_THREADS": "1",
        }
        deployment = Deployment(
            ("a",), "127.0.0.1", self.port, deadline=PATIENCE, prefix=str(self.folder), plain=True
        )
        make_folder(self.folder, deployment)
        shutil.copy(federation.encoder_path, self.server)
        place = folder / "nginx"
        place.mkdir()
        site = (self.server / "nginx.conf").read_text()
        # Nobody but this machine is meant here.
        site = site.replace(f"    listen [::]:{self.port} ssl;\n", "")
        (place / "site.conf").write_text(site.replace("listen ", "listen 127.0.0.1:"))
        (place / "main.conf").write_text(SURROUNDINGS.format(folder=place))
        self.start(self.server / "start.sh", "superlink")
        self.start(
            NGINX, "nginx", "-p", place, "-c", place / "main.conf", "-e", place / "early.log"
        )
        for port in (self.port, self.port + 1):
            eventually(lambda port=port: answers(port), explain=lambda: [*folder.glob("*.log")])

    def start(self, program: str | Path, name: str, *arguments: str | Path) -> None:
        log = self.folder.parent / f"{name}.log"
        self._stack.enter_context(processes.running([program, *arguments], env=self.env, log=log))

    def script(self, name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.server / name],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE,
            check=False,
        )

    def trust(self) -> ssl.SSLContext:
        """A client with nothing but the authority's certificate."""
        trusting = ssl.create_default_context(
            cafile=str(self.folder / "nodes" / "a" / "node" / "ca.crt")
        )
        trusting.verify_flags |= ssl.VERIFY_X509_STRICT
        return trusting

    def post(self, path: str, port: int) -> tuple[int, str]:
        """Status and body that such a client gets."""
        context = self.trust()
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port, context=context, timeout=PATIENCE
        )
        with contextlib.closing(connection):
            connection.request("POST", path, body=b"")
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")


@pytest.fixture(scope="module")
def front(federation, tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Front(tmp_path_factory.mktemp("front"), federation, stack)


@pytest.mark.parametrize("path", CLOSED)
def test_nothing_but_the_nodes_path_goes_through(front, path):
    status, body = front.post(path, front.port)
    assert status == 403
    assert "nginx" in body


def test_the_control_path_is_open_behind_and_closed_in_front(front):
    # On the server itself it answers: what is closed in front is really there.
    assert front.post("/v1/control/list-runs", front.port + 1)[0] != 403
    status, body = front.post("/v1/fleet/register-node", front.port)
    assert (status, "nginx" in body) == (
        front.post("/v1/fleet/register-node", front.port + 1)[0],
        False,
    )
    found = check_folder(front.folder / "nodes" / "a", connect=True)
    assert [str(finding) for finding in found if "have one user" not in str(finding)] == []


def trickle(stalled, stop):
    """Byte by byte, one in each half second: what slow connections are."""
    while not stop.wait(0.5):
        for connection in stalled:
            with contextlib.suppress(OSError):
                connection.sendall(b"x")


@pytest.fixture
def plagued(front):
    """Half-open connections to nginx, with and without TLS, a third of which go on slowly."""
    stop = threading.Event()
    with half_open(front.port, 30), half_open(front.port, 60, front.trust()) as stalled:
        slow = threading.Thread(target=trickle, args=(stalled[2::3], stop))
        slow.start()
        yield
        stop.set()
        slow.join()


@pytest.mark.usefixtures("plagued")
def test_a_node_takes_part_through_nginx_beside_stalled_connections(front, federation, tmp_path):
    registered = front.script("register.sh")
    assert registered.returncode == 0, registered.stdout + registered.stderr
    place = front.folder / "nodes" / "a"
    front.start(place / "site" / "watch.sh", "site", federation.table("a"))
    front.start(place / "node" / "start.sh", "node")
    done = front.script("run.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((front.server / "results" / "report.json").read_text())
    assert report["accepted"] == ["a"]
    model = (front.server / "results" / "model.safetensors").read_bytes()
    assert model == federation.by_files("a", tmp_path)
