"""TLS as configured by `ssl.*`, and the `ssl.SSLContext` that it means.

What differs from Java is only what Python's ssl module cannot do: one cannot choose among the cipher suites of TLS 1.3.

    trust     the truststore's certificates alone; without one, those that the machine trusts. A certificate in a
              truststore is trusted whatever its issuer is, also if it is an intermediate's or the broker's own.
    identity  the keystore's key and chain, sent if the broker asks for a certificate
    name      `ssl.endpoint.identification.algorithm=https` compares the name that was dialled with the certificate

Names: https://kafka.apache.org/documentation/#consumerconfigs, PEM stores: KIP-651.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kseg.client.errors import ConfigError, ConfigFault
from kseg.client.security.stores import Store, StoreFault, identity_in, trust_in

PROTOCOLS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
#: The suites of TLS 1.3 that OpenSSL has on; its other two (CCM) are off.
TLS13_SUITES: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Settings of TLS. `protocols` as in PROTOCOLS; `cipher_suites` by IANA's names, empty for OpenSSL's own choice.

    Files are read where the connection is made, so on a worker they are the worker's.
    """

    truststore: Store | None = None
    keystore: Store | None = None
    verify_host_name: bool = True
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()

    def context(self) -> ssl.SSLContext:
        """The context for connections, created again when a store's file has changed.

        While a changed file cannot be used, as it is being written, the context of before is returned.
        Raises ConfigError with everything that is wrong with the stores, if they could never be used.
        """
        try:
            context = _context(self, _stamp(self.truststore), _stamp(self.keystore))
        except ConfigError as error:
            if self not in _LAST:
                raise
            _LOG.warning("the stores that were read before are used: %s", error)
            return _LAST[self]
        _LAST[self] = context
        return context


#: The last context of each configuration in this process.
_LAST: Final[dict[TlsConfig, ssl.SSLContext]] = {}


def _stamp(store: Store | None) -> tuple[int, int] | None:
    """A value that changes with a store's file: a certificate that was renewed is taken up by the next connection."""
    if store is None or store.location is None:
        return None
    try:
        facts = os.stat(store.location)  # noqa: PTH116 - the path is opened as given, also relative
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size


@lru_cache(maxsize=16)
def _context(tls: TlsConfig, trust_stamp: object, key_stamp: object) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify_host_name
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    versions = sorted(PROTOCOLS[name] for name in tls.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    faults: list[ConfigFault] = []
    if tls.cipher_suites:
        _choose_suites(context, tls, faults)
    if tls.truststore is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, tls.truststore, faults)
    if tls.keystore is not None:
        _identify(context, tls.keystore, faults)
    if faults:
        raise ConfigError(faults)
    return context


def _trust(context: ssl.SSLContext, store: Store, faults: list[ConfigFault]) -> None:
    try:
        certificates = trust_in(store)
    except StoreFault as fault:
        faults.append(fault.config_fault)
        return
    try:
        context.load_verify_locations(cadata=certificates)
    except ssl.SSLError:
        faults.append(
            ConfigFault(store.property_name, "holds a certificate that cannot be read", "check it with openssl x509")
        )


def _identify(context: ssl.SSLContext, store: Store, faults: list[ConfigFault]) -> None:
    try:
        with identity_in(store) as (file, password):
            context.load_cert_chain(file, password=password)
    except StoreFault as fault:
        faults.append(fault.config_fault)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            config_fault = ConfigFault(
                store.property_name,
                "key and first certificate do not belong together",
                "put the key's own certificate first",
            )
        else:
            config_fault = ConfigFault(
                store.property_name, "key or certificates cannot be read", "give a PKCS#8 key and X.509 certificates"
            )
        faults.append(config_fault)


# -- cipher suites: Java has IANA's names, OpenSSL its own


def suite_fault(protocols: tuple[str, ...], suites: tuple[str, ...]) -> str | None:
    """The fault of these suites under these protocols; None if there is none."""
    named = set(suites) & TLS13_SUITES
    older = [suite for suite in suites if suite not in TLS13_SUITES]
    known = _known_suites()
    unknown = sorted(suite for suite in older if openssl_name(suite) not in known)
    if unknown:
        return f"{', '.join(unknown)}: unknown, or too weak to be offered"
    if "TLSv1.3" in protocols and named and named != TLS13_SUITES:
        missing = ", ".join(sorted(TLS13_SUITES - named))
        return f"the suites of TLS 1.3 can only be enabled all together: {missing} is missing"
    if not narrowed(protocols, suites):
        return f"none of them can be used with {', '.join(protocols)}"
    return None


def narrowed(protocols: tuple[str, ...], suites: tuple[str, ...]) -> tuple[str, ...]:
    """The protocols for which any suite is left."""
    if not suites:
        return protocols
    has = {"TLSv1.3": bool(set(suites) & TLS13_SUITES), "TLSv1.2": any(suite not in TLS13_SUITES for suite in suites)}
    return tuple(name for name in protocols if has[name])


def openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 -> ECDHE-RSA-AES128-GCM-SHA256. A name that is OpenSSL's stays as it is."""
    match = re.fullmatch(r"TLS_(?:(\w+?)_)?WITH_(\w+)", suite)
    if match is None:
        return suite
    exchange, cipher = match[1] or "", match[2]
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC_SHA", "_SHA")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    # Plain RSA key exchange has no name of its own in OpenSSL.
    parts = [part for part in (exchange if exchange != "RSA" else "", cipher) if part]
    return "-".join(parts).replace("_", "-")


@lru_cache(maxsize=1)
def _known_suites() -> frozenset[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("DEFAULT:@SECLEVEL=1")
    return frozenset(str(cipher["name"]) for cipher in context.get_ciphers())


def _choose_suites(context: ssl.SSLContext, tls: TlsConfig, faults: list[ConfigFault]) -> None:
    older = [openssl_name(suite) for suite in tls.cipher_suites if suite not in TLS13_SUITES]
    if not older:
        return
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError:
        faults.append(ConfigFault("ssl.cipher.suites", "this machine's OpenSSL has none of them", "leave it out"))
