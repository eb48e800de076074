"""GSSAPI (RFC 4752, KIP-12) over the `gssapi` package, which is an optional extra: it needs the system's Kerberos.

client -> server    the context's tokens, until both sides have it
server -> client    wrapped: layers it offers (1 byte), the largest message it takes (3 bytes)
client -> server    wrapped: 01 00 00 00, no layer (Kafka has none), then the authorization id
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kseg.client.errors import AuthenticationFailed
from kseg.client.security.mechanism import Challenged

_NO_LAYER: Final = 1


@dataclass(frozen=True, slots=True)
class KerberosConfig:
    """The client's identity, and the service's name (`kafka` of `kafka/broker.example.com`).

    Without a keytab the tickets of the machine's cache, or of `ticket_cache`, are used: renew them by other means.
    """

    service_name: str
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None


class Context(Protocol):
    """A GSS-API initiator's context, as far as the mechanism needs it."""

    @property
    def complete(self) -> bool: ...
    def step(self, token: bytes | None) -> bytes | None: ...
    def wrap(self, message: bytes) -> bytes: ...
    def unwrap(self, message: bytes) -> bytes: ...


class Gssapi:
    """One login to `service_name` at `host`."""

    name = "GSSAPI"
    answers_last = False

    def __init__(self, config: KerberosConfig, host: str) -> None:
        self.complete = False
        self._context = library_context(config, host)

    def first(self) -> bytes:
        return self._context.step(None) or b""

    def respond(self, challenge: bytes) -> bytes | None:
        if self.complete:
            return None
        if not self._context.complete:
            # The last token of the server may need no answer; the server waits for one all the same.
            return self._context.step(challenge) or b""
        offer = self._context.unwrap(challenge)
        if len(offer) != 4 or not offer[0] & _NO_LAYER:
            raise Challenged("the broker requires a GSSAPI security layer, which is not supported; Kafka uses TLS")
        self.complete = True
        return self._context.wrap(bytes([_NO_LAYER, 0, 0, 0]))


def library_context(config: KerberosConfig, host: str) -> Context:
    """The context of the `gssapi` package. Raises AuthenticationFailed."""
    try:
        import gssapi
    except (ImportError, OSError) as error:  # OSError: the system's libraries are missing
        raise AuthenticationFailed(
            "SASL GSSAPI needs the optional extra: pip install 'kafka-segment-etl[gssapi]', which needs the system's "
            "Kerberos libraries"
        ) from error
    return _Library(gssapi, config, host)


class _Library:
    def __init__(self, gssapi: Any, config: KerberosConfig, host: str) -> None:
        self._errors = gssapi.exceptions.GSSError
        self._host = host
        with _MappedErrors(self._errors, host):
            store = {}
            if config.keytab:
                store["client_keytab"] = config.keytab
            if config.ticket_cache:
                store["ccache"] = config.ticket_cache
            elif config.keytab:
                # Tickets that a keytab brought are kept in this process, those of each principal for themselves.
                own = hashlib.sha256(f"{config.principal} {config.keytab}".encode()).hexdigest()[:16]
                store["ccache"] = f"MEMORY:kseg-{own}"
            kind = gssapi.NameType
            name = gssapi.Name(config.principal, kind.kerberos_principal) if config.principal else None
            credentials = gssapi.Credentials(name=name, usage="initiate", store=store) if store or name else None
            service = gssapi.Name(f"{config.service_name}@{host}", kind.hostbased_service)
            flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
            self._context = gssapi.SecurityContext(
                name=service, creds=credentials, usage="initiate", mech=gssapi.MechType.kerberos, flags=flags
            )

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    def step(self, token: bytes | None) -> bytes | None:
        with _MappedErrors(self._errors, self._host):
            answer = self._context.step(token)
        return None if answer is None else bytes(answer)

    def wrap(self, message: bytes) -> bytes:
        with _MappedErrors(self._errors, self._host):
            return bytes(self._context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        with _MappedErrors(self._errors, self._host):
            return bytes(self._context.unwrap(message).message)


class _MappedErrors:
    """Kerberos' own errors as ours: they name principals and hosts, never keys."""

    def __init__(self, errors: type[Exception], host: str) -> None:
        self._errors = errors
        self._host = host

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._errors):
            words = " ".join(str(error).split())
            raise AuthenticationFailed(
                f"Kerberos failed for {self._host}: {words}; check the tickets with klist, or the keytab"
            ) from error
