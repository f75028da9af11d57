"""Keys and certificates: an authority of one's own, the server's certificate, the nodes' keys."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safle.errors import MissingExtra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, GeneralName

AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
"""Clients' libraries refuse server certificates that are valid for longer."""


def require_cryptography() -> None:
    """Say which extra is missing, before anything is written."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise MissingExtra("cryptography", "flower", "making keys and certificates") from None


def new_key() -> EllipticCurvePrivateKey:
    """A private key on the curve P-384, the one that Flower's nodes use."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP384R1())


def make_authority(key: EllipticCurvePrivateKey) -> Certificate:
    """A certificate that signs others, and itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    name = _name("safle federation authority")
    builder = _begun(name, name, key, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    return builder.sign(key, hashes.SHA384())


def make_server_certificate(
    hosts: Sequence[str],
    key: EllipticCurvePrivateKey,
    authority: Certificate,
    authority_key: EllipticCurvePrivateKey,
) -> Certificate:
    """A certificate for a server that is reached by any of ``hosts``, names or addresses."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    builder = _begun(_name(hosts[0][:64]), authority.subject, key, SERVER_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(server, critical=False)
    builder = builder.add_extension(names, critical=False)
    return builder.sign(authority_key, hashes.SHA384())


def certificate_bytes(certificate: Certificate) -> bytes:
    """The text of a certificate file."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def tls_key_bytes(key: EllipticCurvePrivateKey) -> bytes:
    """The text of a private key file for TLS."""
    from cryptography.hazmat.primitives import serialization as form

    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


def node_key_bytes(key: EllipticCurvePrivateKey) -> bytes:
    """The text of a node's private key, as ssh-keygen writes it."""
    from cryptography.hazmat.primitives import serialization as form

    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())


def public_key_bytes(key: EllipticCurvePrivateKey, comment: str = "") -> bytes:
    """The line of a node's public key file; one key has one line, but for the comment."""
    from cryptography.hazmat.primitives import serialization as form

    line = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return line + (f" {comment}".encode() if comment else b"") + b"\n"


def read_certificate(path: Path) -> Certificate:
    """A certificate file; `ValueError` if it is none."""
    from cryptography import x509

    return x509.load_pem_x509_certificate(path.read_bytes())


def read_tls_key(path: Path) -> Any:
    """A private key file for TLS; `ValueError` if it is none."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key(path.read_bytes(), None)


def read_node_key(path: Path) -> Any:
    """A node's private key file; `ValueError` if it is none."""
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    return load_ssh_private_key(path.read_bytes(), None)


def hosts_of(certificate: Certificate) -> list[str]:
    """Names and addresses that a certificate is for."""
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in found.value]


def _alternative(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(text: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _begun(
    subject: Any, issuer: Any, key: EllipticCurvePrivateKey, days: int
) -> CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    # Clocks differ: a node that is an hour behind must not refuse today's certificate.
    begin = now - datetime.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(**allowed: bool) -> Any:
    from cryptography import x509

    nothing = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(**{**nothing, **allowed})
