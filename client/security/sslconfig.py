"""The `ssl.*` properties -> `TlsConfig`, every fault at once. Also for the token endpoint's, in `sasl.jaas.config`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from kseg.client.errors import ConfigFault
from kseg.client.security.property_names import KEYSTORE_NAMES, TRUSTSTORE_NAMES
from kseg.client.security.secret import Secret
from kseg.client.security.stores import TYPES, Store
from kseg.client.security.tls import PROTOCOLS, TlsConfig, narrowed, suite_fault

_Fault = Callable[[str, str, str], None]


def parse_tls(properties: Mapping[str, str], faults: list[ConfigFault]) -> TlsConfig:
    """`properties`: names among SSL_NAMES. Passwords are taken as they are, all else without outer blanks."""
    before = len(faults)
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("https", ""):
        reason = f"{algorithm!r} is not an algorithm"
        remedy = "https, or empty to accept a certificate for any host name"
        faults.append(ConfigFault("ssl.endpoint.identification.algorithm", reason, remedy))
    protocols = _protocols(properties, faults)
    suites = tuple(_items(properties.get("ssl.cipher.suites", "")))
    if suites and protocols:
        fault = suite_fault(protocols, suites)
        if fault:
            faults.append(
                ConfigFault("ssl.cipher.suites", fault, "names such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
            )
    truststore = _store("truststore", properties, faults)
    keystore = _store("keystore", properties, faults)
    if len(faults) > before:
        return TlsConfig()
    return TlsConfig(truststore, keystore, algorithm == "https", narrowed(protocols, suites), suites)


def _protocols(properties: Mapping[str, str], faults: list[ConfigFault]) -> tuple[str, ...]:
    """The versions by Java's rule: `ssl.protocol` TLSv1.2 leaves TLS 1.3 out, also where that is enabled."""
    named = _items(properties.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"))
    bad = [name for name in named if name not in PROTOCOLS]
    if bad or not named:
        reason = f"{', '.join(bad)} not supported: older than TLS 1.2, or unknown" if bad else "names no protocol"
        faults.append(ConfigFault("ssl.enabled.protocols", reason, f"some of {', '.join(PROTOCOLS)}"))
    ceiling = properties.get("ssl.protocol", "TLSv1.3").strip()
    if ceiling not in (*PROTOCOLS, "TLS"):
        reason = f"{ceiling!r} not supported: older than TLS 1.2, or unknown"
        faults.append(ConfigFault("ssl.protocol", reason, "TLSv1.3, or TLSv1.2 to leave TLS 1.3 out"))
    enabled = tuple(name for name in PROTOCOLS if name in named and not (ceiling == "TLSv1.2" and name == "TLSv1.3"))
    if not enabled and named and not bad:
        faults.append(ConfigFault("ssl.protocol", "leaves none of ssl.enabled.protocols", "remove one of the two"))
    return enabled


def _store(
    kind: Literal["truststore", "keystore"], properties: Mapping[str, str], faults: list[ConfigFault]
) -> Store | None:
    names = TRUSTSTORE_NAMES if kind == "truststore" else KEYSTORE_NAMES
    given = {name: value for name, value in properties.items() if name in names and value.strip()}
    if not given:
        return None

    def fault(name: str, reason: str, remedy: str) -> None:
        faults.append(ConfigFault(name, reason, remedy))

    location = given.get(f"ssl.{kind}.location", "").strip() or None
    text_names = ["ssl.truststore.certificates"] if kind == "truststore" else ["ssl.keystore.certificate.chain"]
    inline = [name for name in [*text_names, "ssl.keystore.key"] if name in given]
    type_ = given.get(f"ssl.{kind}.type", "").strip().upper() or None
    password = given.get(f"ssl.{kind}.password")
    if type_ is not None and type_ not in TYPES:
        fault(f"ssl.{kind}.type", "is not a type of store", f"one of {', '.join(TYPES)}")
    if location is not None:
        for name in inline:
            fault(name, f"cannot be combined with ssl.{kind}.location", "keep one of the two")
    elif not inline:
        for name in given:
            fault(name, f"is given without ssl.{kind}.location", f"set ssl.{kind}.location, or remove it")
    else:
        _check_inline(kind, given, type_, fault)
    key_password = given.get("ssl.key.password") if kind == "keystore" else None
    return Store(
        kind,
        location,
        type_,
        Secret(password) if password is not None else None,
        Secret(key_password) if key_password is not None else None,
        given.get(text_names[0]),
        Secret(given["ssl.keystore.key"]) if "ssl.keystore.key" in given else None,
    )


def _check_inline(kind: str, given: Mapping[str, str], type_: str | None, fault: _Fault) -> None:
    if type_ not in (None, "PEM"):
        fault(f"ssl.{kind}.type", "is not PEM, and the certificates are given as PEM text", "write PEM")
    if f"ssl.{kind}.password" in given:
        fault(f"ssl.{kind}.password", "is set, and PEM text has no password", "an encrypted key's is ssl.key.password")
    pair = ("ssl.keystore.key", "ssl.keystore.certificate.chain")
    for name, other in (pair, pair[::-1]) if kind == "keystore" else ():
        if name not in given:
            fault(name, f"is missing, and {other} is given", "give both, or neither")
    for name in (*pair, "ssl.truststore.certificates"):
        if name in given and "-----BEGIN " not in given[name]:
            fault(name, "is not PEM text", "give the content of the PEM file; a path goes to the .location property")


def _items(text: str) -> list[str]:
    return [item for part in text.split(",") if (item := part.strip())]
