"""Secrets that executors look up themselves: what travels has none, and what is missing is told with its host."""

from __future__ import annotations

import pickle
import socket
from pathlib import Path

import pytest

from kseg.client import ClientConfig
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.deferred_secrets import DeferredSecrets, opened
from kseg.etl.source.job_origin import deferred_origin_of, origin_of
from kseg.etl.source.origin import LogFiles

JOB = """
version: 1
name: orders
kafka:
  bootstrap.servers: localhost:9092
  security.protocol: SASL_PLAINTEXT
  sasl.mechanism: SCRAM-SHA-256
  sasl.username: bob
  sasl.password: ${{file:password}}
source: {{topics: [orders]}}
sink: {{path: ./lake/orders}}
ledger: ./lake/_ledger
spark: {{executor_secrets: {how}}}
"""


def job(folder: Path, how: str) -> Path:
    (folder / "password").write_text("hunter2\n")
    (folder / "orders.yaml").write_text(JOB.format(how=how))
    return folder / "orders.yaml"


@pytest.mark.parametrize(("how", "travels"), [("carried", True), ("resolved", False)])
def test_what_tasks_are_handed_holds_the_secret_only_if_it_is_carried(tmp_path: Path, how: str, travels: bool) -> None:
    loaded = load_job(job(tmp_path, how))
    handed = deferred_origin_of(loaded) or origin_of(loaded)
    assert (b"hunter2" in pickle.dumps(handed)) == travels
    again = opened(pickle.loads(pickle.dumps(handed)))
    assert again == loaded.client_config()
    assert isinstance(again, ClientConfig)
    assert "hunter2" not in repr(handed)


def test_a_store_s_secrets_are_looked_up_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_SECRET", "hunter2")
    text = JOB.format(how="resolved").replace(
        "source: {topics: [orders]}",
        "source: {topics: [orders], segments: {paths: ['s3://logs/data'], options: {secret_key: '${STORE_SECRET}'}}}",
    )
    (tmp_path / "password").write_text("of-the-group")
    (tmp_path / "orders.yaml").write_text(text)
    loaded = load_job(tmp_path / "orders.yaml")
    assert b"hunter2" not in pickle.dumps(deferred_origin_of(loaded))
    found = opened(deferred_origin_of(loaded) or origin_of(loaded))
    assert isinstance(found, LogFiles)
    assert found == origin_of(loaded)
    assert dict(found.options) == {"secret_key": "hunter2"}


def test_everything_that_is_missing_on_an_executor_is_told_with_its_host(tmp_path: Path) -> None:
    missing = (("sasl.password", "${NOT_THERE}"), ("ssl.key.password", f"${{file:{tmp_path}/none}}"))
    handed = DeferredSecrets(missing, "me")
    with pytest.raises(ConfigurationError) as refused:
        opened(handed)
    told = [(fault.path, fault.message) for fault in refused.value.faults]
    where = f"on executor {socket.gethostname()}"
    assert told == [
        ("kafka.sasl.password", f"{where}: environment variable NOT_THERE is not set"),
        ("kafka.ssl.key.password", f"{where}: cannot read {tmp_path}/none: No such file or directory"),
    ]


def test_what_the_client_refuses_is_told_as_found_on_the_executor() -> None:
    handed = DeferredSecrets((("bootstrap.servers", "localhost:9092"), ("fetch.max.bytes", "many")), "me")
    with pytest.raises(ConfigurationError, match=r"kafka\.fetch\.max\.bytes.*on executor"):
        opened(handed)
