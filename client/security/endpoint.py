"""The client-credentials flow: id and secret to a token endpoint, a token back (RFC 6749, 4.4; KIP-768).

    POST <url>   Authorization: Basic base64(id:secret)      grant_type=client_credentials[&scope=…]
    200          {"access_token": …, "expires_in": seconds}

No redirect is followed: the secret belongs to the endpoint that was named, and to none that this one names.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus, urlencode, urlsplit

from kseg.client.cluster.retry import Deadline, RetryPolicy
from kseg.client.errors import AuthenticationFailed
from kseg.client.security.secret import Secret
from kseg.client.security.tls import TlsConfig
from kseg.client.security.tlserrors import verification_fault
from kseg.client.security.tokens import Token

_MAX_BYTES: Final = 1 << 20
#: Refusals that may pass: asked too early, too often. Other 4xx answer the same to the same question.
_PASSING: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The flow's settings; times in milliseconds. `tls`: None for the machine's own trust."""

    url: str
    client_id: str
    client_secret: Secret
    scope: str | None = None
    tls: TlsConfig | None = None
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    urlencode_header: bool = False

    def fetch(self, deadline: Deadline) -> Token:
        """Ask, again after failures that may pass, with pauses up to the largest and for so long in all.

        Raises AuthenticationFailed, retriable unless the endpoint has rejected the client.
        """
        window = deadline.within(self.retry_backoff_max_ms / 1000)
        policy = RetryPolicy(self.retry_backoff_ms / 1000, max(self.retry_backoff_ms, self.retry_backoff_max_ms) / 1000)
        backoff = policy.start(window)
        while True:
            try:
                return self._ask(deadline)
            except AuthenticationFailed as error:
                backoff.pause(error)

    def _ask(self, deadline: Deadline) -> Token:
        started = time.time()
        status, body = self._post(deadline)
        if status != 200:
            # RFC 6749, 5.2: "error" is one of a few words; its description is the endpoint's own and may quote us.
            word = _member(body, "error")
            code_text = f" ({word[:60]})" if word and word.replace("_", "").isalnum() else ""
            passing = status >= 500 or status in _PASSING
            remedy = "" if passing else "; check client id, secret and scope"
            raise self._failed(f"answers {status}{code_text}{remedy}", retriable=passing)
        token = _member(body, "access_token")
        if not token:
            raise self._failed("answers without an access_token", retriable=False)
        lifetime = _number(body, "expires_in")
        return Token.of(token, None if lifetime is None else started + lifetime)

    def _post(self, deadline: Deadline) -> tuple[int, bytes]:
        url = urlsplit(self.url)
        connect = max(min(self.connect_timeout_ms / 1000, deadline.remaining()), 0.001)
        connection: http.client.HTTPConnection
        if url.scheme == "https":
            context = (self.tls or TlsConfig()).context()
            connection = http.client.HTTPSConnection(url.hostname or "", url.port, timeout=connect, context=context)
        else:
            connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=connect)
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        problem, answer = "", (0, b"")
        try:
            connection.connect()
            until = deadline.within(self.read_timeout_ms / 1000)
            connection.sock.settimeout(max(until.remaining(), 0.001))
            connection.request("POST", path, urlencode(form), self._headers())
            response = connection.getresponse()
            body = bytearray()
            while part := response.read1(65536):
                body += part
                if len(body) > _MAX_BYTES or until.passed:
                    raise TimeoutError("the answer does not end")
            answer = response.status, bytes(body)
        except ssl.SSLCertVerificationError as error:
            raise self._failed(verification_fault(error, url.hostname, "its"), retriable=False) from None
        except (OSError, http.client.HTTPException) as error:
            problem = "timed out" if isinstance(error, TimeoutError) else _words(error)
        finally:
            connection.close()
        if problem:
            raise self._failed(f"cannot be asked: {problem}", retriable=True)
        return answer

    def _headers(self) -> dict[str, str]:
        pair = (self.client_id, self.client_secret.reveal())
        user, secret = (quote_plus(part) for part in pair) if self.urlencode_header else pair
        basic = base64.b64encode(f"{user}:{secret}".encode()).decode()
        return {
            "Authorization": f"Basic {basic}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }

    def _failed(self, what: str, *, retriable: bool) -> AuthenticationFailed:
        url = urlsplit(self.url)
        separator = ":" if what.startswith("its ") else ""
        place = f"{url.scheme}://{url.hostname}{f':{url.port}' if url.port else ''}{url.path}"  # no user, no query
        return AuthenticationFailed(f"the token endpoint {place}{separator} {what}", retriable=retriable)


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


def _document(body: bytes) -> dict[str, object]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _member(body: bytes, name: str) -> str | None:
    value = _document(body).get(name)
    return value if isinstance(value, str) else None


def _number(body: bytes, name: str) -> float | None:
    value = _document(body).get(name)
    try:
        return float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except ValueError:
        return None
