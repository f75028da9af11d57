"""``safle deploy init``: write the folder of a deployment."""

from __future__ import annotations

import datetime
import ipaddress
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from safle import Limits
from safle.basics import atomic
from safle.errors import SettingsError
from safle_flower.apps import write_app
from safle_flower.settings import Run

_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._-]+)+")
NODE_PORT = 9094
"""Port of the first node's programs; others get the next ports, so two may share a machine."""
SERVER_USER, NODE_USER, DATA_USER = "safle", "safle-node", "safle-data"
Render = Callable[..., str]
"""Template's name and facts -> text."""


@dataclass(frozen=True)
class Deployment:
    """Who takes part in a deployment, and how they reach the server.

    Attributes
    ----------
    nodes : the clients' names; they become folders and registered names
    keyholders : names of those who open private sums and send nothing; they have nodes as well
    host, port : how nodes reach the server: a name or an address
    listen : the server's own address to listen on
    prefix : where the folders will lie on their machines; the systemd units use this path
    plain : whether the sites' policies let plain contributions out, not only masked ones
    trust_operator : whether nodes and data have one user: the server's operator can read them
    """

    nodes: tuple[str, ...]
    host: str
    port: int
    listen: str = "0.0.0.0"
    deadline: float = 3600.0
    prefix: str = "/opt/safle"
    limits: Limits = field(default_factory=Limits)
    plain: bool = False
    trust_operator: bool = False
    keyholders: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        everybody = (*self.nodes, *self.keyholders)
        if not self.nodes or len(set(everybody)) != len(everybody):
            raise SettingsError(
                f"nodes {','.join(everybody)!r}; expected different names, at least one client"
            )
        for name in everybody:
            if not _NODE_NAME.fullmatch(name):
                raise SettingsError(
                    f"node {name!r}; expected up to 63 letters, digits, dots, dashes or "
                    "underscores, the first a letter or digit"
                )
        if not 1 <= self.port <= 65534:
            raise SettingsError(f"port {self.port}; expected 1 to 65534")
        object.__setattr__(self, "host", check_host("host", self.host))
        object.__setattr__(self, "listen", check_host("listen", self.listen))
        object.__setattr__(self, "prefix", self.prefix.rstrip("/"))
        if not _PREFIX.fullmatch(self.prefix) or ".." in self.prefix.split("/"):
            raise SettingsError(
                f"prefix {self.prefix!r}; expected the full path of a folder, of letters, digits, "
                "dots, dashes and underscores"
            )

    def facts(self) -> dict[str, object]:
        """The values that every template can use."""
        bracketed = f"[{self.host}]" if ":" in self.host else self.host
        # The server talks to itself as well, by its local names.
        hosts = dict.fromkeys([self.host, "localhost", "127.0.0.1"])
        an_hour_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        return {
            "venv": sys.prefix,
            "count": len(self.nodes),
            "keyholders": self.keyholders,
            "host": self.host,
            "bracketed": bracketed,
            "superlink": f"{bracketed}:{self.port}",
            "port": self.port,
            "listen": self.listen,
            "mode": "plain" if self.plain else "masked",
            "trusted": self.trust_operator,
            "common_name": self.host[:64],
            "alternatives": ", ".join(map(_alternative, hosts)),
            "begin": f"{an_hour_ago:%Y%m%d%H%M%SZ}",
        }


