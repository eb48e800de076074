"""The table of what has been held against Kafka: what counts in it, and what does not."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import second_try
from kseg.client import ClientConfig, Cluster
from kseg.client.protocol.messages.groups import HeartbeatResponse


def ports(servers: str) -> list[int]:
    return [int(port) for port in re.findall(r":(\d+)", servers)]


def row(table: Any, name: str) -> str:
    (line,) = [line for line in table.table() if re.match(rf" *\d+ {name} ", line)]
    return re.sub(r" +", " ", line)


@pytest.fixture
def table(comparisons: Any) -> Any:
    """An empty one, that listens to nobody, during a test called "a"."""
    empty = type(comparisons)()
    empty._test = "tests/a"
    return empty


def test_a_version_counts_when_both_sides_of_it_have_been_compared(table: Any) -> None:
    for kind in ("definition", "bytes"):
        table.compared(kind, "HeartbeatRequest", 0)
        table.compared(kind, "HeartbeatRequest", 1)
        table.compared(kind, "HeartbeatResponse", 1)
    assert " 1/5 1/5 none" in row(table, "Heartbeat")
    assert "HeartbeatResponse v0" in table._gaps()["definition not compared"]
    assert "HeartbeatResponse v1" not in table._gaps()["definition not compared"]


@pytest.mark.broker
def test_what_a_kafka_answers_counts_with_its_release(table: Any, kafka: Any) -> None:
    (port,) = ports(kafka.bootstrap_servers)
    for version in (0, 1, 4):
        table.answered(port, "Heartbeat", version, HeartbeatResponse())
    assert "4.3.1 v0-1,4 (1 test, e.g. a)" in row(table, "Heartbeat")
    assert "Heartbeat" not in table._gaps()["no live broker has answered without an error"]


@pytest.mark.broker
def test_a_refusal_is_told_as_one_and_is_no_answer(table: Any, kafka: Any) -> None:
    (port,) = ports(kafka.bootstrap_servers)
    table.answered(port, "Heartbeat", 4, HeartbeatResponse(error_code=25))
    assert "refusals alone: 4.3.1 v4" in row(table, "Heartbeat")
    assert "Heartbeat" in table._gaps()["no live broker has answered without an error"]
    assert re.search(r"\b0 APIs answered by live brokers", "\n".join(table.table()))


LISTENS = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


def test_what_another_process_answers_does_not_count(table: Any) -> None:
    command = [sys.executable, "-c", LISTENS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdin is not None
        assert stranger.stdout is not None
        table.answered(int(stranger.stdout.readline()), "Heartbeat", 4, HeartbeatResponse())
        stranger.stdin.close()
    assert row(table, "Heartbeat").endswith("none")
    assert "Heartbeat" in table._gaps()["no live broker has answered without an error"]
    assert "LeaderAndIsr" not in table._gaps()["no live broker has answered without an error"]


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_what_a_scripted_broker_answers_does_not_count_and_no_process_is_asked(
    table: Any, monkeypatch: pytest.MonkeyPatch, family: socket.AddressFamily, host: str
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(table, "_release_of_child", asked.append)
    with socket.create_server((host, 0), family=family) as scripted:
        table.answered(scripted.getsockname()[1], "Heartbeat", 4, HeartbeatResponse())
    assert (row(table, "Heartbeat").endswith("none"), asked) == (True, [])


def test_a_port_of_no_kafka_is_looked_at_again_in_the_next_test(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a broker may have it; in one test it is asked for once."""
    asked: list[int] = []
    monkeypatch.setattr(table, "_release_of_child", lambda port: asked.append(port))
    for expected in (1, 2):
        for version in (0, 1):
            table.answered(1, "Heartbeat", version, HeartbeatResponse())
        assert len(asked) == expected
        next(table.pytest_runtest_protocol(SimpleNamespace(nodeid="tests/b")))


