"""Which values of references are hidden: those that may be secrets, and no ordinary words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.secret_values import may_hold_secret, secret_values
from kseg.etl.config.secrets import sounds_secret

ENV = {
    "P": "hunter2!",
    "U": "orders",
    "DB_PASSWORD": "hunter3!",
    "URL": "https://me:hunter4@sr:8081",
    "HOST": "sr:8081",
}


def hidden(key: str, text: str, value: str) -> set[str]:
    return set(secret_values({key: text}, {key: value}, ENV))


@pytest.mark.parametrize(
    ("key", "text", "value", "values"),
    [
        ("client.id", "${U}", "orders", set()),
        ("client.id", "x-${U}-${HOST}", "x-orders-sr:8081", set()),
        ("sasl.username", "${U}", "orders", set()),
        ("bootstrap.servers", "${HOST}", "sr:8081", set()),
        ("url", "http://${HOST}", "http://sr:8081", set()),
        ("sasl.password", "no reference", "no reference", set()),
        ("sasl.password", "${P}", "hunter2!", {"hunter2!"}),
        ("account_key", "${P}", "hunter2!", {"hunter2!"}),
        ("azure_storage_access_key", "${P}", "hunter2!", {"hunter2!"}),
        ("fs.s3a.access.key", "${U}", "orders", {"orders"}),
        ("client.id", "x-${DB_PASSWORD}", "x-hunter3!", {"x-hunter3!", "hunter3!"}),
        ("url", "${URL}", ENV["URL"], {ENV["URL"]}),
    ],
)
def test_the_names_of_property_and_variable_decide(key: str, text: str, value: str, values: set[str]) -> None:
    assert hidden(key, text, value) == values


def test_a_file_is_a_secret(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("hunter5!\n")
    assert hidden("client.id", f"${{file:{tmp_path}/id}}", "hunter5!") == {"hunter5!"}


@pytest.mark.parametrize("quote", ['"', "'", ""])
def test_the_password_within_a_login_is_hidden_and_its_user_name_is_not(quote: str) -> None:
    login = "org.apache.kafka.PlainLoginModule required username={0}{1}{0} password={0}{2}{0};"
    text, value = login.format(quote, "${U}", "${P}"), login.format(quote, "orders", "hunter2!")
    assert hidden("sasl.jaas.config", text, value) == {value, "hunter2!"}
    by_file = hidden("sasl.jaas.config", "${file:/no/such/file}", value)
    assert by_file == {value, "hunter2!"}


def test_store_keys_of_log_files_are_hidden(load: Callable[..., Job]) -> None:
    options = {"account_name": "${U}", "account_key": "${P}"}
    segments = {"paths": ["az://logs/kafka"], "options": options}
    job = load({"source/segments": segments, "spark/conf": {"spark.x.password": "${DB_PASSWORD}"}}, ENV)
    assert {"hunter2!", "hunter3!"} <= set(job.secret_values())
    assert "orders" not in set(job.secret_values())


NAMES = ["KAFKA_PASS", "DBPASS", "PW", "STORE_KEY", "SAS_TOKEN", "apiKey", "AUTH", "GOOGLE_CREDENTIALS", "AZURE_SAS"]


@pytest.mark.parametrize("name", NAMES)
def test_more_names_are_hidden_than_are_rejected_in_plain_text(name: str) -> None:
    assert may_hold_secret(name)


@pytest.mark.parametrize(
    "name", ["CLIENT_ID", "HOSTNAME", "LAKE", "USER", "KEY_FILE", "TOPIC", "monkey", "client.rack"]
)
def test_ordinary_names(name: str) -> None:
    assert not may_hold_secret(name)
    assert not sounds_secret(name)


@pytest.mark.parametrize(("written", "tokens"), [("a%2Bb-long", {"a%2Bb-long", "a+b-long"}), ("plain", {"plain"})])
def test_the_token_of_a_connect_server_is_hidden_as_written_and_as_sent(
    load: Callable[..., Job], written: str, tokens: set[str]
) -> None:
    job = load().on_remote(f"sc://host:443/;use_ssl=true;token={written};user_id=me")
    assert set(job.secret_values()) == tokens
