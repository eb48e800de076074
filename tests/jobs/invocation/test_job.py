"""A command that has loaded its job shows no secret of it, and hides no ordinary word."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.output.redaction import REDACTOR

JOB = """\
version: 1
name: orders
kafka:
  bootstrap.servers: localhost:9092
  client.id: ${CLIENT_ID}
  security.protocol: SASL_PLAINTEXT
  sasl.mechanism: PLAIN
  sasl.jaas.config: org.apache.kafka.common.security.plain.PlainLoginModule required username="${U}" password="${P}";
source: {topics: [orders], segments: {paths: ["az://logs/kafka"], options: {account_key: "${STORE}"}}}
sink: {path: ./lake/orders}
ledger: ./lake/_kseg_ledger
"""


def test_secrets_are_masked_and_other_references_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REDACTOR, "secrets", set())
    for name, value in {"CLIENT_ID": "orders", "U": "etl-user", "P": "hunter2!", "STORE": "c3RvcmU="}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "orders.yaml").write_text(JOB)
    load_job(Invocation(command="status"), str(tmp_path / "orders.yaml"))
    said = "kseg repair orders.yaml for etl-user: wrong password hunter2!, key c3RvcmU="
    assert REDACTOR.clean(said) == "kseg repair orders.yaml for etl-user: wrong password ***, key ***"
