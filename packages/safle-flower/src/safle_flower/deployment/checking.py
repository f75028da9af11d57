"""``safle deploy check``: what is wrong with a deployment folder, in sentences.

The whole folder may be there, or only the part that a machine has: ``server`` or one node's.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safle.basics import read_toml
from safle.encoders import load_encoder
from safle.errors import SafleError
from safle.site import Policy
from safle_flower.deployment import tools
from safle_flower.settings import Run

SOON = 30 * 86_400
"""Seconds before its end from which a certificate is warned about."""
REFUSALS = (401, 403, 404)
CONTROL, FLEET = "/v1/control/list-nodes", "/v1/fleet/get-run"
_SUPERLINK = re.compile(r"--superlink '?((?:\[[^]]+\]|[^\s':]+):\d+)")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or that should be known."""

    where: Path | str
    text: str
    serious: bool = True

    def __str__(self) -> str:
        return f"{'error' if self.serious else 'warning'}: {self.where}: {self.text}"


def check_folder(folder: Path, *, connect: bool = False) -> list[Finding]:
    """Everything that is wrong; nothing, if all is well.

    Parameters
    ----------
    folder : as `make_folder` wrote it, its ``server``, or one of its nodes
    connect : also try to reach the server, as a node would
    """
    parts = [folder, folder / "server", *sorted((folder / "nodes").glob("*"))]
    servers = [place for place in parts if (place / "run.sh").is_file()]
    nodes = [place for place in parts if (place / "node" / "start.sh").is_file()]
    if not servers and not nodes:
        return [Finding(folder, "neither a server's nor a node's folder: no start.sh here")]
    found = [finding for place in servers for finding in _guard(place, _check_server(place))]
    for node in nodes:
        found += _guard(node, _check_node(node))
        if servers:
            found += _guard(node, _check_together(servers[0], node))
    if (folder / "ca" / "ca.key").exists():
        found += _check_secret(folder / "ca" / "ca.key")
    if connect:
        found += _check_connection(servers, nodes)
    return found


def _guard(place: Path, findings: Iterator[Finding]) -> Iterator[Finding]:
    """All findings; an error that ends the search is the last of them."""
    try:
        yield from findings
    except FileNotFoundError as error:
        yield Finding(str(error.filename), "missing; copy it from the folder it was made in")
    except (SafleError, OSError, ValueError) as error:
        yield Finding(place, str(error))


def _check_server(place: Path) -> Iterator[Finding]:
    key, server, authority = (place / name for name in ("server.key", "server.crt", "ca.crt"))
    yield from _check_secret(key)
    yield from _check_dates(server)
    yield from _check_dates(authority)
    if tools.run("openssl", "pkey", "-in", key, "-pubout") != _x509(server, "-pubkey"):
        yield Finding(key, "is not the key of server.crt; make both again")
    if not tools.succeeds("openssl", "verify", "-no_check_time", "-CAfile", authority, server):
        yield Finding(server, "is not signed by the authority in ca.crt")
    if not _is_for("localhost", server):
        yield Finding(server, "is not for localhost, by which the server reaches itself")
    yield from _check_app(place)
    encoder = place / "encoder.safetensors"
    if not encoder.exists():
        yield Finding(encoder, "missing; make it with 'safle encoder make' before ./run.sh")
    else:
        load_encoder(encoder)


def _check_app(place: Path) -> Iterator[Finding]:
    path = place / "app" / "pyproject.toml"
    config: dict[str, Any] = read_toml(path, "the app's settings")["tool"]["flwr"]["app"]["config"]
    rules = Run.from_flat(config).rules
    rules.check()
    for name in rules.expected:
        if not (place / "keys" / f"{name}.pub").exists():
            yield Finding(path, f"expects client {name!r}, but keys/{name}.pub is missing")
    for key in sorted((place / "keys").glob("*.pub")):
        # Flower takes no other keys, and does not say so.
        if not key.read_text().startswith("ecdsa-") or not tools.succeeds(
            "ssh-keygen", "-l", "-f", key
        ):
            yield Finding(key, "not a public EC key; make one with: ssh-keygen -t ecdsa -b 384")


