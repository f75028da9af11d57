"""``safle deploy init``: write the folder of a deployment."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from safle.errors import SettingsError
from safle.federation.deployment import certificates as certs
from safle.federation.deployment import scripts
from safle.federation.flower.app_folder import write_app

NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?")


def make_folder(
    folder: Path,
    nodes: Sequence[str],
    *,
    host: str,
    port: int,
    listen: str = "0.0.0.0",
    deadline: float = 3600.0,
    prefix: str = "/opt/safle",
) -> None:
    """Write keys, certificates, configuration, scripts and units for a server and its nodes.

    Parameters
    ----------
    folder : must not exist, or be empty
    nodes : the clients' names; they become folders and registered names
    host, port : how nodes reach the server: a name or an address
    listen : the server's own address to listen on
    prefix : where the folders will be on their machines; the systemd units say so
    """
    _check(folder, nodes, host)
    certs.require_cryptography()
    (folder / "ca").mkdir(parents=True)
    authority_key, server_key = certs.new_key(), certs.new_key()
    authority = certs.make_authority(authority_key)
    # The server talks to itself as well, by its local names.
    hosts = list(dict.fromkeys([host, "localhost", "127.0.0.1"]))
    server = certs.make_server_certificate(hosts, server_key, authority, authority_key)
    ca = certs.certificate_bytes(authority)
    _secret(folder / "ca" / "ca.key", certs.tls_key_bytes(authority_key))
    (folder / "ca" / "ca.crt").write_bytes(ca)
    place = folder / "server"
    _common(place, ca, scripts.SERVER_ENVIRONMENT.format(venv=sys.prefix, port=port))
    (place / "server.crt").write_bytes(certs.certificate_bytes(server))
    _secret(place / "server.key", certs.tls_key_bytes(server_key))
    _server_files(place, nodes, host, port, listen, deadline, prefix)
    for name in nodes:
        key = certs.new_key()
        public = certs.public_key_bytes(key, name)
        (place / "keys" / f"{name}.pub").write_bytes(public)
        _node_files(folder / "nodes" / name, name, ca, host, port, prefix)
        _secret(folder / "nodes" / name / "node.key", certs.node_key_bytes(key))
        (folder / "nodes" / name / "node.pub").write_bytes(public)
    guide = scripts.GUIDE.format(count=len(nodes), host=host, venv=sys.prefix)
    (folder / "README.md").write_text(guide)


def _server_files(
    place: Path,
    nodes: Sequence[str],
    host: str,
    port: int,
    listen: str,
    deadline: float,
    prefix: str,
) -> None:
    (place / "keys").mkdir()
    write_app(place / "app", {"expected": ",".join(nodes), "deadline": deadline})
    _script(place / "start.sh", scripts.SERVER_START.format(listen=listen))
    _script(place / "register.sh", scripts.REGISTER)
    _script(place / "run.sh", scripts.RUN.format())
    _script(place / "status.sh", scripts.STATUS)
    _script(place / "logs.sh", scripts.LOGS)
    home = f"{prefix}/server"
    unit = scripts.UNIT.format(description="safle federation server", folder=home)
    (place / "safle-server.service").write_text(unit)
    proxy = scripts.NGINX.format(host=host, port=port, inner=port + 1, folder=home)
    (place / "nginx.conf").write_text(proxy)


def _node_files(place: Path, name: str, ca: bytes, host: str, port: int, prefix: str) -> None:
    _common(place, ca, scripts.ENVIRONMENT.format(venv=sys.prefix))
    _script(place / "start.sh", scripts.NODE_START.format(name=name, host=host, port=port))
    home = f"{prefix}/nodes/{name}"
    unit = scripts.UNIT.format(description=f"safle federation node {name}", folder=home)
    (place / "safle-node.service").write_text(unit)


def _common(place: Path, ca: bytes, environment: str) -> None:
    place.mkdir(parents=True)
    (place / "ca.crt").write_bytes(ca)
    (place / "environment.sh").write_text(environment)


def _check(folder: Path, nodes: Sequence[str], host: str) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{folder} is there already; choose a new folder")
    if not nodes or len(set(nodes)) != len(nodes):
        raise SettingsError(f"nodes {','.join(nodes)!r}; expected different names, at least one")
    for name in nodes:
        if not NODE_NAME.fullmatch(name):
            raise SettingsError(
                f"node {name!r}; expected up to 63 letters, digits, dots, dashes or underscores, "
                "the first a letter or digit"
            )
    if not HOST.fullmatch(host):
        raise SettingsError(f"host {host!r}; expected a name or an address, without a port")


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _secret(path: Path, content: bytes) -> None:
    """Never readable for others, not even for a moment."""
    path.touch(mode=0o600)
    path.write_bytes(content)
