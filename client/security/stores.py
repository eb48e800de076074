"""Truststores and keystores: PEM and PKCS12 in full; for JKS the error has the command that converts it to PKCS12.

A store's form is seen from its first bytes, as Java does for JKS and PKCS12: `ssl.truststore.type` defaults to JKS
there, and a PKCS12 file is read all the same.

    -----BEGIN …      PEM       certificates, and for a keystore the key (PKCS#8, may be encrypted) and its chain
    30 …              PKCS12    RFC 7292, read by `cryptography`
    FE ED FE ED       JKS       Java's own form, which no well-kept library reads
    CE CE CE CE       JCEKS

No message quotes the content of a store.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NoReturn

from kseg.client.errors import ConfigFault
from kseg.client.security.secret import Secret

_MAX_BYTES: Final = 16 * 1024 * 1024
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY: Final = re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.+?-----END \1PRIVATE KEY-----", re.DOTALL)

TYPES: Final = ("PEM", "PKCS12", "JKS")


@dataclass(frozen=True, slots=True)
class Store:
    """A truststore or keystore: a file (`location`), or PEM text (`certificates`, for a keystore also `key`).

    kind: which of the two properties families it comes from. type: as configured, None for the default.
    """

    kind: Literal["truststore", "keystore"]
    location: str | None = None
    type: str | None = None
    password: Secret | None = None
    key_password: Secret | None = None
    certificates: str | None = field(default=None, repr=False)
    key: Secret | None = None

    @property
    def property_name(self) -> str:
        """The property that a fault is about."""
        if self.location is not None:
            return f"ssl.{self.kind}.location"
        return "ssl.truststore.certificates" if self.kind == "truststore" else "ssl.keystore.certificate.chain"


class StoreFault(Exception):
    """A store that cannot be used; `config_fault` says why, without quoting its content."""

    def __init__(self, config_fault: ConfigFault) -> None:
        super().__init__(str(config_fault))
        self.config_fault = config_fault


def trust_in(store: Store) -> str:
    """A truststore's certificates as PEM text. Raises StoreFault."""
    if store.location is None:
        text = store.certificates or ""
    else:
        data = _read(store)
        text = _text(store, data) if _form(store, data) == "PEM" else _pkcs12(store, data)[1]
    certificates = _CERTIFICATE.findall(text)
    if not certificates:
        _refuse(store.property_name, "holds no certificate", "give at least one CA's certificate")
    return "\n".join(certificates) + "\n"


@contextlib.contextmanager
def identity_in(store: Store) -> Iterator[tuple[str, str]]:
    """A keystore's key and chain as a PEM file that lives as long as the block, and the key's password ("" for none).

    The ssl module takes a key from a file alone. Where the system can (Linux), that file is in memory.
    Raises StoreFault.
    """
    if store.location is None:
        text, password = _pem_identity(store, _revealed(store.key), store.certificates or "")
    else:
        data = _read(store)
        if _form(store, data) == "PEM":
            text, password = _pem_identity(store, _text(store, data), _text(store, data))
        else:
            key, certificates = _pkcs12(store, data)
            if not key:
                _refuse(store.property_name, "holds no private key", "give the keystore with the client's key")
            text, password = key + certificates, ""
    with _file(text.encode()) as name:
        yield name, password


def _pem_identity(store: Store, key_text: str, certificate_text: str) -> tuple[str, str]:
    key = _KEY.search(key_text)
    certificates = _CERTIFICATE.findall(certificate_text)
    property_name = store.property_name if store.location is not None else "ssl.keystore.key"
    if key is None:
        _refuse(property_name, "holds no private key in PEM", "give a PKCS#8 key: -----BEGIN PRIVATE KEY-----")
    if not certificates:
        _refuse(
            store.property_name,
            "holds no certificate",
            "give the client's certificate, then the certificates of its issuers",
        )
    password = _revealed(store.key_password)
    _check_key(property_name, key[0], password)
    return "\n".join([key[0], *certificates]) + "\n", password


