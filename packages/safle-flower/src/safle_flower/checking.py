"""``safle deploy check``: what is wrong with a deployment folder, in sentences.

It checks a whole folder, or the part of it that one machine has: ``server``, or one node's.
"""

from __future__ import annotations

import datetime
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from safle import Policy, load_encoder
from safle.basics import as_settings, read_toml
from safle.errors import SafleError
from safle_flower.settings import Run

WARNING_TIME = datetime.timedelta(days=30)
"""A certificate that ends within this time gets a warning."""
REFUSALS = (401, 403, 404)
"""HTTP statuses of a closed control API."""
CONTROL = "/v1/control/list-nodes"
FLEET = "/v1/fleet/get-run"
_SUPERLINK = re.compile(r"--superlink '?((?:\[[^]]+\]|[^\s':]+):\d+)")


@dataclass(frozen=True)
class Finding:
    """One fault, or one thing worth knowing."""

    where: Path | str
    text: str
    serious: bool = True

    def __str__(self) -> str:
        return f"{'error' if self.serious else 'warning'}: {self.where}: {self.text}"


def check_folder(folder: Path, *, connect: bool = False) -> list[Finding]:
    """List all faults; the list is empty if all is well.

    Parameters
    ----------
    folder : what `make_folder` wrote, its ``server``, or one of its nodes
    connect : also try to reach the server, as a node would
    """
    parts = [folder, folder / "server", *sorted((folder / "nodes").glob("*"))]
    servers = [place for place in parts if (place / "run.sh").is_file()]
    nodes = [place for place in parts if (place / "node" / "start.sh").is_file()]
    if not servers and not nodes:
        text = "neither a server's nor a node's folder: it has no run.sh and no node/start.sh"
        return [Finding(folder, text)]
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
    key, path = place / "server.key", place / "server.crt"
    yield from _check_secret(key)
    certificate, authority = _certificate(path), _certificate(place / "ca.crt")
    yield from _check_dates(path, certificate)
    yield from _check_dates(place / "ca.crt", authority)
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    if private.public_key() != certificate.public_key():
        yield Finding(key, "is not the key of server.crt; make both again")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        yield Finding(path, "is not signed by the authority in ca.crt")
    if "localhost" not in _hosts(certificate):
        yield Finding(path, "is not valid for localhost, where the server reaches itself")
    yield from _check_app(place)
    encoder = place / "encoder.safetensors"
    if not encoder.exists():
        yield Finding(encoder, "missing; make it with 'safle encoder make' before ./run.sh")
    else:
        load_encoder(encoder)


def _check_app(place: Path) -> Iterator[Finding]:
    path = place / "app" / "pyproject.toml"
    config: dict[str, Any] = read_toml(path, "the app's settings")["tool"]["flwr"]["app"]["config"]
    # run.sh sets the paths: here any path will do.
    paths = dict.fromkeys(("store", "output", "encoder"), "/")
    run = as_settings(Run, config | paths)
    run.check()
    for name in run.expected_clients:
        if not (place / "keys" / f"{name}.pub").exists():
            yield Finding(path, f"expects client {name!r}, but keys/{name}.pub is missing")
    for key in sorted((place / "keys").glob("*.pub")):
        # Flower refuses other keys without saying why.
        if not isinstance(_public_key(key), EllipticCurvePublicKey):
            yield Finding(key, "not a public EC key; make one with: ssh-keygen -t ecdsa -b 384")


def _check_node(place: Path) -> Iterator[Finding]:
    key, public = place / "node" / "node.key", place / "node" / "node.pub"
    yield from _check_secret(key)
    authority = place / "node" / "ca.crt"
    yield from _check_dates(authority, _certificate(authority))
    own_key = serialization.load_ssh_private_key(key.read_bytes(), None).public_key()
    if public.exists() and _public_key(public) != own_key:
        yield Finding(public, "is not the public half of node.key")
    Policy.read(place / "site" / "policy.toml")
    start = place / "node" / "start.sh"
    if not _SUPERLINK.search(start.read_text("utf-8")):
        yield Finding(start, "does not say where the server is (--superlink)")
    # Permissions must keep the node's process away from the data.
    inbox, outbox = (place / "inbox").stat(), (place / "outbox").stat()
    if inbox.st_uid == outbox.st_uid:
        yield Finding(
            place,
            "the node and the data have one user: the server's operator can read the data; "
            "run users.sh as root",
            serious=False,
        )
    elif outbox.st_mode & 0o022 or (place / "site").stat().st_mode & 0o077:
        yield Finding(place, "others may read site or write outbox; run users.sh as root")


