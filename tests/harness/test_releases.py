"""Other releases of Kafka start on this Java, answer, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from kafkas import SharedReleases, WhileUsed
from kseg.jobs.broker.errors import LocalServerError, StartFailed
from kseg.jobs.broker.probe import live_brokers, partition_leaders
from releases import RELEASES, OtherKafka

OLDEST = "0.9.0.1"


def _processes(text: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(text in part for part in process.info["cmdline"] or ())
    ]


@pytest.mark.rule(254)
def test_the_oldest_starts_with_its_zookeeper_and_leaves_nothing_behind() -> None:
    with OtherKafka(OLDEST) as kafka:
        directory = kafka.node.directory.parent
        assert live_brokers(kafka.node.port, version=0) == {1}
        assert len(_processes(str(directory))) >= 3  # the broker, ZooKeeper, and their watchers
        kafka.create_topic("here", partitions=3)
        assert partition_leaders(kafka.node.port, "here") == {0: 1, 1: 1, 2: 1}
        assert partition_leaders(kafka.node.port, "elsewhere") == {}
        with pytest.raises(LocalServerError, match="there already"):
            kafka.create_topic("here")
        with kafka.zookeeper() as zookeeper:
            assert b'"partitions"' in (zookeeper.get("/brokers/topics/here") or b"")
            assert zookeeper.get("/brokers/topics/elsewhere") is None
    assert not directory.exists()
    assert _processes(str(directory)) == []


def test_a_start_that_fails_tells_the_log_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kafka = OtherKafka(OLDEST, config={"log.cleaner.threads": "none"})
    with pytest.raises(StartFailed, match=r"broker ended during its start(.|\n)*log\.cleaner\.threads"):
        kafka.start()
    assert _processes(str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_the_death_of_its_owner_ends_it(tmp_path: Path) -> None:
    program = (
        "import sys, time\nfrom releases import OtherKafka\n"
        f"kafka = OtherKafka({OLDEST!r}).start()\nprint(kafka.node.directory.parent, flush=True)\ntime.sleep(600)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    owner = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    directory = Path(owner.stdout.readline().strip())
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    deadline = time.monotonic() + 200
    while directory.exists() or _processes(str(directory)):
        assert time.monotonic() < deadline, _processes(str(directory))
        time.sleep(0.2)


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.8\.0.*known are 0\.9\.0\.1"):
        OtherKafka("0.8.0")


def test_releases_serve(kafka_release: Callable[[str], Any], scale: Callable[[Any, Any], Any]) -> None:
    for version in scale(("3.9.2-zookeeper", "0.10.2.2", "3.9.2"), tuple(RELEASES)):
        kafka = kafka_release(version)
        topic = kafka.topic(2)
        assert partition_leaders(int(kafka.bootstrap_servers.rsplit(":", 1)[1]), topic) == {0: 1, 1: 1}
        assert any(kafka.log_dirs[0].glob(f"{topic}-0/*.log"))
        assert kafka.version == version
        assert kafka_release(version) is kafka
        assert _processes(str(kafka.broker.node.directory))


def test_of_too_many_that_which_was_not_asked_for_the_longest_is_stopped() -> None:
    running: list[str] = []

    def start(version: str) -> Any:
        running.append(version)
        return SimpleNamespace(broker=SimpleNamespace(stop=lambda: running.remove(version)))

    releases = SharedReleases(2, start)
    first, second = releases("a"), releases("b")
    assert (releases("a"), releases("b"), releases("a")) == (first, second, first)
    releases("c")
    assert running == ["a", "c"]
    assert releases("b") is not second
    assert running == ["c", "b"]
    releases.stop()
    assert running == []


def test_servers_that_tests_do_not_ask_for_any_more_are_stopped_and_started_again_when_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    now = [100.0]
    monkeypatch.setattr("kafkas.time", SimpleNamespace(monotonic=lambda: now[0]))

    @contextmanager
    def make() -> Iterator[object]:
        events.append("start")
        yield object()
        events.append("stop")

    servers = WhileUsed(make, idle=60)
    servers.before_a_test(asks=False)
    servers.before_a_test(asks=True)
    first = servers()
    for asks, seconds in ((False, 60), (True, 10), (False, 60)):
        now[0] += seconds
        servers.before_a_test(asks)
        assert events == ["start"]
    now[0] += 1
    servers.before_a_test(asks=False)
    assert events == ["start", "stop"]
    servers.before_a_test(asks=True)
    assert servers() is not first
    servers.stop()
    servers.stop()
    assert events == ["start", "stop"] * 2


def test_servers_that_a_running_test_asks_for_are_not_stopped_before_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fixture that is asked for by its name (`request.getfixturevalue`) is not among those that a test lists."""
    now = [100.0]
    monkeypatch.setattr("kafkas.time", SimpleNamespace(monotonic=lambda: now[0]))
    servers = WhileUsed(lambda: nullcontext(object()), idle=60)
    servers.before_a_test(asks=False)
    first = servers()
    now[0] += 60
    servers.before_a_test(asks=False)
    assert servers() is first
