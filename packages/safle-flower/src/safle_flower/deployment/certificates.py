"""Keys and certificates: an authority of one's own, the server's certificate, the nodes' keys."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safle.errors import MissingExtra

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise MissingExtra("cryptography", "safle-flower", "making keys and certificates") from None

AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
"""Clients' libraries refuse server certificates that are valid for longer."""
_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)
Key = Any
"""A private key of `cryptography`."""


def new_key() -> Key:
    """A private key on the curve P-384, the one that Flower's nodes use."""
    return ec.generate_private_key(ec.SECP384R1())


def make_authority(key: Key) -> x509.Certificate:
    """A certificate that signs others, and itself."""
    name = _name("safle federation authority")
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    usage = _usage("key_cert_sign", "crl_sign")
    return _sign(name, key, name, key, AUTHORITY_DAYS, critical=[constraints, usage])


def make_server_certificate(
    hosts: Sequence[str], key: Key, authority: x509.Certificate, authority_key: Key
) -> x509.Certificate:
    """A certificate for a server that is reached by any of ``hosts``, names or addresses."""
    constraints = x509.BasicConstraints(ca=False, path_length=None)
    usage = _usage("digital_signature")
    extensions = [
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.SubjectAlternativeName([_alternative(host) for host in hosts]),
    ]
    return _sign(
        *(_name(hosts[0][:64]), key, authority.subject, authority_key, SERVER_DAYS),
        critical=[constraints, usage],
        extensions=extensions,
    )


def certificate_bytes(certificate: x509.Certificate) -> bytes:
    """The text of a certificate file."""
    return certificate.public_bytes(form.Encoding.PEM)


def tls_key_bytes(key: Key) -> bytes:
    """The text of a private key file for TLS."""
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


def node_key_bytes(key: Key) -> bytes:
    """The text of a node's private key, as ssh-keygen writes it."""
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())


def public_key_bytes(key: Key, comment: str = "") -> bytes:
    """The line of a node's public key file; one key has one line, but for the comment."""
    line = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return line + (f" {comment}".encode() if comment else b"") + b"\n"


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate file; `ValueError` if it is none."""
    return x509.load_pem_x509_certificate(path.read_bytes())


def read_tls_key(path: Path) -> Key:
    """A private key file for TLS; `ValueError` if it is none."""
    return form.load_pem_private_key(path.read_bytes(), None)


def read_node_key(path: Path) -> Key:
    """A node's private key file; `ValueError` if it is none."""
    return form.load_ssh_private_key(path.read_bytes(), None)


def is_node_key(path: Path) -> bool:
    """Whether a public key file holds a key that nodes can have; `ValueError` if it is none."""
    return isinstance(form.load_ssh_public_key(path.read_bytes()), ec.EllipticCurvePublicKey)


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """Names and addresses that a certificate is for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in found.value]


def _sign(
    subject: x509.Name,
    key: Key,
    issuer: x509.Name,
    issuer_key: Key,
    days: int,
    *,
    critical: Sequence[x509.ExtensionType],
    extensions: Sequence[x509.ExtensionType] = (),
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks differ: a node that is an hour behind must not refuse today's certificate.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
    )
    # Strict verification, Python's default from 3.13 on, wants to see whose key signed whose.
    identifiers = [
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
    ]
    for extension in critical:
        builder = builder.add_extension(extension, critical=True)
    for extension in (*identifiers, *extensions):
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(issuer_key, hashes.SHA384())


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*allowed: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{use: use in allowed for use in _USES})
