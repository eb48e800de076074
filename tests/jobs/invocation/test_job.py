"""A command that has loaded its job shows no secret of it, and hides no ordinary word."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kseg.jobs.broker.errors import JavaMissing
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


@pytest.mark.parametrize("engine", ["spark", "auto", "local"])
@pytest.mark.parametrize("java", [True, False])
def test_java_is_chosen_wherever_spark_may_start_and_required_where_it_does(
    engine: str, java: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kseg verify --spark` needs it with every engine."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr("kseg.jobs.broker.java._candidates", lambda environ: [("test", tmp_path)] * java)
    monkeypatch.setattr("kseg.jobs.broker.java.java_version", lambda home: 17)
    monkeypatch.setattr("kseg.jobs.broker.java._with_vector_module", lambda home: home)
    text = JOB.partition("  client.id")[0] + "source: {topics: [orders]}\nsink: {path: ./lake}\nledger: ./ledger\n"
    (tmp_path / "orders.yaml").write_text(text + f"run: {{engine: {engine}}}\n")
    try:
        load_job(Invocation(command="verify"), str(tmp_path / "orders.yaml"), starts_spark=True)
    except JavaMissing:
        assert (engine, java) == ("spark", False)
        return
    assert (engine, java) != ("spark", False)
    assert os.environ["JAVA_HOME"] == (str(tmp_path) if java else "/nowhere")
