"""SCRAM by the RFC's own example, against servers that are not what they should be."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.security.mechanism import Challenged
from kseg.client.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, Scram
from kseg.client.security.secret import Secret

# RFC 7677, section 3
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(mechanism: str = "SCRAM-SHA-256", *, nonce: str | None = NONCE, **options: bool) -> Scram:
    return Scram(mechanism, "user", Secret("pencil"), nonce=nonce, **options)


@pytest.mark.rule(79)
def test_the_rfcs_exchange():
    login = scram()
    assert login.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert login.respond(SERVER_FIRST) == CLIENT_FINAL
    assert not login.complete
    assert login.respond(SERVER_FINAL) is None
    assert login.complete


def test_sha_512_is_the_same_with_another_hash():
    login = scram("SCRAM-SHA-512")
    final = login.respond(f"r={NONCE}x,s={base64.b64encode(b'salt').decode()},i=5000".encode())
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", b"salt", 5000)
    message = f"n=user,r={NONCE},r={NONCE}x,s=c2FsdA==,i=5000,c=biws,r={NONCE}x".encode()
    key = hmac.digest(salted, b"Client Key", "sha512")
    signature = hmac.digest(hashlib.sha512(key).digest(), message, "sha512")
    assert final is not None
    proof = base64.b64decode(final.rpartition(b",p=")[2])
    assert bytes(a ^ b for a, b in zip(proof, signature, strict=True)) == key


@pytest.mark.rule(84)
def test_a_delegation_token_says_so_and_names_are_escaped():
    assert Scram("SCRAM-SHA-256", "a=b,c", Secret("x"), token=True, nonce="n").first() == (
        b"n,,n=a=3Db=2Cc,r=n,tokenauth=true"
    )


def test_each_login_has_a_nonce_of_its_own():
    assert scram(nonce=None).first() != scram(nonce=None).first()


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"r=another,s=c2FsdA==,i=4096", "nonce does not begin"),
        (f"r={NONCE},s=c2FsdA==,i=4096".encode(), "nonce does not begin"),
        (f"r={NONCE}x,s=c2FsdA==,i={MIN_ITERATIONS - 1}".encode(), "iterations are outside"),
        (f"r={NONCE}x,s=c2FsdA==,i={MAX_ITERATIONS + 1}".encode(), "iterations are outside"),
        (f"r={NONCE}x,s=c2FsdA==,i=99999999999".encode(), "iterations is not a number"),
        (f"r={NONCE}x,s=c2FsdA==,i=-1".encode(), "iterations is not a number"),
        (f"r={NONCE}x,s=***,i=4096".encode(), "base64"),
        (f"m=x,r={NONCE}x,s=c2FsdA==,i=4096".encode(), "requires an extension"),
        (f"s=c2FsdA==,r={NONCE}x,i=4096".encode(), "not SCRAM's"),
        (b"e=unknown-user", "unknown-user"),
        (b"\xff\xfe", "not text"),
        (b"", "not SCRAM's"),
    ],
)
def test_a_servers_first_message_is_not_believed_blindly(message: bytes, told: str):
    login = scram()
    login.first()
    with pytest.raises(Challenged, match=told):
        login.respond(message)
    assert not login.complete


@pytest.mark.parametrize("message", [b"v=" + base64.b64encode(bytes(32)), b"v=", b"", b"x=1", b"e=other-error"])
def test_a_server_that_does_not_know_the_password_is_refused(message: bytes):
    login = scram()
    login.first()
    login.respond(SERVER_FIRST)
    with pytest.raises(Challenged):
        login.respond(message)
    assert not login.complete


@given(st.binary(), st.booleans())
def test_any_bytes_are_refused_or_answered(message: bytes, late: bool):
    login = scram()
    login.first()
    if late:
        login.respond(SERVER_FIRST)
    with contextlib.suppress(Challenged):
        login.respond(message)
    assert not login.complete
