"""A connection of type `kafka`, librdkafka's names, as Java's client properties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kseg_airflow.connections import KafkaConnectionError, java_properties, properties_of_connection


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


@pytest.mark.parametrize(
    "name",
    [
        "oauth_cb", "oauthbearer_token_refresh_cb", "ssl.certificate.verify_cb", "connect_cb", "resolve_cb",
        "socket_cb", "some_new_cb", "plugin.library.paths",
    ],
)  # fmt: skip
def test_what_would_change_how_brokers_are_reached_is_never_left_out(name: str) -> None:
    with pytest.raises(KafkaConnectionError, match=name):
        java_properties({"bootstrap.servers": "a:9092", name: "my_module.hunter2"})


def test_a_callback_for_tokens_is_refused_with_the_property_for_them() -> None:
    """As in connections to Amazon MSK for the Apache provider, which imports the function by this name."""
    extra = {
        "bootstrap.servers": "b-1.lake.kafka.eu-west-1.amazonaws.com:9098",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": "my_module.msk_token",
    }
    with pytest.raises(KafkaConnectionError, match=r"sasl\.oauthbearer\.token\.callback.*kseg\.client\.security\.msk"):
        java_properties(extra)
    del extra["oauth_cb"]
    extra["sasl.oauthbearer.token.callback"] = "kseg.client.security.msk:token"
    assert java_properties(extra) == extra


@pytest.mark.parametrize(
    "name", ["error_cb", "stats_cb", "throttle_cb", "log_cb", "rebalance_cb", "offset_commit_cb", "on_delivery"]
)
def test_callbacks_that_only_watch_are_left_out(name: str) -> None:
    assert java_properties({"bootstrap.servers": "a:9092", name: "m.f"}) == {"bootstrap.servers": "a:9092"}


def test_a_connection_is_read_from_airflow_and_must_be_of_kafkas_type(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": "a:9092"}
    monkeypatch.setenv("AIRFLOW_CONN_KSEG_K", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_KSEG_H", json.dumps({"conn_type": "http", "host": "a"}))
    assert properties_of_connection("kseg_k") == extra
    with pytest.raises(KafkaConnectionError, match="of type http"):
        properties_of_connection("kseg_h")