def check_host(what: str, text: str) -> str:
    """A host's name or address without port or brackets; `SettingsError` for anything else.

    >>> check_host("host", "[::1]")
    '::1'
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        return str(ipaddress.IPv6Address(bare) if bare != text else ipaddress.ip_address(bare))
    except ValueError:
        labels = text.split(".")
    # A name never ends in a number: this is an address with a mistake in it.
    if len(text) <= 253 and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdigit():
        return text
    raise SettingsError(f"{what} {text!r}; expected a name or an address, without a port")


def make_folder(folder: Path, deployment: Deployment) -> None:
    """Write keys, certificates, configuration, scripts and units for a server and its nodes.

    ``folder`` must not exist, or be empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{folder} exists and is not empty; choose a new folder")
    atomic.make_folder(folder)
    # Scripts and configuration, not pages: shell words go through the filter `quote`.
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("safle_flower"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["quote"] = shlex.quote
    facts = deployment.facts()

    def render(template: str, **more: object) -> str:
        return templates.get_template(template).render({**facts, **more})

    _write_server(folder / "server", deployment, render)
    for number, name in enumerate((*deployment.nodes, *deployment.keyholders)):
        _write_node(folder / "nodes" / name, number, deployment, render)
    atomic.write_text(folder / "README.md", render("README.md.j2"))
    _write_script(folder / "certificates.sh", render("certificates.sh.j2"))
    _run_script(folder / "certificates.sh")


def _write_server(place: Path, deployment: Deployment, render: Render) -> None:
    home = f"{deployment.prefix}/server"
    atomic.make_folder(place)
    rules = {
        "expected": ",".join(deployment.nodes),
        "deadline": deployment.deadline,
        "least": min(Run().least, len(deployment.nodes)),
    }
    write_app(place / "app", Run.limited(deployment.limits, **rules))
    atomic.write_text(place / "environment.sh", render("environment.sh.j2", server=True))
    _write_script(place / "start.sh", render("server-start.sh.j2"))
    for name in ("register.sh", "run.sh", "status.sh", "logs.sh"):
        _write_script(place / name, render(f"{name}.j2"))
    unit = {"description": "safle federation server", "user": SERVER_USER}
    text = render("unit.service.j2", start=f"{home}/start.sh", **unit)
    atomic.write_text(place / "safle-server.service", text)
    atomic.write_text(place / "nginx.conf", render("nginx.conf.j2", home=home))


def _write_node(place: Path, number: int, deployment: Deployment, render: Render) -> None:
    """Write a client's folders: node, site, inbox and outbox, and the script that sets owners."""
    name, trusted = place.name, deployment.trust_operator
    for part in ("node", "site", "inbox", "outbox"):
        atomic.make_folder(place / part)
    for part in ("node", "site"):
        atomic.write_text(
            place / part / "environment.sh", render("environment.sh.j2", server=False)
        )
    port = NODE_PORT + number % 50_000
    start = render("node-start.sh.j2", name=name, node_port=port)
    _write_script(place / "node" / "start.sh", start)
    _write_script(place / "site" / "watch.sh", render("watch.sh.j2", name=name))
    atomic.write_text(place / "site" / "data.sh", render("data.sh.j2", name=name))
    atomic.write_text(place / "site" / "policy.toml", render("policy.toml.j2"))
    _write_script(place / "users.sh", render("users.sh.j2"))
    home = f"{deployment.prefix}/nodes/{name}"
    node = {
        "description": f"safle federation node {name}",
        "user": NODE_USER,
        "start": f"{home}/node/start.sh" + (" --trust-operator" if trusted else ""),
        "hidden": "" if trusted else f"{home}/site",
    }
    atomic.write_text(place / f"safle-node-{name}.service", render("unit.service.j2", **node))
    if not trusted:
        site = {"description": f"safle data of {name}", "user": DATA_USER}
        text = render("unit.service.j2", start=f"{home}/site/watch.sh", **site)
        atomic.write_text(place / f"safle-site-{name}.service", text)


def _write_script(path: Path, text: str) -> None:
    atomic.write_text(path, text)
    path.chmod(0o755)


def _run_script(script: Path) -> None:
    command = ["sh", script.name]
    done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise SettingsError(f"{script} failed: {lines[-1]}; it needs openssl and ssh-keygen")


def _alternative(host: str) -> str:
    """A name or address, as openssl wants it in a certificate."""
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"
