"""``safle deploy init``: write the folder of a deployment."""

from __future__ import annotations

import ipaddress
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from safle.basics.templates import templates_of
from safle.errors import SettingsError
from safle.server.limits import Limits
from safle_flower.apps import write_app
from safle_flower.deployment import certificates as certs
from safle_flower.settings import Rules, Run

_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._-]+)+")
NODE_PORT = 9094
"""Of the first node's own programs; the others count on, so that two may share a machine."""
Render = Callable[..., str]
"""Template's name and facts -> text."""
_SCRIPTS = {"start.sh": "server-start.sh.j2"} | {
    name: f"{name}.j2" for name in ("register.sh", "run.sh", "status.sh", "logs.sh")
}


@dataclass(frozen=True)
class Deployment:
    """What a deployment is: who takes part, and how they reach the server.

    Attributes
    ----------
    nodes : the clients' names; they become folders and registered names
    host, port : how nodes reach the server: a name or an address
    listen : the server's own address to listen on
    prefix : where the folders will be on their machines; the systemd units say so
    plain : whether the nodes' policies let plain contributions out, not only masked ones
    """

    nodes: tuple[str, ...]
    host: str
    port: int
    listen: str = "0.0.0.0"
    deadline: float = 3600.0
    prefix: str = "/opt/safle"
    limits: Limits = field(default_factory=Limits)
    plain: bool = False

    def __post_init__(self) -> None:
        nodes = self.nodes
        if not nodes or len(set(nodes)) != len(nodes):
            raise SettingsError(
                f"nodes {','.join(nodes)!r}; expected different names, at least one"
            )
        for name in nodes:
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

    @property
    def bracketed(self) -> str:
        """The host as addresses with a port want it."""
        return f"[{self.host}]" if ":" in self.host else self.host


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
    # All digits is an address that is none: no name ends so.
    if len(text) <= 253 and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdigit():
        return text
    raise SettingsError(f"{what} {text!r}; expected a name or an address, without a port")


def make_folder(folder: Path, deployment: Deployment) -> None:
    """Write keys, certificates, configuration, scripts and units for a server and its nodes.

    ``folder`` must not exist, or be empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{folder} is there already; choose a new folder")
    (folder / "ca").mkdir(parents=True)
    authority_key = certs.new_key()
    authority = certs.make_authority(authority_key)
    ca = certs.certificate_bytes(authority)
    _write_secret(folder / "ca" / "ca.key", certs.tls_key_bytes(authority_key))
    (folder / "ca" / "ca.crt").write_bytes(ca)
    render = _renderer(deployment)
    server = folder / "server"
    _write_server(server, deployment, ca, render)
    key = certs.new_key()
    # The server talks to itself as well, by its local names.
    hosts = list(dict.fromkeys([deployment.host, "localhost", "127.0.0.1"]))
    made = certs.make_server_certificate(hosts, key, authority, authority_key)
    (server / "server.crt").write_bytes(certs.certificate_bytes(made))
    _write_secret(server / "server.key", certs.tls_key_bytes(key))
    for number, name in enumerate(deployment.nodes):
        key = certs.new_key()
        public = certs.public_key_bytes(key, name)
        (server / "keys" / f"{name}.pub").write_bytes(public)
        place = folder / "nodes" / name
        _write_node(
            place, name, deployment, ca, partial(render, node_port=NODE_PORT + number % 50_000)
        )
        _write_secret(place / "node.key", certs.node_key_bytes(key))
        (place / "node.pub").write_bytes(public)
    (folder / "README.md").write_text(render("README.md.j2"))


def registered_names(server: Path) -> dict[str, str]:
    """Flower's numbers of the nodes that ``register.sh`` has registered, and their names."""
    path = server / "registered.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return {number: name for name, _, number in (line.partition(" ") for line in lines)}


def _renderer(deployment: Deployment) -> Render:
    # Scripts and configuration, not pages: shell words go through the filter `quote`.
    templates = templates_of("safle_flower.deployment", keep_trailing_newline=True)
    templates.filters["quote"] = shlex.quote
    facts = {
        "venv": sys.prefix,
        "count": len(deployment.nodes),
        "host": deployment.host,
        "bracketed": deployment.bracketed,
        "superlink": f"{deployment.bracketed}:{deployment.port}",
        "port": deployment.port,
        "listen": deployment.listen,
        "mode": "plain" if deployment.plain else "masked",
    }
    return lambda template, **more: templates.get_template(template).render({**facts, **more})


def _write_server(place: Path, deployment: Deployment, ca: bytes, render: Render) -> None:
    home = f"{deployment.prefix}/server"
    (place / "keys").mkdir(parents=True)
    (place / "ca.crt").write_bytes(ca)
    least = min(Rules.least, len(deployment.nodes))
    rules = Rules(expected=deployment.nodes, deadline=deployment.deadline, least=least)
    write_app(place / "app", Run(rules=rules, limits=deployment.limits))
    (place / "environment.sh").write_text(render("environment.sh.j2", server=True))
    for name, template in _SCRIPTS.items():
        _write_script(place / name, render(template))
    unit = render("unit.service.j2", description="safle federation server", home=home)
    (place / "safle-server.service").write_text(unit)
    (place / "nginx.conf").write_text(render("nginx.conf.j2", home=home))


def _write_node(place: Path, name: str, deployment: Deployment, ca: bytes, render: Render) -> None:
    place.mkdir(parents=True)
    (place / "ca.crt").write_bytes(ca)
    (place / "environment.sh").write_text(render("environment.sh.j2", server=False))
    _write_script(place / "start.sh", render("node-start.sh.j2", name=name))
    (place / "policy.toml").write_text(render("policy.toml.j2"))
    home = f"{deployment.prefix}/nodes/{name}"
    unit = render("unit.service.j2", description=f"safle federation node {name}", home=home)
    (place / f"safle-node-{name}.service").write_text(unit)


def _write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _write_secret(path: Path, content: bytes) -> None:
    """Never readable for others, not even for a moment."""
    path.touch(mode=0o600)
    path.write_bytes(content)
