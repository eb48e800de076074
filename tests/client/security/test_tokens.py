"""Where OAUTHBEARER's tokens come from: functions, files, a token endpoint; and how long one is kept."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kseg.client import AuthenticationFailed
from kseg.client.retry import Deadline
from kseg.client.security import Secret, Token
from kseg.client.security.endpoint import ClientCredentials
from kseg.client.security.mechanism import Challenged
from kseg.client.security.oauthbearer import OAuthBearer
from kseg.client.security.stores import Store
from kseg.client.security.tls import TlsConfig
from kseg.client.security.tokens import Callback, TokenFile, Unsecured, forget, token_of
from kseg.jobs.broker.certificates import Authority


def soon() -> Deadline:
    return Deadline.after(10)


def jwt(**claims: object) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({}, claims)]
    return ".".join([*parts, "c2ln"])


def credentials(endpoint: Any, **more: Any) -> ClientCredentials:
    defaults: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 1000}
    return ClientCredentials(endpoint.url, "me", Secret("hunter2"), **(defaults | more))


def failure(source: Any) -> AuthenticationFailed:
    with pytest.raises(AuthenticationFailed) as caught:
        source.fetch(soon())
    shown = f"{caught.value!r} {caught.value} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert "hunter2" not in shown
    return caught.value


class TestMechanism:
    def test_token_and_extensions_are_one_message(self):
        login = OAuthBearer(Secret("abc"), {"cluster": "x"})
        assert login.first() == b"n,,\x01auth=Bearer abc\x01cluster=x\x01\x01"
        assert login.respond(b"") is None
        assert login.complete

    def test_a_refusal_is_acknowledged_and_told(self):
        login = OAuthBearer(Secret("abc"), {})
        login.first()
        assert login.respond(b'{"status":"invalid_token","scope":"kafka","secret":"hunter2"}') == b"\x01"
        assert not login.complete
        with pytest.raises(Challenged, match="'invalid_token', scope 'kafka'"):
            login.respond(b"")

    @pytest.mark.parametrize("challenge", [b"garbage", b"[]", b"\xff"])
    def test_a_refusal_that_cannot_be_read_is_one(self, challenge: bytes):
        login = OAuthBearer(Secret("abc"), {})
        assert login.respond(challenge) == b"\x01"
        assert login.refusal is not None

    @pytest.mark.parametrize(
        ("token", "extensions"),
        [("a\x01auth=b", {}), ("", {}), ("a\nb", {}), ("a", {"auth": "b"}), ("a", {"x": "\x01"}), ("a", {"1": "b"})],
    )
    def test_what_would_break_the_message_is_not_sent(self, token: str, extensions: dict[str, str]):
        with pytest.raises(Challenged):
            OAuthBearer(Secret(token), extensions).first()


class TestCallback:
    @pytest.fixture(autouse=True)
    def _path(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(str(Path(__file__).parent))

    def test_a_function_is_named_and_imported_where_it_runs(self):
        assert Callback("token_callbacks:token").fetch(soon()) == Token.of("callback-token")
        assert Callback(lambda: "text").fetch(soon()).value == Secret("text")

    def test_its_failure_is_told_by_name_alone(self):
        error = failure(Callback("token_callbacks:failing"))
        assert "token_callbacks:failing raised RuntimeError" in str(error)

    @pytest.mark.parametrize("name", ["nowhere:token", "token_callbacks:nothing", "token_callbacks:not_a_function"])
    def test_a_function_that_is_none_is_refused(self, name: str):
        assert name in str(failure(Callback(name)))

    def test_something_else_than_a_token_is_refused(self):
        assert "returned int" in str(failure(Callback("token_callbacks:wrong")))


class TestFile:
    def test_it_is_read_for_each_login(self, tmp_path: Path):
        file = tmp_path / "token"
        file.write_text("one\n")
        source = TokenFile(str(file))
        assert token_of(source, soon()).token.value == Secret("one")
        file.write_text(jwt(exp=time.time() + 1000))
        assert token_of(source, soon()).token.value != Secret("one")
        file.unlink()
        assert str(file) in str(failure(source))


class TestKeeping:
    def test_a_token_is_kept_until_most_of_its_life_is_over(self, monkeypatch: pytest.MonkeyPatch):
        now = [1000.0]
        monkeypatch.setattr(
            "kseg.client.security.tokens.time", type("Clock", (), {"time": staticmethod(lambda: now[0])})
        )
        made: list[Token] = []

        def make() -> Token:
            made.append(Token.of(f"t{len(made)}", now[0] + 100))
            return made[-1]

        source = Callback(make)
        assert token_of(source, soon()) == (made[0], False)
        assert token_of(source, soon()) == (made[0], True)
        now[0] += 79
        assert token_of(source, soon()).token is made[0]
        now[0] += 2
        assert token_of(source, soon()) == (made[1], False)
        forget(source, made[0].value)  # another thread has fetched a new one since
        assert token_of(source, soon()) == (made[1], True)
        forget(source, made[1].value)
        assert token_of(source, soon()) == (made[2], False)

    def test_a_token_is_used_until_its_end_if_no_new_one_can_be_fetched(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        now = [1000.0]
        monkeypatch.setattr(
            "kseg.client.security.tokens.time", type("Clock", (), {"time": staticmethod(lambda: now[0])})
        )
        asked: list[float] = []

        def make() -> Token:
            asked.append(now[0])
            if now[0] > 1000.0:
                raise ConnectionError("hunter2")
            return Token.of("old", now[0] + 600)

        source = Callback(make)
        assert token_of(source, soon()).token.value == Secret("old")
        for now[0] in (1479.0, 1481.0, 1482.0, 1515.0, 1590.0, 1599.0):
            assert token_of(source, soon()) == (Token.of("old", 1600.0), True)
        assert asked == [1000.0, 1481.0, 1515.0, 1590.0], "the login service is not asked for each login"
        assert "the token callback" in caplog.text
        assert "hunter2" not in caplog.text
        now[0] = 1600.0
        with pytest.raises(AuthenticationFailed, match="raised ConnectionError"):
            token_of(source, soon())

    @pytest.mark.parametrize("end", ["1e400", "NaN", "-1", "9" * 400, "1e308", "1700000000000"])
    def test_an_end_that_is_no_time_is_a_typed_error(self, end: str):
        claims = base64.urlsafe_b64encode(b'{"exp": %s}' % end.encode()).decode().rstrip("=")
        with pytest.raises(AuthenticationFailed, match="exp is no time") as caught:
            Token.of(f"a.{claims}.c")
        assert claims not in str(caught.value)

    def test_a_jwt_tells_its_end_and_other_tokens_are_fetched_each_time(self):
        assert Token.of(jwt(exp=123)).expires_at == 123.0
        assert Token.of(jwt(exp="soon")).expires_at is None
        assert Token.of("opaque").expires_at is None
        calls: list[int] = []
        source = Callback(lambda: calls.append(1) or "opaque")  # type: ignore[func-returns-value]
        token_of(source, soon())
        token_of(source, soon())
        assert len(calls) == 2

    def test_an_unsecured_token_has_its_claims(self):
        token = Unsecured((("sub", "alice"),), 60).fetch(soon())
        head, body, signature = token.value.reveal().split(".")
        assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
        assert json.loads(base64.urlsafe_b64decode(body + "=="))["sub"] == "alice"
        assert signature == ""

    def test_no_repr_shows_a_token(self):
        assert "hunter2" not in f"{Token.of('hunter2')!r} {Token.of('hunter2')}"


class TestEndpoint:
    def test_it_is_asked_with_id_and_secret_and_gives_a_token(self, endpoint: Any):
        endpoint.answers = [lambda asked: (200, {"access_token": "abc", "expires_in": 100, "token_type": "bearer"})]
        started = time.time()
        token = credentials(endpoint, scope="kafka read").fetch(soon())
        assert token.value == Secret("abc")
        assert token.expires_at == pytest.approx(started + 100, abs=5)
        (asked,) = endpoint.asked
        assert asked.form == {"grant_type": "client_credentials", "scope": "kafka read"}
        assert base64.b64decode(asked.headers["Authorization"].removeprefix("Basic ")) == b"me:hunter2"

    def test_id_and_secret_may_be_encoded(self, endpoint: Any):
        endpoint.answers = [lambda asked: (200, {"access_token": "abc"})]
        source = ClientCredentials(endpoint.url, "a:b", Secret("c&d"), urlencode_header=True)
        source.fetch(soon())
        assert base64.b64decode(endpoint.asked[0].headers["Authorization"].removeprefix("Basic ")) == b"a%3Ab:c%26d"

    def test_failures_that_may_pass_are_tried_again(self, endpoint: Any):
        endpoint.answers = [
            lambda asked: None,
            lambda asked: (503, {}),
            lambda asked: (429, {}),
            lambda asked: (200, {"access_token": "abc"}),
        ]
        assert credentials(endpoint).fetch(soon()).value == Secret("abc")
        assert len(endpoint.asked) == 4

    def test_an_endpoint_that_stays_away_ends_with_a_retriable_error(self, endpoint: Any):
        endpoint.answers = [lambda asked: (500, b"hunter2")]
        started = time.monotonic()
        error = failure(credentials(endpoint, retry_backoff_max_ms=2000))
        assert error.retriable
        assert "500" in str(error)
        assert len(endpoint.asked) > 1
        assert time.monotonic() - started < 20

    @pytest.mark.parametrize(
        ("status", "document", "told"),
        [
            (401, {"error": "invalid_client", "error_description": "hunter2 is wrong"}, r"401 \(invalid_client\)"),
            (400, {"error": "hunter2 <html>"}, "responds with 400;"),
            (302, {}, "responds with 302"),
            (200, {}, "has no access_token"),
            (200, b"hunter2", "has no access_token"),
        ],
    )
    def test_a_refusal_is_told_at_once(self, endpoint: Any, status: int, document: Any, told: str):
        endpoint.answers = [lambda asked: (status, document)]
        with pytest.raises(AuthenticationFailed, match=told) as caught:
            credentials(endpoint).fetch(soon())
        assert not caught.value.retriable
        assert "hunter2" not in str(caught.value)
        assert len(endpoint.asked) == 1, "neither asked again nor followed elsewhere"

    def test_silence_ends_with_the_read_timeout(self, endpoint: Any):
        release = threading.Event()
        endpoint.answers = [lambda asked: release.wait(60) and None]
        started = time.monotonic()
        error = failure(credentials(endpoint, read_timeout_ms=200, retry_backoff_max_ms=100))
        release.set()
        assert "timed out" in str(error)
        assert error.retriable
        assert time.monotonic() - started < 20

    def test_an_answer_without_end_is_cut_off(self, endpoint: Any):
        endpoint.answers = [lambda asked: (200, bytes(3 << 20))]
        assert "larger than 1048576 bytes" in str(failure(credentials(endpoint, retry_backoff_max_ms=50)))

    def test_nobody_there(self):
        source = ClientCredentials("http://127.0.0.1:1/token", "me", Secret("hunter2"), retry_backoff_max_ms=100)
        assert "Connection refused" in str(failure(source))

    def test_over_https_the_endpoint_is_verified(self, tmp_path: Path):
        authority = Authority(tmp_path, "authority")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.issue("login", names=["localhost"]).pem)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"access_token": "abc"}')

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(HTTPServer):
            def handle_error(self, *_: object) -> None:
                pass

            def get_request(self) -> Any:
                stream, address = super().get_request()
                return context.wrap_socket(stream, server_side=True), address

        server = Quiet(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            url = f"https://localhost:{server.server_address[1]}/token"
            trust = TlsConfig(truststore=Store("truststore", location=str(authority.pem)))
            source = ClientCredentials(url, "me", Secret("hunter2"), tls=trust)
            assert source.fetch(soon()).value == Secret("abc")
            untrusted = ClientCredentials(url, "me", Secret("hunter2"), retry_backoff_max_ms=50)
            error = failure(untrusted)
            assert "not trusted" in str(error)
            assert not error.retriable
        finally:
            server.shutdown()
            server.server_close()
            thread.join(5)
