"""``safle deploy check``: what is wrong with a deployment folder, in sentences.

The whole folder may be there, or only the part that a machine has: ``server`` or one node's.
"""

from __future__ import annotations

import datetime
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safle.basics import read_toml
from safle.encoders import load_encoder
from safle.errors import SafleError
from safle.site.policy import Policy
from safle_flower.deployment import certificates as certs
from safle_flower.settings import Run

SOON = datetime.timedelta(days=30)
REFUSALS = (401, 403, 404)
CONTROL, FLEET = "/v1/control/list-nodes", "/v1/fleet/get-run"
_SUPERLINK = re.compile(r"--superlink '?\[?([^\s'\]]+)\]?:(\d+)")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or that should be known."""

    where: str
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
    servers, nodes = _parts(folder)
    if not servers and not nodes:
        return [Finding(str(folder), "neither a server's nor a node's folder: no start.sh here")]
    found: list[Finding] = []
    for place in servers:
        found += _guarded(place, _check_server)
    for place in nodes:
        found += _guarded(place, _check_node)
    if servers and nodes:
        found += _check_together(servers[0], nodes)
    if (folder / "ca" / "ca.key").exists():
        found += _check_secret(folder / "ca" / "ca.key")
    if connect:
        found += _check_connection(nodes, servers)
    return found


def _parts(folder: Path) -> tuple[list[Path], list[Path]]:
    candidates = [folder, folder / "server", *sorted((folder / "nodes").glob("*"))]
    servers = [place for place in candidates if (place / "run.sh").is_file()]
    nodes = [
        place for place in candidates if (place / "start.sh").is_file() and place not in servers
    ]
    return servers, nodes


def _guarded(place: Path, check: Callable[[Path], Iterator[Finding]]) -> list[Finding]:
    found: list[Finding] = []
    try:
        # One by one: what was found before an error counts.
        for finding in check(place):
            found.append(finding)
    except FileNotFoundError as error:
        found.append(
            Finding(str(error.filename), "missing; copy it from the folder it was made in")
        )
    except (SafleError, OSError, ValueError) as error:
        found.append(Finding(str(place), str(error)))
    return found


def _check_server(place: Path) -> Iterator[Finding]:
    yield from _check_secret(place / "server.key")
    authority = certs.read_certificate(place / "ca.crt")
    server = certs.read_certificate(place / "server.crt")
    yield from _check_dates(place / "server.crt", server)
    yield from _check_dates(place / "ca.crt", authority)
    key = certs.read_tls_key(place / "server.key")
    if key.public_key() != server.public_key():
        yield Finding(str(place / "server.key"), "is not the key of server.crt; make both again")
    yield from _check_signed(place / "server.crt", server, authority)
    if "localhost" not in certs.hosts_of(server):
        yield Finding(
            str(place / "server.crt"), "is not for localhost, by which the server reaches itself"
        )
    yield from _check_app(place)
    encoder = place / "encoder.safetensors"
    if not encoder.exists():
        yield Finding(str(encoder), "missing; make it with 'safle encoder make' before ./run.sh")
    else:
        load_encoder(encoder)


def _check_app(place: Path) -> Iterator[Finding]:
    path = place / "app" / "pyproject.toml"
    config: dict[str, Any] = read_toml(path, "the app's settings")["tool"]["flwr"]["app"]["config"]
    rules = Run.from_flat(config).rules
    rules.check()
    keys = {key.stem for key in (place / "keys").glob("*.pub")}
    for name in rules.expected:
        if name not in keys:
            yield Finding(str(path), f"expects client {name!r}, but keys/{name}.pub is missing")
    for name in sorted(keys - set(rules.expected)) if rules.expected else ():
        yield Finding(
            str(place / "keys" / f"{name}.pub"), "its client is not in the app's expected", False
        )
    for key in sorted((place / "keys").glob("*.pub")):
        yield from _check_public(key)


def _check_public(path: Path) -> Iterator[Finding]:
    try:
        if not certs.is_node_key(path):
            yield Finding(str(path), "not an EC key; make one with: ssh-keygen -t ecdsa -b 384")
    except ValueError as error:
        yield Finding(str(path), f"not a public key: {error}")


def _check_node(place: Path) -> Iterator[Finding]:
    yield from _check_secret(place / "node.key")
    yield from _check_dates(place / "ca.crt", certs.read_certificate(place / "ca.crt"))
    key = certs.read_node_key(place / "node.key")
    ours = certs.public_key_bytes(key).split()[:2]
    if (place / "node.pub").exists() and (place / "node.pub").read_bytes().split()[:2] != ours:
        yield Finding(str(place / "node.pub"), "is not the public half of node.key")
    Policy.read(place / "policy.toml")
    if not _SUPERLINK.search((place / "start.sh").read_text()):
        yield Finding(str(place / "start.sh"), "does not say where the server is (--superlink)")


def _check_together(server: Path, nodes: list[Path]) -> Iterator[Finding]:
    """What only the maker of the folder can see: both sides of every pair."""
    try:
        hosts = certs.hosts_of(certs.read_certificate(server / "server.crt"))
    except (OSError, ValueError):
        return
    for node in nodes:
        reached = _SUPERLINK.search((node / "start.sh").read_text())
        if reached and reached[1] not in hosts:
            yield Finding(
                str(node / "start.sh"),
                f"reaches the server as {reached[1]}, its certificate is for {', '.join(hosts)}",
            )
        registered, own = server / "keys" / f"{node.name}.pub", node / "node.pub"
        if not registered.exists():
            yield Finding(str(registered), f"missing: node {node.name} cannot be registered")
        elif own.exists() and own.read_bytes().split()[:2] != registered.read_bytes().split()[:2]:
            yield Finding(str(registered), f"is not the key in {own}")
        if _text(node / "ca.crt") != _text(server / "ca.crt"):
            yield Finding(str(node / "ca.crt"), "is not the authority of the server")


def _check_secret(path: Path) -> Iterator[Finding]:
    if path.stat().st_mode & 0o077:
        yield Finding(str(path), f"others may read it; run: chmod 600 {path}")


def _check_dates(path: Path, certificate: Any) -> Iterator[Finding]:
    now = datetime.datetime.now(datetime.UTC)
    end = certificate.not_valid_after_utc
    if now < certificate.not_valid_before_utc:
        yield Finding(str(path), f"is valid only from {certificate.not_valid_before_utc:%Y-%m-%d}")
    elif now > end:
        yield Finding(str(path), f"has expired on {end:%Y-%m-%d}; make the folder again")
    elif now > end - SOON:
        yield Finding(str(path), f"expires on {end:%Y-%m-%d}", serious=False)


def _check_signed(path: Path, certificate: Any, authority: Any) -> Iterator[Finding]:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        yield Finding(str(path), "is not signed by the authority in ca.crt")


def _check_connection(nodes: list[Path], servers: list[Path]) -> Iterator[Finding]:
    for place in nodes or servers:
        text = (place / "start.sh").read_text()
        reached = _SUPERLINK.search(text)
        port = re.search(r"SAFLE_PORT:-(\d+)", _text(place / "environment.sh"))
        if reached:
            host = f"[{reached[1]}]" if ":" in reached[1] else reached[1]
            address = f"{host}:{reached[2]}"
        elif port:
            address = f"localhost:{port[1]}"
        else:
            continue
        yield from _probe(address, place / "ca.crt")
        # They all reach the same server.
        return


def _probe(address: str, ca: Path) -> Iterator[Finding]:
    try:
        trust = ssl.create_default_context(cafile=str(ca))
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
    except (OSError, socket.gaierror) as error:
        reason = getattr(error, "reason", error)
        yield Finding(address, f"the server cannot be reached: {reason}")


def _status(url: str, trust: ssl.SSLContext) -> int:
    request = urllib.request.Request(
        url, b"", {"Content-Type": "application/x-protobuf"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
