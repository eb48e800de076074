"""The client-credentials flow: id and secret to a token endpoint, a token back (RFC 6749, 4.4; KIP-768).

POST <url>   Authorization: Basic base64(id:secret)      grant_type=client_credentials[&scope=…]
200          {"access_token": …, "expires_in": seconds}
"""

from __future__ import annotations

import base64
import json
import math
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus, urlencode

from kseg.client.errors import AuthenticationFailed
from kseg.client.retry import Deadline, RetryPolicy
from kseg.client.security.http import HttpAnswer, HttpConnection, HttpFailure, HttpServer
from kseg.client.security.secret import Secret
from kseg.client.security.tls import TlsConfig
from kseg.client.security.tokens import Token

_MAX_BYTES: Final = 1 << 20


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
        answer = self._post(deadline)
        status, body = answer.status, answer.body
        if status != 200:
            # RFC 6749, 5.2: "error" is one of a few words; its description is the endpoint's own and may quote us.
            word = _member(body, "error")
            code_text = f" ({word[:60]})" if word and word.replace("_", "").isalnum() else ""
            passing = answer.passing
            remedy = "" if passing else "; check client id, secret and scope"
            raise self._failed(f"responds with {status}{code_text}{remedy}", retriable=passing)
        token = _member(body, "access_token")
        if not token:
            raise self._failed("its response has no access_token", retriable=False)
        lifetime = _number(body, "expires_in")
        return Token.of(token, None if lifetime is None else started + lifetime)

    def _post(self, deadline: Deadline) -> HttpAnswer:
        server = HttpServer(self.url, self.tls, self.connect_timeout_ms, self.read_timeout_ms)
        connection = HttpConnection(server, max_bytes=_MAX_BYTES)
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        problem, retriable = "", True
        try:
            return connection.exchange("POST", "", self._headers(), deadline, urlencode(form))
        except HttpFailure as failure:
            retriable = failure.retriable
            problem = f"is not available: {failure}" if retriable else str(failure)
        finally:
            connection.close()
        # Outside of the handler: what is chained may quote the request.
        raise self._failed(problem, retriable=retriable)

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
        separator = ":" if what.startswith("its ") else ""
        place = HttpServer(self.url).place
        return AuthenticationFailed(f"the token endpoint {place}{separator} {what}", retriable=retriable)


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
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
