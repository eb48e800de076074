"""OAUTHBEARER (RFC 7628, KIP-255), without a socket.

client   n,,^Aauth=Bearer <token>^A<extension>=<value>^A…^A
server   nothing: logged in          or JSON {"status": …}: rejected, to which the client has to send ^A
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from kseg.client.security.mechanism import Challenged
from kseg.client.security.secret import Secret

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


def extension_fault(name: str, value: str) -> str | None:
    """Why this SASL extension cannot be sent (KIP-342), None if it can."""
    if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
        return "the name of an extension has only letters, and is not auth"
    return None if _EXTENSION_VALUE.fullmatch(value) else "the value of an extension is printable ASCII and not empty"


class OAuthBearer:
    """One login with one token. `kept`: an earlier login had the token, too."""

    name = "OAUTHBEARER"
    answers_last = True

    def __init__(self, token: Secret, extensions: Mapping[str, str], *, kept: bool = False) -> None:
        self.complete = False
        self.token = token
        self.kept = kept
        self._extensions = dict(extensions)
        self._refused: str | None = None

    def first(self) -> bytes:
        """Raises Challenged for a token or an extension that cannot be sent."""
        if not _TOKEN.fullmatch(self.token.reveal()):
            raise Challenged("the token has characters that are not allowed in tokens")
        for name, value in self._extensions.items():
            if fault := extension_fault(name, value):
                raise Challenged(fault)
        pairs = {"auth": f"Bearer {self.token.reveal()}"} | self._extensions
        return ("n,,\x01" + "".join(f"{name}={value}\x01" for name, value in pairs.items()) + "\x01").encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if self._refused is not None:
            raise Challenged(self._refused)
        if not challenge:
            self.complete = True
            return None
        self._refused = f"the broker rejects the token: {_reason(challenge)}"
        return b"\x01"

    @property
    def refusal(self) -> str | None:
        """The broker's reason, once it has rejected the token. Its final error message says less."""
        return self._refused


def _reason(challenge: bytes) -> str:
    try:
        status = json.loads(challenge)
        known = [f"{name} {str(status[name])[:200]!r}" for name in ("status", "scope") if status.get(name)]
    except (ValueError, AttributeError):
        known = []
    return ", ".join(known) or "no reason given"
