"""A foreign app on a real SuperLink: whoever operates it gets a node's outbox, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from flower_support import processes
from flower_support.network import PATIENCE, PATIENT, answers, eventually
from safle_flower.deployment import Deployment, make_folder

pytestmark = pytest.mark.slow
ROOT = os.getuid() == 0
NODE, DATA = ("nobody", "daemon") if ROOT else (None, None)
"""Users that every Linux has; only root can start programs under them."""

OWN = [path for path in sys.path if path and not path.startswith(sys.base_prefix)]
PATHS = os.pathsep.join([str(PATIENT), *OWN])
"""Where packages are, for another Python of this version; its standard library is its own."""

# What somebody writes who operates the server and wants the data, and knows where they are.
FOREIGN = """
import json, os, pathlib
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()

@client.query()
def steal(message, context):
    given = [dict(context.node_config), dict(os.environ)]
    for pid in (os.getpid(), os.getppid()):
        given.append(pathlib.Path(f"/proc/{pid}/cmdline").read_text())
    loot = {"given": json.dumps(given)}
    for place in map(pathlib.Path, message.content["ask"]["places"].split(":")):
        for path in [place, *place.rglob("*")]:
            try:
                loot[str(path)] = path.read_bytes().hex()
            except OSError as error:
                loot[str(path)] = type(error).__name__
    return Message(RecordDict({"loot": ConfigRecord({"all": json.dumps(loot)})}), reply_to=message)

@server.main()
def main(grid, context):
    ask = RecordDict({"ask": ConfigRecord({"places": context.run_config["places"]})})
    [node] = grid.get_node_ids()
    [reply] = grid.send_and_receive([Message(ask, node, "query")], timeout=120)
    pathlib.Path(context.run_config["output"]).write_text(reply.content["loot"]["all"])
