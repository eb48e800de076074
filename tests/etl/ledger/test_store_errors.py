"""A store that says no: exit 2 where another configuration is wanted, exit 4 where it may pass. A real S3 server."""

from __future__ import annotations

import os
import pickle
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.errors import ConfigurationError, KsegError, RetriableFailure
from kseg.etl.ledger.store import Ledger
from kseg.etl.ledger.store_errors import store_error
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.jobs.broker.certificates import Authority, Issued

Ask = Callable[[str, dict[str, str]], Any]

HTTP = {"allow_http": "true"}
ONCE = {"max_retries": "0", "retry_timeout": "1s"}

WRONG: dict[str, tuple[str, dict[str, str], str]] = {
    "plain http that nobody allowed": ("s3://logs/t", {}, "AWS_ALLOW_HTTP=true"),
    "https where http is spoken": ("s3://logs/t", {"endpoint_url": "https"} | ONCE, "AWS_ALLOW_HTTP=true"),
    "a secret that does not fit": ("s3://logs/t", HTTP | {"aws_secret_access_key": "guessed wrong"}, "credentials"),
    "a key that nobody has": ("s3://logs/t", HTTP | {"aws_access_key_id": "nobody"}, "credentials"),
    "a bucket that is not there": ("s3://nowhere/t", HTTP, "bucket"),
    "an endpoint without a scheme": ("s3://logs/t", HTTP | {"endpoint_url": "minio:9000"}, "https://"),
    "an option that is none": ("s3://logs/t", {"allow_http": "perhaps"}, "options"),
}


