"""The nodes' settings suit their number, and any value survives the properties file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg.jobs.broker.properties import EmbeddedNode, server_properties, to_text


def _nodes(count: int) -> list[EmbeddedNode]:
    return [
        EmbeddedNode(number, 20000 + number, 21000 + number, Path(f"/k/node-{number}"))
        for number in range(1, count + 1)
    ]


@pytest.mark.parametrize(("count", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")])
def test_replication_is_as_high_as_the_nodes_allow(count: int, replicas: str, in_sync: str) -> None:
    nodes = _nodes(count)
    settings = server_properties(nodes[0], nodes, {})
    assert settings["offsets.topic.replication.factor"] == settings["default.replication.factor"] == replicas
    assert settings["min.insync.replicas"] == settings["transaction.state.log.min.isr"] == in_sync


def test_one_node_is_a_quorum_of_its_own_and_several_know_each_other() -> None:
    (alone,) = _nodes(1)
    assert "controller.quorum.voters" not in server_properties(alone, [alone], {})
    nodes = _nodes(3)
    voters = {server_properties(node, nodes, {})["controller.quorum.voters"] for node in nodes}
    assert voters == {"1@127.0.0.1:21001,2@127.0.0.1:21002,3@127.0.0.1:21003"}


def test_given_settings_go_over_the_defaults() -> None:
    (alone,) = _nodes(1)
    assert (
        server_properties(alone, [alone], {"auto.create.topics.enable": "true"})["auto.create.topics.enable"] == "true"
    )


def test_values_are_escaped_as_java_reads_them() -> None:
    assert to_text({"a": "C:\\logs", "b": " padded", "c": "two\nlines"}) == "a=C:\\\\logs\nb=\\ padded\nc=two\\nlines\n"
