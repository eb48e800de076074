"""Java property names to a frozen config."""

from __future__ import annotations

import pickle

import pytest

from kseg.client import ClientConfig, ConfigError


def test_java_names_become_a_config():
    config = ClientConfig.from_properties(
        {
            "bootstrap.servers": "a:9092, b:9093",
            "request.timeout.ms": "5000",
            "default.api.timeout.ms": "9000",
            "receive.buffer.bytes": "-1",
            "security.protocol": "PLAINTEXT",
        },
        client_id="kseg-orders",
    )
    assert config.bootstrap_servers == (("a", 9092), ("b", 9093))
    assert config.client_id == "kseg-orders"
    assert (config.request_timeout_ms, config.default_api_timeout_ms) == (5000, 9000)


@pytest.mark.rule(17)
def test_an_explicit_client_id_wins():
    config = ClientConfig.from_properties({"bootstrap.servers": "a:1", "client.id": "mine"}, client_id="kseg-orders")
    assert config.client_id == "mine"


@pytest.mark.rule(24)
def test_servers_may_be_ipv6_literals_carry_a_protocol_and_repeat():
    config = ClientConfig.from_properties({"bootstrap.servers": "[::1]:9092,PLAINTEXT://h:1,h:1,"}, client_id="c")
    assert config.bootstrap_servers == (("::1", 9092), ("h", 1))


def test_all_faults_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        ClientConfig.from_properties(
            {
                "request.timeout.ms": "soon",
                "retry.backoff.ms": "-1",
                "fetch.mox.bytes": "1",
                "max.poll.records": "5",
            },
            client_id="c",
        )
    faults = {fault.key: fault for fault in caught.value.faults}
    assert set(faults) == {
        "bootstrap.servers",
        "request.timeout.ms",
        "retry.backoff.ms",
        "fetch.mox.bytes",
        "max.poll.records",
    }
    assert all(fault.remedy for fault in faults.values())
    assert "'soon'" in faults["request.timeout.ms"].message
    assert faults["max.poll.records"].message != faults["fetch.mox.bytes"].message
    assert not caught.value.retriable


@pytest.mark.parametrize(
    "servers", ["", " , ", "host", "host:", "host:0", "host:65536", "ho st:1", "SSL://h:1", "h:1:2"]
)
def test_servers_that_are_none_are_refused(servers: str):
    with pytest.raises(ConfigError) as caught:
        ClientConfig.from_properties({"bootstrap.servers": servers}, client_id="c")
    assert [fault.key for fault in caught.value.faults] == ["bootstrap.servers"]


def test_a_servers_protocol_must_be_that_of_the_connection():
    properties = {"bootstrap.servers": "SSL://a:1", "security.protocol": "SSL"}
    assert ClientConfig.from_properties(properties, client_id="c").bootstrap_servers == (("a", 1),)
    with pytest.raises(ConfigError, match=r"names SSL, and security\.protocol is SASL_SSL"):
        ClientConfig.from_properties(
            properties
            | {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
            | {"sasl.username": "u", "sasl.password": "p"},
            client_id="c",
        )


def test_a_secret_is_never_printed():
    properties = {"bootstrap.servers": "a:1", "sasl.jaas.config": "hunter2", "ssl.key.password": "hunter2"}
    with pytest.raises(ConfigError) as caught:
        ClientConfig.from_properties(properties, client_id="c")
    assert "hunter2" not in str(caught.value)
    assert all(name in str(caught.value) for name in properties if name != "bootstrap.servers")


def test_a_config_is_frozen_and_travels_to_workers():
    config = ClientConfig.from_properties({"bootstrap.servers": "a:1"}, client_id="c")
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(AttributeError):
        config.client_id = "other"  # type: ignore[misc]


def test_faults_travel_to_the_driver():
    with pytest.raises(ConfigError) as caught:
        ClientConfig.from_properties({"nonsense": "1"}, client_id="c")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.faults == caught.value.faults
    assert str(copy) == str(caught.value)