def _check_node(place: Path) -> Iterator[Finding]:
    key, public = place / "node" / "node.key", place / "node" / "node.pub"
    yield from _check_secret(key)
    yield from _check_dates(place / "node" / "ca.crt")
    ours = tools.run("ssh-keygen", "-y", "-f", key).split()[:2]
    if public.exists() and public.read_text().split()[:2] != ours:
        yield Finding(public, "is not the public half of node.key")
    Policy.read(place / "site" / "policy.toml")
    start = place / "node" / "start.sh"
    if not _SUPERLINK.search(start.read_text()):
        yield Finding(start, "does not say where the server is (--superlink)")
    # Whether the node's process is kept from the data by permissions.
    inbox, outbox = (place / "inbox").stat(), (place / "outbox").stat()
    if inbox.st_uid == outbox.st_uid:
        yield Finding(
            place,
            "the node and the data have one user: whoever operates the server can read the data; "
            "run users.sh as root",
            serious=False,
        )
    elif outbox.st_mode & 0o022 or (place / "site").stat().st_mode & 0o077:
        yield Finding(place, "others may read site or write outbox; run users.sh as root")


def _check_together(server: Path, node: Path) -> Iterator[Finding]:
    """What only the maker of the folder can see: both sides of a pair."""
    start = node / "node" / "start.sh"
    reached = _SUPERLINK.search(start.read_text())
    host = reached[1].rpartition(":")[0].strip("[]") if reached else ""
    if host and not _is_for(host, server / "server.crt"):
        yield Finding(start, f"reaches the server as {host}, which its certificate is not for")
    registered, own = server / "keys" / f"{node.name}.pub", node / "node" / "node.pub"
    if not registered.exists():
        yield Finding(registered, f"missing: node {node.name} cannot be registered")
    elif own.exists() and own.read_bytes().split()[:2] != registered.read_bytes().split()[:2]:
        yield Finding(registered, f"is not the key in {own}")
    authority = node / "node" / "ca.crt"
    if authority.exists() and authority.read_text() != (server / "ca.crt").read_text():
        yield Finding(authority, "is not the authority of the server")


def _check_secret(path: Path) -> Iterator[Finding]:
    if path.stat().st_mode & 0o077:
        yield Finding(path, f"others may read it; run: chmod 600 {path}")


def _check_dates(path: Path) -> Iterator[Finding]:
    end = _x509(path, "-enddate").strip().removeprefix("notAfter=")
    still_valid = ("openssl", "x509", "-in", path, "-noout", "-checkend")
    if not tools.succeeds(*still_valid, "0"):
        yield Finding(path, f"has expired on {end}; run certificates.sh without it")
    elif not tools.succeeds(*still_valid, str(SOON)):
        yield Finding(path, f"expires on {end}", serious=False)


def _x509(path: Path, *what: str) -> str:
    """What openssl says of a certificate; `FileNotFoundError` if there is none."""
    path.stat()
    return tools.run("openssl", "x509", "-in", path, "-noout", *what)


def _is_for(host: str, path: Path) -> bool:
    """Whether a certificate is for a name or an address."""
    try:
        named = ("-verify_ip", str(ipaddress.ip_address(host)))
    except ValueError:
        named = ("-verify_hostname", host)
    alone = ("openssl", "verify", "-no_check_time", "-partial_chain", "-trusted", path)
    return tools.succeeds(*alone, *named, path)


def _check_connection(servers: list[Path], nodes: list[Path]) -> Iterator[Finding]:
    # They all reach the same server.
    if nodes:
        part = nodes[0] / "node"
        reached = _SUPERLINK.search((part / "start.sh").read_text())
        address = reached[1] if reached else ""
    else:
        part = servers[0]
        port = re.search(r"SAFLE_PORT:-(\d+)", (part / "environment.sh").read_text())
        address = f"localhost:{port[1]}" if port else ""
    if not address:
        return
    try:
        trust = ssl.create_default_context(cafile=str(part / "ca.crt"))
        if _status(f"https://{address}{FLEET}", trust) in (403, 404):
            yield Finding(address, "answers, but not as a SuperLink: is a proxy in the way?")
        # Any answer but a refusal: the API is there, whatever it makes of an empty request.
        if _status(f"https://{address}{CONTROL}", trust) not in REFUSALS:
            yield Finding(
                address,
                "the control API answers from here without a login: whoever reaches it can run "
                "programs on the server and on every node; close it (server/nginx.conf)",
                serious=False,
            )
    except OSError as error:
        reason = getattr(error, "reason", error)
        yield Finding(address, f"the server cannot be reached: {reason}")


def _status(url: str, trust: ssl.SSLContext) -> int:
    kind = {"Content-Type": "application/x-protobuf"}
    request = urllib.request.Request(url, b"", kind, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)