@pytest.fixture(params=["ledger", "table"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Ask a store for what it may hold: a ledger (which is made where there is none), or a table."""
    if request.param == "ledger":
        return Ledger.open
    return lambda path, options: DeltaAccess(path, options).load()


@pytest.mark.parametrize("case", WRONG)
def test_what_only_another_configuration_can_help_is_told_so_with_the_remedy(s3: Any, ask: Ask, case: str) -> None:
    path, changed, remedy = WRONG[case]
    options = s3.options | changed
    if changed.get("endpoint_url") == "https":
        options["endpoint_url"] = s3.endpoint.replace("http:", "https:")
    with pytest.raises(ConfigurationError) as told:
        ask(path, options)
    [fault] = told.value.faults
    assert remedy in (fault.remedy or "")
    assert fault.path in ("ledger", "sink")
    assert told.value.exit_code == 2
    assert path in told.value.address.values()
    assert "\n" not in fault.message
    assert "\x1b" not in fault.message
    assert "guessed wrong" not in str(told.value)
    assert pickle.loads(pickle.dumps(told.value)).faults == told.value.faults


@pytest.mark.parametrize(
    ("name", "expired", "trusted", "said"),
    [
        ("localhost", False, False, "UnknownIssuer"),
        ("localhost", True, True, "certificate expired"),
        ("store.example.com", False, True, "not valid for name"),
    ],
)
def test_a_certificate_that_does_not_hold_is_told_with_the_remedy(
    tmp_path: Path, name: str, expired: bool, trusted: bool, said: str
) -> None:
    authority = Authority(tmp_path, "authority")
    with https(authority.issue("store", names=[name], expired=expired)) as endpoint:
        told = opened_elsewhere(endpoint, {"SSL_CERT_FILE": str(authority.pem)} if trusted else {})
    assert isinstance(told, ConfigurationError)
    [fault] = told.faults
    assert said in fault.message
    assert "SSL_CERT_FILE" in (fault.remedy or "")


def test_an_authority_that_the_remedy_names_is_trusted(tmp_path: Path) -> None:
    """The empty server then answers, with an error of another kind."""
    authority = Authority(tmp_path, "authority")
    with https(authority.issue("store", names=["localhost"])) as endpoint:
        told = opened_elsewhere(endpoint, {"SSL_CERT_FILE": str(authority.pem)})
    assert "501" in str(told)
    assert "certificate" not in str(told)


@contextmanager
def https(issued: Issued) -> Iterator[str]:
    """A server that has nothing, behind this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.pem)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"https://localhost:{server.server_address[1]}"
        server.shutdown()
        serving.join()


def opened_elsewhere(endpoint: str, environment: dict[str, str]) -> Any:
    """What a process of its own gets: delta-rs looks once a process at whom to trust."""
    code = """
import pickle, sys
from kseg.etl.tables.delta.table import DeltaAccess
try:
    DeltaAccess("s3://logs/t", {"endpoint_url": sys.argv[1], **dict(zip(sys.argv[2::2], sys.argv[3::2]))}).load()
except Exception as error:
    sys.stdout.buffer.write(pickle.dumps(error))
"""
    told = ONCE | {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_region": "us-east-1"}
    ended = subprocess.run(
        [sys.executable, "-c", code, endpoint, *(word for pair in told.items() for word in pair)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    return pickle.loads(ended.stdout)


def test_an_endpoint_of_the_environment_is_looked_at_for_stores_of_its_kind_alone(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "not a url")  # delta-rs panics
    with pytest.raises(ConfigurationError, match="AWS_ENDPOINT_URL=not a url is not a URL"):
        ask("s3://logs/t", {})
    ask(str(tmp_path / "t"), {})


@pytest.mark.parametrize("status", [500, 503])
def test_a_store_in_trouble_may_be_asked_again(s3: Any, ask: Ask, status: int) -> None:
    s3.trouble.extend([("", status)] * 8)
    with pytest.raises(RetriableFailure, match=str(status)) as told:
        ask("s3://logs/t", s3.options | HTTP | ONCE)
    assert told.value.exit_code == 4


def test_a_store_that_is_not_there_may_be_asked_again(s3: Any, ask: Ask) -> None:
    with socket.socket() as held:  # bound, so that nobody else gets the port, and not listening
        held.bind(("127.0.0.1", 0))
        there = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(RetriableFailure, match="Connection refused"):
            ask("s3://logs/t", s3.options | HTTP | ONCE | {"endpoint_url": there})


def test_a_ledger_whose_credentials_go_is_not_tried_until_the_deadline(s3: Any) -> None:
    ledger = Ledger.open("s3://logs/going", s3.options | HTTP)
    ledger.snapshot("orders")  # takes the table object that knows the right ones
    ledger.storage_options["aws_secret_access_key"] = "guessed wrong"
    s3.forget()
    with pytest.raises(ConfigurationError, match="could not write to the job orders"):
        ledger.transition("orders", lambda state: [])
    assert len(s3.asked) == 1


THROUGH = "Generic S3 error\n  \x1b[31m↳\x1b[0m Error performing GET {}\n   \x1b[31m↳\x1b[0m {}"
ANSWER = "Server returned non-2xx status code\n  \x1b[31m↳\x1b[0m {}"


@pytest.mark.parametrize(
    ("words", "kind", "remedy"),
    [
        (THROUGH.format("https://x/t in 1 ms", ANSWER.format("403 Forbidden")), ConfigurationError, "credentials"),
        (THROUGH.format("https://x/t", ANSWER.format("403 Forbidden: userRateLimitExceeded")), RetriableFailure, None),
        (
            THROUGH.format("http://169.254.169.254/latest/api/token", ANSWER.format("403 Forbidden")),
            RetriableFailure,
            "AWS_",
        ),
        (
            THROUGH.format("https://x/t", ANSWER.format("400 Bad Request: <Code>ExpiredToken</Code>")),
            RetriableFailure,
            None,
        ),
        (
            THROUGH.format("https://x/t", ANSWER.format("301 Moved: <Code>PermanentRedirect</Code>")),
            ConfigurationError,
            "AWS_REGION",
        ),
        (
            "Failed to parse parquet: External: Object at location lake/a.parquet not found: Error performing DELETE "
            "https://x/t?uploadId=1 - " + ANSWER.format("404 Not Found: <Code>NoSuchUpload</Code>"),
            RetriableFailure,
            "run it again",
        ),
        ("Generic MicrosoftAzure error: Account must be specified", ConfigurationError, "options"),
        ("Unknown scheme: foo. Known schemes: s3, gs", ConfigurationError, "URL"),
        (
            "Generic LocalFileSystem error: Unable to create dir /l/_kseg: Permission denied (os error 13)",
            ConfigurationError,
            "may read, list, write and delete",
        ),
        (
            'Could not create local directory: /l/t\nError: Os { code: 20, kind: NotADirectory, message: "Not a..." }',
            ConfigurationError,
            "may read, list, write and delete",
        ),
        ("[Errno 30] Failed to open local file '/l/t/a'. Detail: Read-only", ConfigurationError, "may read, list"),
        ("Unable to copy data to file: No space left on device (os error 28)", RetriableFailure, "free space"),
        ("Object at location /l/t/a not found: No such file or directory (os error 2)", RetriableFailure, None),
    ],
)
def test_stores_that_are_not_here_are_known_by_their_words(
    words: str, kind: type[KsegError], remedy: str | None
) -> None:
    told = store_error("cannot read it", OSError(words), setting="sink", table="s3://x/t")
    assert type(told) is kind
    given = told.faults[0].remedy if isinstance(told, ConfigurationError) else told.remedy
    assert remedy in given if remedy and given else given is remedy


def test_what_does_not_come_from_a_store_is_what_the_caller_says() -> None:
    told = store_error("cannot read it", ValueError("no such column"), setting="sink", otherwise=KsegError, table="t")
    assert type(told) is KsegError
    assert str(told) == "cannot read it: no such column (table=t)"


def test_a_job_ends_with_exit_2_and_the_remedy(s3: Any, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(
        "version: 1\nname: orders\nkafka: {bootstrap.servers: 'localhost:9'}\nsource: {topics: [orders]}\n"
        "sink: {path: s3://logs/orders}\nledger: s3://logs/_ledger\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "AWS_ALLOW_HTTP"}
    done = subprocess.run(
        [sys.executable, "-m", "kseg.jobs.cli", "status", str(file)],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "AWS_ALLOW_HTTP=true" in done.stderr
