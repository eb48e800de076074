"""Let Java trust the certificate authorities that the rest of the machine trusts.

A Java that did not come with the operating system (the one from PyPI) knows only its own list, so it cannot talk to a
repository behind a company's own authority, although pip just did. The authorities that Python sees are written as a
Java key store (JKS), big-endian, strings as two bytes of length and UTF-8::

    magic 0xFEEDFEED, version 2, count    int32 each
    per entry: 2 = trusted certificate int32, alias string, created int64, "X.509" string, length int32, DER bytes
    SHA-1 of password and all the above   left as zeros: Java compares it only when it is given a password
"""

from __future__ import annotations

import os
import ssl
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")


def authorities(environ: Mapping[str, str] = os.environ) -> list[bytes]:
    """DER of the certificates that Python's ssl trusts (SSL_CERT_FILE counts there) or that the environment names."""
    context = ssl.create_default_context()
    for name in _VARIABLES:
        if environ.get(name) and Path(environ[name]).is_file():
            context.load_verify_locations(cafile=environ[name])
    return context.get_ca_certs(binary_form=True)


def java_key_store(certificates: Iterable[bytes]) -> bytes:
    """A JKS file of trusted certificates, without a password."""
    entries = []
    for number, der in enumerate(certificates):
        head = struct.pack(">i", 2) + _text(f"ca-{number}") + struct.pack(">q", 0) + _text("X.509")
        entries.append(head + struct.pack(">i", len(der)) + der)
    return struct.pack(">Iii", 0xFEEDFEED, 2, len(entries)) + b"".join(entries) + bytes(20)


def trust_options(folder: Path) -> list[str]:
    """Java's system properties that make it use such a key store, which is written into ``folder``."""
    store = folder / "authorities.jks"
    store.write_bytes(java_key_store(authorities()))
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded
