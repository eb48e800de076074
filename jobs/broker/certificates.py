"""A certificate authority of one's own, for trying out TLS: its certificate, and brokers' and clients' signed by it.

    authority = Authority(directory, "test")
    broker = authority.issue("broker", names=["localhost", "127.0.0.1"])
    broker.pem, broker.pkcs12, authority.pem        files in `directory`

Never for anything else: keys lie there unencrypted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PASSWORD = "changeit"  # of the PKCS12 files, as Java's own


@dataclass(frozen=True)
class Issued:
    """One certificate with its key. `pem`: key (PKCS#8), certificate and its authority's; `pkcs12`: the same."""

    pem: Path
    pkcs12: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


class Authority:
    """Signs what it is asked to."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        self.certificate = (
            _builder(self._name, self._name, self._key, now - timedelta(days=1), now + timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = directory / f"{name}.pem"
        self.pem.write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, *, names: Sequence[str] = (), expired: bool = False) -> Issued:
        """A certificate for these host names and addresses; without any, a client's. `expired`: until yesterday."""
        key = ec.generate_private_key(ec.SECP256R1())
        end = datetime.now(UTC) + timedelta(days=-1 if expired else 20)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = _builder(_named(name), self._name, key, end - timedelta(days=30), end)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general(each) for each in names]), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return self._written(name, key, certificate)

    def _written(self, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Issued:
        pem, store = self._directory / f"{name}.pem", self._directory / f"{name}.p12"
        parts = [key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
        parts += [each.public_bytes(Encoding.PEM) for each in (certificate, self.certificate)]
        pem.write_bytes(b"".join(parts))
        encryption = BestAvailableEncryption(PASSWORD.encode())
        store.write_bytes(
            pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, [self.certificate], encryption)
        )
        return Issued(pem, store, key, certificate)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
