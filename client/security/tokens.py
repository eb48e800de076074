"""Sources of OAUTHBEARER's tokens, and how long a token is used.

    Callback            a Python function of the user's
    ClientCredentials   RFC 6749, 4.4: client id and secret to a token endpoint (KIP-768); in client.security.endpoint
    TokenFile           a file that something else keeps fresh (Kubernetes' projected tokens)
    Unsecured           a token without a signature, as Java makes by default; for trying things out

A token is kept in this process, so that a worker that opens many connections asks its login service once. When four
fifths of its life are over (`sasl.login.refresh.window.factor`) a new one is fetched. If that fails, the old one is
used until its end, as by Java. A token without a known end is fetched for each login.
"""

from __future__ import annotations

import base64
import importlib
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from kseg.client.errors import AuthenticationFailed
from kseg.client.retry import Deadline
from kseg.client.security.secret import Secret

_MAX_BYTES: Final = 1 << 20
_LAST_INSTANT: Final = 253_402_300_799  # the end of the year 9999
REFRESH_WINDOW: Final = 0.8
#: Seconds for which a token whose replacement could not be fetched is used before the source is asked again.
_REFRESH_PAUSE: Final = 30.0

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Token:
    """A token. `expires_at`: seconds since 1970, None if not known. `extensions`: SASL extensions to go with it."""

    value: Secret
    expires_at: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, expires_at: float | None = None, extensions: Mapping[str, str] | None = None) -> Token:
        """A token from its text. Without a given expiry, that of the JWT is used."""
        return cls(Secret(text), _end_of_jwt(text) if expires_at is None else expires_at, dict(extensions or {}))


class TokenSource(Protocol):
    """Hashable: tokens are kept by it."""

    def fetch(self, deadline: Deadline) -> Token:
        """A new token. Raises AuthenticationFailed, retriable where asking again may help."""
        ...


TokenFunction = Callable[[], "Token | str"]


@dataclass(frozen=True, slots=True)
class Callback:
    """`module:function`, imported where the connection is made, or a function that can be pickled.

    It takes nothing and gives a `Token`, or a text; it is called by whatever thread connects. It may raise
    AuthenticationFailed, retriable where asking again may help; of any other error only the class is shown.
    """

    function: str | TokenFunction

    def fetch(self, deadline: Deadline) -> Token:
        name = self.function if isinstance(self.function, str) else getattr(self.function, "__qualname__", "callback")
        function = _imported(self.function) if isinstance(self.function, str) else self.function
        problem = None
        try:
            token = function()
        except AuthenticationFailed:  # it says itself what is wrong, and whether to ask again
            raise
        except Exception as error:
            # Its text may hold anything, so the message has the name alone, and the error is not chained.
            problem = f"the token callback {name} raised {type(error).__name__}"
        if problem is not None:
            raise AuthenticationFailed(problem)
        if isinstance(token, str):
            return Token.of(token)
        if not isinstance(token, Token):
            raise AuthenticationFailed(
                f"the token callback {name} returned {type(token).__name__}, not a Token or text"
            )
        return token


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file with one token, read for each login. Raises AuthenticationFailed if it cannot be read."""

    path: str

    def fetch(self, deadline: Deadline) -> Token:
        try:
            with Path(self.path).open("rb") as file:
                text = file.read(_MAX_BYTES).decode("ascii", errors="replace").strip()
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise AuthenticationFailed(f"cannot read the token from {self.path}: {why}") from None
        token = Token.of(text)
        return Token(token.value)  # read again each time: the file may have changed


@dataclass(frozen=True, slots=True)
class Unsecured:
    """An unsigned token (RFC 7515's alg none) with the given claims. For test brokers."""

    claims: tuple[tuple[str, str | float | tuple[str, ...]], ...]
    lifetime: int = 3600

    def fetch(self, deadline: Deadline) -> Token:
        now = time.time()
        claims: dict[str, Any] = {"iat": now, "exp": now + self.lifetime} | dict(self.claims)
        parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
        text = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."
        return Token.of(text, now + self.lifetime)


class LoginToken(NamedTuple):
    """A token for one login. `kept`: it is of an earlier login, so a new one may be accepted if it is rejected."""

    token: Token
    kept: bool


@dataclass(slots=True)
class _Kept:
    token: Token
    until: float


_kept: dict[TokenSource, _Kept] = {}
_lock = threading.Lock()


def token_of(source: TokenSource, deadline: Deadline, *, window: float = REFRESH_WINDOW) -> LoginToken:
    """The token kept of this source, a new one where that is old. Raises AuthenticationFailed."""
    with _lock:
        kept = _kept.get(source)
        if kept is not None and time.time() < kept.until:
            return LoginToken(kept.token, kept=True)
    started = time.time()
    try:
        token = source.fetch(deadline)
    except AuthenticationFailed as error:
        old = _old_token(source)
        if old is None:
            raise
        _LOG.warning("no new token, the one before is used until its end: %s", error)
        return LoginToken(old, kept=True)
    with _lock:
        if token.expires_at is None:
            _kept.pop(source, None)
        else:
            _kept[source] = _Kept(token, started + (token.expires_at - started) * window)
    return LoginToken(token, kept=False)


def forget(source: TokenSource, token: Secret) -> None:
    """Drop a token that a server has rejected: the next login fetches another, unless another thread already has."""
    with _lock:
        kept = _kept.get(source)
        if kept is not None and kept.token.value == token:
            del _kept[source]


def _old_token(source: TokenSource) -> Token | None:
    """The token whose replacement could not be fetched, if it is valid still. It is then kept for a while longer."""
    with _lock:
        kept, now = _kept.get(source), time.time()
        if kept is None or kept.token.expires_at is None or now >= kept.token.expires_at:
            return None
        kept.until = min(now + _REFRESH_PAUSE, kept.token.expires_at)
        return kept.token


def _imported(name: str) -> TokenFunction:
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise AuthenticationFailed(
            f"cannot import the token callback {name} ({type(error).__name__}): it has to be on the path of driver and "
            "workers"
        ) from None
    if not callable(found):
        raise AuthenticationFailed(f"the token callback {name} is not a function")
    return found  # type: ignore[no-any-return]


def _end_of_jwt(text: str) -> float | None:
    """The expiry time of a JWT (claim exp), None if it is no JWT or has no end."""
    match = re.fullmatch(r"[\w-]+\.([\w-]+)\.[\w-]*", text)
    if match is None:
        return None
    try:
        end = json.loads(base64.urlsafe_b64decode(match[1] + "=" * (-len(match[1]) % 4))).get("exp")
    except (ValueError, AttributeError, RecursionError):
        return None
    if not isinstance(end, int | float) or isinstance(end, bool):
        return None
    if not 0 <= end <= _LAST_INSTANT:
        raise AuthenticationFailed("the token's claim exp is no time in seconds since 1970: is it in milliseconds?")
    return float(end)