def _check_key(property_name: str, pem: str, password: str) -> None:
    """OpenSSL would ask the terminal for a password that is missing, and says little about a wrong one."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    encrypted = "ENCRYPTED" in pem
    if encrypted and not password:
        _refuse("ssl.key.password", "is missing, and the key is encrypted", "give the key's password")
    fault = None
    try:
        load_pem_private_key(pem.encode(), password.encode() if encrypted else None)
    except (ValueError, TypeError):
        fault = "the key cannot be read" + (": is ssl.key.password right?" if encrypted else "")
    except UnsupportedAlgorithm:
        fault = "the type of the key is not supported"
    if fault:
        _refuse(property_name, fault, "give a PKCS#8 key in PEM: openssl pkcs8 -topk8 converts others")


def _pkcs12(store: Store, data: bytes) -> tuple[str, str]:
    """Key ("" if there is none) and certificates, the key's own first, both as PEM. Raises StoreFault."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    password = store.password.reveal().encode() if store.password else None
    found = None
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):  # what it says must not be chained
        found = pkcs12.load_pkcs12(data, password)
    if found is None:
        given = "is wrong" if password else "is missing"
        _refuse(
            store.property_name,
            f"is not a PKCS12 store that can be read; perhaps ssl.{store.kind}.password {given}",
            "try openssl pkcs12 -info on it; stores with old encryption need `openssl pkcs12 -legacy` and a new export",
        )
    certificates = [found.cert] if found.cert else []
    certificates += found.additional_certs
    text = "".join(entry.certificate.public_bytes(Encoding.PEM).decode() for entry in certificates)
    if found.key is None:
        return "", text
    return found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(), text


def _form(store: Store, data: bytes) -> str:
    """PEM or PKCS12, from the first bytes. Raises StoreFault for JKS, and where the type says otherwise."""
    magic = data[:4]
    if magic in (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"):
        name = "JKS" if magic == b"\xfe\xed\xfe\xed" else "JCEKS"
        _refuse(
            store.property_name,
            f"is a {name} store, which only Java reads",
            "convert it: keytool -importkeystore -srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12",
        )
    form = "PEM" if b"-----BEGIN " in data else "PKCS12" if data[:1] == b"\x30" else "unknown"
    said = store.type
    if form == "unknown" or (said == "PEM" and form != "PEM") or (said in ("PKCS12", "JKS") and form != "PKCS12"):
        expected = "neither PEM nor PKCS12" if form == "unknown" else f"{form}, and ssl.{store.kind}.type says {said}"
        _refuse(store.property_name, f"is {expected}", "give a PEM or PKCS12 store, and its type")
    if form == "PEM" and store.password is not None:
        _refuse(
            f"ssl.{store.kind}.password",
            "is set, and a PEM file has no password",
            "remove it; the password of an encrypted key is ssl.key.password",
        )
    return form


def _read(store: Store) -> bytes:
    assert store.location is not None
    try:
        with Path(store.location).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        why = error.strerror or type(error).__name__
        _refuse(
            store.property_name,
            f"cannot read {store.location}: {why}",
            "put the file there on every machine that connects",
        )
    if len(data) > _MAX_BYTES:
        _refuse(store.property_name, f"{store.location} is larger than {_MAX_BYTES} bytes", "name a store")
    return data


def _text(store: Store, data: bytes) -> str:
    text = data.decode("utf-8", errors="replace")
    if "�" in "".join(_CERTIFICATE.findall(text)):
        _refuse(store.property_name, "is damaged", "write it again")
    return text


def _revealed(secret: Secret | None) -> str:
    return secret.reveal() if secret else ""


@contextlib.contextmanager
def _file(data: bytes) -> Iterator[str]:
    """A file with this content, in memory if the system can, and readable by this user alone."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        handle = os.memfd_create("kseg-identity")
        try:
            os.write(handle, data)
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
        return
    with tempfile.NamedTemporaryFile() as file:  # mode 0600
        file.write(data)
        file.flush()
        yield file.name


def _refuse(key: str, message: str, remedy: str) -> NoReturn:
    raise StoreFault(ConfigFault(key, message, remedy))
