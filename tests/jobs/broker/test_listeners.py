"""Secure listeners of the embedded broker, as its settings tell them. Live: tests/client/security."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg.jobs.broker.listeners import Listener, login_module, scram_arguments
from kseg.jobs.broker.properties import EmbeddedNode, server_properties


def test_listeners_come_after_the_two_that_every_node_has() -> None:
    node = EmbeddedNode(1, 20001, 21001, Path("/k/node-1"), (22001, 22002))
    listeners = [Listener("TLS", "SSL", {"ssl.client.auth": "required"}), Listener("SASL", "SASL_PLAINTEXT")]
    settings = server_properties(node, [node], {}, listeners)
    addresses = "PLAINTEXT://127.0.0.1:20001,CONTROLLER://127.0.0.1:21001,TLS://127.0.0.1:22001,SASL://127.0.0.1:22002"
    assert settings["listeners"] == settings["advertised.listeners"] == addresses
    assert settings["listener.security.protocol.map"] == (
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT"
    )
    assert settings["listener.name.tls.ssl.client.auth"] == "required"


def test_clients_may_be_told_another_host_than_a_listener_has() -> None:
    node = EmbeddedNode(1, 20001, 21001, Path("/k/node-1"), (22001,))
    settings = server_properties(node, [node], {}, [Listener("FRONT", "PLAINTEXT", advertised="127.0.0.2")])
    assert settings["listeners"].endswith(",FRONT://127.0.0.1:22001")
    assert settings["advertised.listeners"].endswith(",FRONT://127.0.0.2:22001")


def test_without_more_listeners_nothing_changes() -> None:
    node = EmbeddedNode(1, 20001, 21001, Path("/k/node-1"))
    settings = server_properties(node, [node], {})
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:20001,CONTROLLER://127.0.0.1:21001"


@pytest.mark.parametrize(("name", "protocol"), [("PLAINTEXT", "SSL"), ("lower", "SSL"), ("TLS", "TLS")])
def test_a_listener_that_kafka_would_not_take_is_refused(name: str, protocol: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        Listener(name, protocol)


def test_its_settings_are_not_shown() -> None:
    assert "hunter2" not in repr(Listener("TLS", "SSL", {"ssl.key.password": "hunter2"}))


def test_values_of_a_login_module_are_quoted() -> None:
    module = login_module("PlainLoginModule", user_a='x"y\\z')
    assert module == ('org.apache.kafka.common.security.plain.PlainLoginModule required user_a="x\\"y\\\\z";')


def test_each_user_is_known_to_both_scrams() -> None:
    assert list(scram_arguments({"bob": "pw"})) == [
        "--add-scram",
        "SCRAM-SHA-256=[name=bob,password=pw]",
        "--add-scram",
        "SCRAM-SHA-512=[name=bob,password=pw]",
    ]
