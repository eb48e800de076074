"""The interface of SASL mechanisms: bytes out, bytes in, no socket.

token = mechanism.first()
while True:
    send token, receive challenge
    token = mechanism.respond(challenge)        None: nothing left to say
"""

from __future__ import annotations

from typing import Protocol

from kseg.client.security.secret import Secret


class Challenged(Exception):
    """The server's side of the exchange is not what it has to be. The text holds no secret."""


class Mechanism(Protocol):
    """One login, used once.

    answers_last: whether the server sends a last message when tokens are sent without SaslAuthenticate; after GSSAPI's
    last token it sends none.
    """

    name: str
    complete: bool
    answers_last: bool

    def first(self) -> bytes:
        """The initial token."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """The next token, None where there is none. Raises Challenged."""
        ...


class Plain:
    """PLAIN (RFC 4616): user and password as they are. Use it inside of TLS."""

    name = "PLAIN"
    answers_last = True

    def __init__(self, user: str, password: Secret) -> None:
        self.complete = False
        self._user = user
        self._password = password

    def first(self) -> bytes:
        return f"\0{self._user}\0{self._password.reveal()}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise Challenged("the broker sends a challenge after PLAIN has ended")
        self.complete = True
        return None
