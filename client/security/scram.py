"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677, KIP-84), without a socket.

    client   n,,n=<user>,r=<nonce>[,tokenauth=true]
    server   r=<nonce + its own>,s=<salt>,i=<iterations>
    client   c=biws,r=<both nonces>,p=<proof>
    server   v=<signature>        or e=<what is wrong>

The server's signature proves that it knows the password as well: without the comparison any server could send v=.
User names and passwords are taken as UTF-8, as Kafka's broker does, not prepared by SASLprep.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Final

from kseg.client.security.mechanism import Challenged
from kseg.client.security.secret import Secret

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: RFC 7677 asks for so many; with fewer, guessing the password from a recorded exchange is cheap.
MIN_ITERATIONS: Final = 4096
#: A server that asks for more would keep us computing: a million are about a second. Kafka allows 16,384.
MAX_ITERATIONS: Final = 1_000_000

_NO_BINDING: Final = "n,,"


class Scram:
    """One login. `token`: user and password are a delegation token's id and HMAC (KIP-48)."""

    answers_last = True

    def __init__(
        self, mechanism: str, user: str, password: Secret, *, token: bool = False, nonce: str | None = None
    ) -> None:
        self.name = mechanism
        self.complete = False
        self._hash = HASHES[mechanism]
        self._password = password
        # Printable and without a comma, as RFC 5802 asks.
        self._nonce = nonce or secrets.token_urlsafe(24)
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={self._nonce}" + (",tokenauth=true" if token else "")
        self._signature: bytes | None = None

    def first(self) -> bytes:
        return (_NO_BINDING + self._first_bare).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to the server's message; None once nothing is left to say. Raises Challenged."""
        if self._signature is None:
            return self._final(_attributes(challenge, "r", "s", "i"), challenge)
        found = _attributes(challenge, None)
        if "e" in found:
            raise Challenged(f"authentication failed: {found['e'][:200]!r}")
        if not hmac.compare_digest(_decoded(found.get("v", "")), self._signature):
            raise Challenged("the broker's signature is wrong: it does not know the password, and is not to be trusted")
        self.complete = True
        return None

    def _final(self, found: dict[str, str], challenge: bytes) -> bytes:
        nonce, iterations = found["r"], found["i"]
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise Challenged("the broker's nonce does not begin with ours")
        if not iterations.isascii() or not iterations.isdigit() or len(iterations) > 10:
            raise Challenged("the broker's number of iterations is not a number")
        rounds = int(iterations)
        if not MIN_ITERATIONS <= rounds <= MAX_ITERATIONS:
            raise Challenged(f"{rounds} iterations are outside {MIN_ITERATIONS}..{MAX_ITERATIONS}")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.reveal().encode(), _decoded(found["s"]), rounds)
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        without_proof = f"c={base64.b64encode(_NO_BINDING.encode()).decode()},r={nonce}"
        message = b",".join([self._first_bare.encode(), challenge, without_proof.encode()])
        proof = bytes(a ^ b for a, b in zip(client_key, self._hmac(stored_key, message), strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _attributes(message: bytes, *wanted: str | None) -> dict[str, str]:
    """`a=…,b=…` as a mapping. `wanted`: which come first, in their order; extensions after them mean nothing to us."""
    try:
        parts = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError:
        raise Challenged("the broker's message is not text") from None
    found: dict[str, str] = {}
    for name, equals, value in parts:
        if len(name) != 1 or not equals or name in found:
            raise Challenged("the broker's message is not SCRAM's")
        found[name] = value
    if "m" in found:
        raise Challenged("the broker requires an extension that is not supported")
    names = [name for name in wanted if name is not None]
    if list(found)[: len(names)] != names and "e" not in found:
        raise Challenged("the broker's message is not SCRAM's")
    if names and "e" in found:
        raise Challenged(f"authentication failed: {found['e'][:200]!r}")
    return found


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Challenged("the broker's message has invalid base64") from None
