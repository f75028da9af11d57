"""``safle deploy check``: what is wrong with a deployment folder, in sentences.

The whole folder may be there, or only the part that a machine has: ``server`` or one node's.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safle.basics import read_toml
from safle.encoders import load_encoder
from safle.errors import SafleError, SettingsError
from safle.site import Policy
from safle_flower.deployment import tools
from safle_flower.deployment.folder import check_host
from safle_flower.settings import Run

SOON = 30 * 86_400
"""Seconds before its end from which a certificate is warned about."""
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
    nodes = [place for place in candidates if (place / "node" / "start.sh").is_file()]
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
    key, server, authority = (place / name for name in ("server.key", "server.crt", "ca.crt"))
    yield from _check_secret(key)
    yield from _check_dates(server)
    yield from _check_dates(authority)
    if tools.run("openssl", "pkey", "-in", key, "-pubout") != _x509(server, "-pubkey"):
        yield Finding(str(key), "is not the key of server.crt; make both again")
    if not tools.succeeds("openssl", "verify", "-no_check_time", "-CAfile", authority, server):
        yield Finding(str(server), "is not signed by the authority in ca.crt")
    if "localhost" not in _hosts_of(server):
        yield Finding(str(server), "is not for localhost, by which the server reaches itself")
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
        if not tools.run("ssh-keygen", "-l", "-f", path).rstrip().endswith("(ECDSA)"):
            yield Finding(str(path), "not an EC key; make one with: ssh-keygen -t ecdsa -b 384")
    except SettingsError as error:
        yield Finding(str(path), f"not a public key: {error}")


def _check_node(place: Path) -> Iterator[Finding]:
    key, public = place / "node" / "node.key", place / "node" / "node.pub"
    yield from _check_secret(key)
    yield from _check_dates(place / "node" / "ca.crt")
    ours = tools.run("ssh-keygen", "-y", "-f", key).split()[:2]
    if public.exists() and public.read_text().split()[:2] != ours:
        yield Finding(str(public), "is not the public half of node.key")
    Policy.read(place / "site" / "policy.toml")
    start = place / "node" / "start.sh"
    if not _SUPERLINK.search(start.read_text()):
        yield Finding(str(start), "does not say where the server is (--superlink)")
    yield from _check_users(place)


def _check_users(place: Path) -> Iterator[Finding]:
    """Whether the node's process is kept from the data by permissions."""
    inbox, outbox = (place / "inbox").stat(), (place / "outbox").stat()
    if inbox.st_uid == outbox.st_uid:
        yield Finding(
            str(place),
            "the node and the data have one user: whoever operates the server can read the data; "
            "run users.sh as root",
            serious=False,
        )
    elif outbox.st_mode & 0o022 or (place / "site").stat().st_mode & 0o077:
        yield Finding(str(place), "others may read site or write outbox; run users.sh as root")


def _check_together(server: Path, nodes: list[Path]) -> Iterator[Finding]:
    """What only the maker of the folder can see: both sides of every pair."""
    try:
        hosts = _hosts_of(server / "server.crt")
    except (OSError, ValueError):
        return
    for node in nodes:
        start = node / "node" / "start.sh"
        reached = _SUPERLINK.search(start.read_text())
        if reached and reached[1] not in hosts:
            yield Finding(
                str(start),
                f"reaches the server as {reached[1]}, its certificate is for {', '.join(hosts)}",
            )
        registered, own = server / "keys" / f"{node.name}.pub", node / "node" / "node.pub"
        if not registered.exists():
            yield Finding(str(registered), f"missing: node {node.name} cannot be registered")
        elif own.exists() and own.read_bytes().split()[:2] != registered.read_bytes().split()[:2]:
            yield Finding(str(registered), f"is not the key in {own}")
        authority = node / "node" / "ca.crt"
        if _text(authority) != _text(server / "ca.crt"):
            yield Finding(str(authority), "is not the authority of the server")


def _check_secret(path: Path) -> Iterator[Finding]:
    if path.stat().st_mode & 0o077:
        yield Finding(str(path), f"others may read it; run: chmod 600 {path}")


def _check_dates(path: Path) -> Iterator[Finding]:
    lines = dict(line.split("=", 1) for line in _x509(path, "-dates").splitlines())
    begin, end = (ssl.cert_time_to_seconds(lines[name]) for name in ("notBefore", "notAfter"))
    now = time.time()
    if now < begin:
        yield Finding(str(path), f"is valid only from {_day(begin)}")
    elif now > end:
        yield Finding(str(path), f"has expired on {_day(end)}; run certificates.sh without it")
    elif now > end - SOON:
        yield Finding(str(path), f"expires on {_day(end)}", serious=False)


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _x509(path: Path, *what: str) -> str:
    """What openssl says of a certificate; `FileNotFoundError` if there is none."""
    path.stat()
    return tools.run("openssl", "x509", "-in", path, "-noout", *what)


def _hosts_of(path: Path) -> list[str]:
    """Names and addresses that a certificate is for."""
    said = _x509(path, "-ext", "subjectAltName")
    found = re.findall(r"(?:DNS|IP Address):([^,\s]+)", said)
    return [check_host("host", host) for host in found]


def _check_connection(nodes: list[Path], servers: list[Path]) -> Iterator[Finding]:
    for place in nodes or servers:
        part = place / "node" if place in nodes else place
        reached = _SUPERLINK.search((part / "start.sh").read_text())
        port = re.search(r"SAFLE_PORT:-(\d+)", _text(place / "environment.sh"))
        if reached:
            host = f"[{reached[1]}]" if ":" in reached[1] else reached[1]
            address = f"{host}:{reached[2]}"
        elif port:
            address = f"localhost:{port[1]}"
        else:
            continue
        yield from _probe(address, part / "ca.crt")
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