def _check_together(server: Path, node: Path) -> Iterator[Finding]:
    """Check a node against its server, where the folders of both are present."""
    start = node / "node" / "start.sh"
    reached = _SUPERLINK.search(start.read_text("utf-8"))
    host = reached[1].rpartition(":")[0].strip("[]") if reached else ""
    if host and host not in _hosts(_certificate(server / "server.crt")):
        yield Finding(start, f"reaches the server as {host}, but the certificate is not for it")
    registered, public = server / "keys" / f"{node.name}.pub", node / "node" / "node.pub"
    if not registered.exists():
        yield Finding(registered, f"missing: node {node.name} cannot be registered")
    elif public.exists() and _public_key(public) != _public_key(registered):
        yield Finding(registered, f"is not the key in {public}")
    authority = node / "node" / "ca.crt"
    if _certificate(authority) != _certificate(server / "ca.crt"):
        yield Finding(authority, "is not the authority of the server")


def _check_secret(path: Path) -> Iterator[Finding]:
    if path.stat().st_mode & 0o077:
        yield Finding(path, f"others may read it; run: chmod 600 {path}")


def _check_dates(path: Path, certificate: x509.Certificate) -> Iterator[Finding]:
    end, now = certificate.not_valid_after_utc, datetime.datetime.now(datetime.UTC)
    if end <= now:
        yield Finding(path, f"expired on {end:%Y-%m-%d}; delete it and run certificates.sh")
    elif end <= now + WARNING_TIME:
        yield Finding(path, f"expires on {end:%Y-%m-%d}", serious=False)


def _certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def _hosts(certificate: x509.Certificate) -> set[str]:
    """The names and addresses that a certificate is for."""
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return {str(name.value) for name in found.value}


def _public_key(path: Path) -> object:
    """The key in a file as ssh-keygen writes it; None if it holds another kind of key."""
    try:
        return serialization.load_ssh_public_key(path.read_bytes())
    except (ValueError, UnsupportedAlgorithm):
        return None


def _check_connection(servers: list[Path], nodes: list[Path]) -> Iterator[Finding]:
    # All nodes reach the same server: the first one is enough.
    if nodes:
        part = nodes[0] / "node"
        reached = _SUPERLINK.search((part / "start.sh").read_text("utf-8"))
        address = reached[1] if reached else ""
    else:
        part = servers[0]
        port = re.search(r"SAFLE_PORT:-(\d+)", (part / "environment.sh").read_text("utf-8"))
        address = f"localhost:{port[1]}" if port else ""
    if not address:
        return
    try:
        trust = ssl.create_default_context(cafile=str(part / "ca.crt"))
        if _status(f"https://{address}{FLEET}", trust) in (403, 404):
            yield Finding(address, "answers, but not as a SuperLink: is a proxy in the way?")
        # Any other answer means that the API is open, even if it rejects the empty request.
        if _status(f"https://{address}{CONTROL}", trust) not in REFUSALS:
            yield Finding(
                address,
                "the control API answers from here without a login: anybody who reaches it can run "
                "programs on the server and on every node; close it (server/nginx.conf)",
                serious=False,
            )
    except OSError as error:
        reason = getattr(error, "reason", error)
        yield Finding(address, f"the server cannot be reached: {reason}")


def _status(url: str, trust: ssl.SSLContext) -> int:
    headers = {"Content-Type": "application/x-protobuf"}
    request = urllib.request.Request(url, b"", headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)