"""
PROJECT = """
[project]
name = "foreign"
version = "1.0.0"
description = "no app of ours"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "stranger"
[tool.flwr.app.components]
serverapp = "foreign:server"
clientapp = "foreign:client"
[tool.flwr.app.config]
output = ""
places = ""
"""


@pytest.fixture
def place():
    """A folder that other users may enter: those of pytest are root's alone."""
    with tempfile.TemporaryDirectory(prefix="safle-foreign-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def programs_for(user: str | None, place: Path) -> Path:
    """Flower's programs and ours with a Python that this user may run; root's own may be closed."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin")):
        if python is None:
            continue
        command = [python, "-c", "import flwr, safle_flower"]
        env = os.environ | {"PYTHONPATH": PATHS}
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(command, env=env, check=True, **identity(user))
            break
    else:
        pytest.skip(f"{user} may run no Python that has Flower")
    folder = place / "venv" / "bin"
    folder.mkdir(parents=True)
    for path in Path(sys.executable).parent.iterdir():
        if path.name.startswith(("flower-", "flwr", "safle")):
            program = path.read_text().split("\n", 1)[1]
            (folder / path.name).write_text(f"#!{python}\n{program}")
            (folder / path.name).chmod(0o755)
    return folder.parent


def identity(user: str | None) -> dict[str, Any]:
    """How `subprocess` starts a program under a user, with no group but its own."""
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


class Site:
    """One client's machine and the server, as `deploy init` and `users.sh` leave them."""

    def __init__(self, place: Path, federation, stack: contextlib.ExitStack) -> None:
        self.place, self._stack = place, stack
        folder, port = place / "federation", processes.free_port()
        rules = {"listen": "127.0.0.1", "deadline": PATIENCE, "plain": True}
        make_folder(folder, Deployment(("a",), "127.0.0.1", port, **rules))
        self.server, self.node = folder / "server", folder / "nodes" / "a"
        # Forty samples have small cells, and this site lets them out in plain.
        policy = self.node / "site" / "policy.toml"
        assert "least_cell = 10\n" in policy.read_text()
        policy.write_text(policy.read_text().replace("least_cell = 10\n", ""))
        shutil.copy(federation.encoder_path, self.server)
        (place / "data").mkdir()
        self.table = shutil.copy(federation.table("a"), place / "data" / "visits.npz")
        self.table.chmod(0o600)
        if ROOT:
            users = os.environ | {"SAFLE_NODE_USER": NODE, "SAFLE_DATA_USER": DATA}
            subprocess.run([self.node / "users.sh"], env=users, check=True)
            shutil.chown(self.table, DATA)
        self.env = os.environ | {
            "SAFLE_VENV": str(programs_for(NODE, place)),
            "PYTHONPATH": PATHS,
            "SAFLE_NODE_PORT": str(processes.free_port()),
            "OMP_NUM_THREADS": "1",
            "HOME": "/nonexistent",
        }
        for name in ("SAFLE_LOG", "SAFLE_POLICY"):
            self.env.pop(name, None)
        self.start(self.server / "start.sh")
        eventually(lambda: answers(port), explain=lambda: self.log("server"))
        subprocess.run([self.server / "register.sh"], env=self.env, check=True)

    def start(self, program: Path, *words: object, user: str | None = None) -> None:
        """A program in the background, under a user of its own."""
        with (self.place / f"{program.parent.name}.log").open("ab") as log:
            process = subprocess.Popen(
                [program, *map(str, words)],
                env=self.env,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                **identity(user),
            )
        self._stack.callback(processes.stop, process)

    def log(self, name: str) -> str:
        return (self.place / f"{name}.log").read_text(errors="replace")

    def steal(self) -> dict[str, str]:
        """Run the foreign app: all that it could send."""
        app, loot = self.place / "foreign", self.place / "loot.json"
        app.mkdir(exist_ok=True)
        (app / "foreign.py").write_text(FOREIGN)
        (app / "pyproject.toml").write_text(PROJECT)
        loot.unlink(missing_ok=True)
        config = f'output="{loot}" places="{self.node}:{self.table.parent}"'
        env = self.env | {"FLWR_HOME": str(self.server / "flwr")}
        command = [Path(sys.executable).with_name("flwr"), "run", app, "safle", "-c", config]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        eventually(loot.exists, explain=lambda: self.log("server") + self.log("node"))
        return eventually(lambda: json.loads(loot.read_text() or "null"))


def test_a_foreign_app_gets_the_outbox_and_nothing_else(place, federation):
    with contextlib.ExitStack() as stack:
        site = Site(place, federation, stack)
        site.start(site.node / "node" / "start.sh", user=NODE)
        site.start(site.server / "run.sh")
        # Nobody answers yet: the node says what it waits for, and by which command it comes.
        outbox = site.node / "outbox"
        eventually(
            lambda: f"safle airlock {site.node}" in site.log("node"),
            explain=lambda: site.log("node") + site.log("server"),
        )
        said = f"safle count DATA --encoder {site.node}/inbox/count-"
        assert said in site.log("node")
        site.start(site.node / "site" / "watch.sh", site.table, user=DATA)
        results = site.server / "results"
        eventually((results / "report.json").exists, explain=lambda: site.log("site"))
        report = json.loads((results / "report.json").read_text())
        assert report["accepted"] == ["a"], site.log("site")
        loot = site.steal()
    (contribution,) = outbox.glob("*.stats")
    assert loot[str(contribution)] == contribution.read_bytes().hex()
    # It was given nothing that names the data: no configuration, variable or argument.
    assert str(site.table) not in loot["given"]
    assert str(site.node / "site") not in loot["given"]
    assert str(site.node / "outbox") in loot["given"]
    if not ROOT:
        pytest.skip("that it may not read what it knows by name takes two users, and root")
    own = (str(site.node / "inbox"), str(site.node / "node"))
    read = {path for path, data in loot.items() if not data.endswith("Error")} - {"given"}
    others = {path for path in read if not path.startswith(own)}
    units = {str(path) for path in [*site.node.glob("*.service"), site.node / "users.sh"]}
    assert others - units == {str(contribution)}
    # Table, release sheets, policy and log: there, and closed.
    assert loot[str(site.table)] == "PermissionError"
    sheets = [path for path in loot if ".release." in path]
    assert len(sheets) == 2
    assert {loot[path] for path in sheets} == {"PermissionError"}
    assert not [path for path in read if path.startswith(str(site.node / "site"))]
