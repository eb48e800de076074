"""A connection of type `kafka`, librdkafka's names, as Java's client properties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kseg_airflow.kafka_connection import KafkaConnectionError, java_properties, properties_of_connection


def test_names_of_librdkafka_become_javas(tmp_path: Path) -> None:
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    certificate.write_text("CERT")
    key.write_text("KEY")
    assert java_properties(
        {
            "metadata.broker.list": "a:9092",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "scram-sha-512",
            "sasl.username": "etl",
            "sasl.password": "hunter2",
            "ssl.ca.location": "/etc/ca.pem",
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
            "socket.timeout.ms": 1000,
            "enable.ssl.certificate.verification": True,
            "group.id": "somebody",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    ) == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "etl",
        "sasl.password": "hunter2",
        "ssl.truststore.location": "/etc/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.certificate.chain": "CERT",
        "ssl.keystore.key": "KEY",
        "ssl.keystore.type": "PEM",
        "request.timeout.ms": "1000",
    }


def test_what_has_no_counterpart_is_refused_all_at_once_and_without_a_value() -> None:
    with pytest.raises(KafkaConnectionError) as caught:
        java_properties(
            {
                "bootstrap.servers": "a:9092",
                "enable.ssl.certificate.verification": "false",
                "sasl.oauthbearer.config": "secret=hunter2",
                "sasl.passwort": "hunter2",
                "ssl.key.location": "/nowhere/key.pem",
            },
            "kafka_prod",
        )
    told = str(caught.value)
    assert told.startswith("kafka_prod cannot be used")
    for key in ("enable.ssl.certificate.verification", "sasl.oauthbearer.config", "sasl.passwort", "ssl.key.location"):
        assert f"  {key}: " in told
    assert "hunter2" not in told


def test_a_connection_is_read_from_airflow_and_must_be_of_kafkas_type(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": "a:9092"}
    monkeypatch.setenv("AIRFLOW_CONN_KSEG_K", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_KSEG_H", json.dumps({"conn_type": "http", "host": "a"}))
    assert properties_of_connection("kseg_k") == extra
    with pytest.raises(KafkaConnectionError, match="of type http"):
        properties_of_connection("kseg_h")