def test_a_port_that_another_release_takes_within_a_test_counts_as_that(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = iter(["3.9.2", "3.9.2", "4.3.1"])
    monkeypatch.setattr(table, "_release_of_child", lambda _: next(releases))
    for version in (0, 1, 4):
        table.answered(1, "Heartbeat", version, HeartbeatResponse())
    assert "4.3.1 v4; 3.9.2 v0-1" in row(table, "Heartbeat")


def test_what_a_failed_test_saw_is_dropped(table: Any) -> None:
    table.compared("definition", "HeartbeatRequest", 1)
    table.compared("definition", "HeartbeatResponse", 1)
    assert " 1/5 " in row(table, "Heartbeat")
    table.pytest_runtest_logreport(SimpleNamespace(failed=True, nodeid="tests/a"))
    assert " 0/5 " in row(table, "Heartbeat")


@pytest.mark.broker
def test_the_client_is_listened_to(comparisons: Any, kafka: Any) -> None:
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    with Cluster(ClientConfig.from_properties(properties, client_id="table")) as cluster:
        cluster.retry(cluster.any_connection)
    assert re.search(r"4\.3\.1 v(\S+[-,])?4\b", row(comparisons, "ApiVersions"))


@pytest.mark.broker
def test_a_gap_fails_a_whole_run_with_a_kafka_and_no_other(table: Any, kafka: Any) -> None:
    kept: dict[str, Any] = {}

    def outcome(code: int = pytest.ExitCode.OK) -> int:
        kept.clear()
        cache = SimpleNamespace(set=kept.__setitem__)
        session = SimpleNamespace(exitstatus=code, config=SimpleNamespace(cache=cache))
        table.pytest_sessionfinish(session)
        return int(session.exitstatus)

    assert (outcome(), kept) == (pytest.ExitCode.OK, {})
    table.answered(ports(kafka.bootstrap_servers)[0], "Heartbeat", 4, HeartbeatResponse())
    assert outcome() == pytest.ExitCode.TESTS_FAILED
    assert outcome(pytest.ExitCode.TESTS_FAILED) == pytest.ExitCode.TESTS_FAILED
    assert kept[second_try.WHOLE_FAILED], "also where tests have failed, whose second try would hide it"
    table._whole = False
    assert (outcome(), kept) == (pytest.ExitCode.OK, {})


@pytest.mark.parametrize(
    ("given", "whole"),
    [
        ({}, True),
        ({"args": ["tests/client"]}, False),
        ({"args": ["tests/harness/test_comparisons.py::test_what_is_chosen_is_no_whole_run"]}, False),
        ({"keyword": "fetch"}, False),
        ({"markexpr": "not broker"}, False),
        ({"collectonly": True}, False),
        ({"ignore": ["tests/client"]}, False),
    ],
)
def test_what_is_chosen_is_no_whole_run(table: Any, pytestconfig: pytest.Config, given: Any, whole: bool) -> None:
    options = dict.fromkeys(("keyword", "markexpr", "lf", "deselect", "ignore", "collectonly"))
    config = SimpleNamespace(
        option=SimpleNamespace(**options | {key: value for key, value in given.items() if key != "args"}),
        rootpath=pytestconfig.rootpath,
        getini=pytestconfig.getini,
        args=given.get("args", pytestconfig.getini("testpaths")),
        invocation_params=SimpleNamespace(dir=pytestconfig.rootpath),
    )
    table.pytest_sessionstart(SimpleNamespace(config=config))
    assert table._whole is whole


def test_what_a_worker_process_has_seen_is_taken_over(table: Any) -> None:
    table.compared("definition", "HeartbeatRequest", 1)
    table.compared("definition", "HeartbeatResponse", 1)
    worker = SimpleNamespace(exitstatus=pytest.ExitCode.OK, config=SimpleNamespace(workeroutput={}))
    table.pytest_sessionfinish(worker)
    whole = type(table)()
    whole.pytest_testnodedown(SimpleNamespace(workeroutput=worker.config.workeroutput), None)
    assert " 1/5 0/5 none" in row(whole, "Heartbeat")
