"""Rows to Kafka exactly once: whatever dies, a read_committed consumer sees each row once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shared_jvm
from kseg.client import CommittedOffset, TopicPartition, commit_offsets
from kseg.client.admin.topics import create_partitions, create_topic, delete_topics
from kseg.client.errors import Fenced, TransactionError, UnknownTopic
from kseg.client.producer.partitioners import partition_of_key
from kseg.etl.errors import ConfigurationError
from kseg.etl.kafka_writer import transactional
from kseg.etl.kafka_writer.marker import marker_group
from kseg.etl.kafka_writer.rows import BadRow
from kseg.etl.kafka_writer.transactional import KafkaWrite, write_kafka
from kseg.jobs.broker.process import EmbeddedKafka

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ROWS = 3000


@pytest.fixture
def frame(session: Any) -> Any:
    return session.range(0, ROWS, 1, 3).selectExpr("CAST(id % 50 AS STRING) AS key", "CAST(id AS STRING) AS value")


@pytest.fixture
def write(kafka: Any, session: Any) -> Callable[..., KafkaWrite]:
    name = f"tx-{uuid.uuid4()}"

    def write(df: Any, topic: str, *, servers: str | None = None, **given: Any) -> KafkaWrite:
        options = {"bootstrap.servers": servers or kafka.bootstrap_servers, "batch.size": "5000"}
        return write_kafka(df, **({"transactional_id": name, "topic": topic, "options": options} | given))

    return write


def values(messages: list[Any]) -> list[int]:
    return sorted(int(m.value()) for m in messages)


def test_rows_are_written_once_to_the_partitions_of_their_keys(kafka: Any, frame: Any, write: Any, read_topic: Any):
    topic = kafka.topic(partitions=5)
    written = write(frame, topic, run_id="first")
    messages = read_topic(topic, 5)
    assert values(messages) == list(range(ROWS))
    assert all(m.partition() == partition_of_key(m.key(), 5) for m in messages)
    assert (written.rows, written.already_done) == (ROWS, False)
    for tp, part in written.partitions.items():
        offsets = [m.offset() for m in messages if m.partition() == tp.partition]
        assert (part.rows, part.first, part.last) == (len(offsets), min(offsets), max(offsets))

    again = write(frame, topic, run_id="first")
    assert again == KafkaWrite(topic, "first", ROWS, {}, already_done=True)
    assert values(read_topic(topic, 5)) == list(range(ROWS))
    other = write(frame, topic, run_id="second")
    assert not other.already_done
    assert values(read_topic(topic, 5)) == sorted([*range(ROWS), *range(ROWS)])


def test_the_first_transaction_protocol_keeps_the_promise_too(frame: Any, write: Any, read_topic: Any):
    from kseg.client import ClientConfig, Cluster

    with EmbeddedKafka(features={"transaction.version": 1}, light=True) as broker:
        servers = broker.bootstrap_servers
        with Cluster(ClientConfig.from_properties({"bootstrap.servers": servers}, client_id="t")) as cluster:
            create_topic(cluster, "t", partitions=2)
        bad = frame.selectExpr("key", "value", "CASE WHEN value = '2999' THEN 9 ELSE 1 END AS partition")
        with pytest.raises(BadRow):
            write(bad, "t", servers=servers, run_id="r")
        assert write(frame, "t", servers=servers, run_id="r").rows == ROWS
        assert write(frame, "t", servers=servers, run_id="r").already_done
        assert values(read_topic("t", 2, servers=servers)) == list(range(ROWS))


def test_rows_without_a_key_and_with_a_partition_arrive_once(kafka: Any, session: Any, write: Any, read_topic: Any):
    topic = kafka.topic(partitions=3, config={"retention.ms": "-1"})  # the rows' timestamps are old
    df = session.range(0, ROWS, 1, 2).selectExpr(
        "CAST(id AS STRING) AS value", "CASE WHEN id < 100 THEN 2 END AS partition", "timestamp_millis(id) AS timestamp"
    )
    assert write(df, topic).rows == ROWS
    messages = read_topic(topic, 3)
    assert values(messages) == list(range(ROWS))
    assert {m.partition() for m in messages if int(m.value()) < 100} == {2}
    assert all(m.timestamp()[1] == int(m.value()) for m in messages)


def test_nothing_to_write_is_remembered_too(kafka: Any, frame: Any, write: Any, read_topic: Any):
    topic = kafka.topic()
    assert write(frame.where("false"), topic, run_id="none") == KafkaWrite(topic, "none", 0, {})
    assert write(frame, topic, run_id="none").already_done
    assert read_topic(topic) == []


def test_nothing_to_write_and_nothing_to_remember_is_no_error(kafka: Any, frame: Any, write: Any, read_topic: Any):
    """The coordinator never hears of such a transaction, and would reject its commit."""
    topic = kafka.topic()
    written = write(frame.where("false"), topic)
    assert (written.rows, written.partitions, written.already_done) == (0, {}, False)
    assert write(frame, topic).rows == ROWS
    assert values(read_topic(topic)) == list(range(ROWS))


def test_an_earlier_run_is_done_whichever_partitions_the_runs_between_reached(
    kafka: Any, session: Any, write: Any, read_topic: Any
):
    topic = kafka.topic(partitions=3)

    def rows(run: str, *partitions: int) -> Any:
        data = [(f"{run}{n}", partitions[n % len(partitions)]) for n in range(9)]
        return session.createDataFrame(data, "value string, partition int")

    def read() -> list[str]:
        return sorted(message.value().decode() for message in read_topic(topic, 3))

    assert write(rows("a", 0, 1, 2), topic, run_id="A").rows == 9
    assert write(rows("b", 0), topic, run_id="B").rows == 9
    write(rows("u", 1), topic)  # without a name
    for run in ("A", "B"):
        assert write(rows(run.lower(), 0, 1, 2), topic, run_id=run) == KafkaWrite(topic, run, 9, {}, already_done=True)
    assert write(rows("c", 1, 2), topic, run_id="C").rows == 9
    assert write(rows("a", 0, 1, 2), topic, run_id="A").already_done
    assert read() == sorted(f"{run}{n}" for run in "abuc" for n in range(9))


def test_the_last_run_of_a_release_before_is_known(kafka: Any, cluster: Any, frame: Any, write: Any, read_topic: Any):
    """Its marks stand in partition 0 and in all that got rows; those of the run before may stand in others still."""
    topic = kafka.topic(partitions=3)
    old = {
        TopicPartition(topic, 0): CommittedOffset(0, -1, "kseg-write:last:0:-1:7"),
        TopicPartition(topic, 1): CommittedOffset(8, -1, "kseg-write:last:7:1:7"),
        TopicPartition(topic, 2): CommittedOffset(5, -1, "kseg-write:before:3:2:9"),
    }
    commit_offsets(cluster, marker_group(f"tx-{topic}"), old)
    again = write(frame, topic, transactional_id=f"tx-{topic}", run_id="last")
    assert (again.rows, again.already_done) == (7, True)
    assert write(frame, topic, transactional_id=f"tx-{topic}", run_id="next").rows == ROWS
    assert write(frame, topic, transactional_id=f"tx-{topic}", run_id="last").already_done
    assert values(read_topic(topic, 3)) == list(range(ROWS))


def test_a_topic_made_anew_holds_no_run(kafka: Any, cluster: Any, frame: Any, write: Any, read_topic: Any):
    topic = kafka.topic(partitions=2)
    assert write(frame, topic, run_id="run").rows == ROWS
    delete_topics(cluster, [topic]).or_raise()
    create_topic(cluster, topic, partitions=2)
    assert write(frame, topic, run_id="run").rows == ROWS
    assert values(read_topic(topic, 2)) == list(range(ROWS))


def test_a_bad_row_aborts_everything(kafka: Any, frame: Any, write: Any, read_topic: Any):
    topic = kafka.topic(partitions=2)
    bad = frame.selectExpr(
        "*", "array(struct(IF(value = '2999', NULL, 'k') AS key, CAST(NULL AS BINARY) AS value)) AS headers"
    )
    with pytest.raises(BadRow, match="header has no key"):
        write(bad, topic, run_id="r")
    assert read_topic(topic, 2) == []
    assert write(frame, topic, run_id="r").rows == ROWS


def test_a_newer_write_fences_the_older(kafka: Any, frame: Any, write: Any, read_topic: Any, monkeypatch: Any):
    """A second driver begins while the first one's tasks are done and its commit is about to come."""
    topic = kafka.topic(partitions=2)
    plain = transactional._write
    newer: list[KafkaWrite] = []

    def overtaken(*args: Any) -> Any:
        written = plain(*args)
        monkeypatch.setattr(transactional, "_write", plain)
        newer.append(write(frame, topic, run_id="newer"))
        return written

    monkeypatch.setattr(transactional, "_write", overtaken)
    with pytest.raises(Fenced):
        write(frame, topic, run_id="older")
    assert newer[0].rows == ROWS
    assert values(read_topic(topic, 2)) == list(range(ROWS))


@pytest.fixture
def growing(cluster: Any, monkeypatch: Any) -> Callable[[str, int], None]:
    """`growing(topic, count)`: the topic gets so many partitions when the next write's transaction has begun."""

    def grow(topic: str, count: int) -> None:
        plain = transactional._write

        def grown(*args: Any) -> Any:
            create_partitions(cluster, {topic: count}).or_raise()
            return plain(*args)

        monkeypatch.setattr(transactional, "_write", grown)

    return grow


def test_partitions_that_the_topic_gets_during_the_write_are_not_written_to(
    kafka: Any, frame: Any, write: Any, read_topic: Any, growing: Any
):
    """The transaction does not have them, and a key belongs to one partition."""
    topic = kafka.topic(partitions=2)
    growing(topic, 6)
    written = write(frame, topic, run_id="run")
    assert {tp.partition for tp in written.partitions} == {0, 1}
    messages = read_topic(topic, 6)
    assert values(messages) == list(range(ROWS))
    assert all(m.partition() == partition_of_key(m.key(), 2) for m in messages)


def test_a_row_for_a_partition_that_the_topic_gets_during_the_write_is_a_bad_row(
    kafka: Any, frame: Any, write: Any, read_topic: Any, growing: Any
):
    topic = kafka.topic(partitions=2)
    growing(topic, 6)
    with pytest.raises(BadRow, match="there is no partition 5: the topic has 2"):
        write(frame.selectExpr("value", "IF(value = '2999', 5, 1) AS partition"), topic)
    assert read_topic(topic, 6) == []


def test_a_timeout_above_what_brokers_allow_is_told(kafka: Any, frame: Any, write: Any):
    with pytest.raises(TransactionError, match="INVALID_TRANSACTION_TIMEOUT"):
        write(frame, kafka.topic(), timeout_ms=900_001)


def test_every_mistake_is_told_at_once(frame: Any, write: Any):
    with pytest.raises(ConfigurationError) as caught:
        write(
            frame.selectExpr("key AS topic", "key AS other"),
            "",
            run_id="a:b",
            options={"bootstrap.servers": "h:1", "acks": "1", "transactional.id": "x"},
        )
    assert {fault.path for fault in caught.value.faults} == {
        "topic", "run_id", "acks", "transactional.id", "other", "value"
    }  # fmt: skip
    with pytest.raises(UnknownTopic):
        write(frame, "no-such-topic")


def run_driver(what: str, kafka: Any, topic: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).with_name("write_driver.py")
    return subprocess.run(
        [sys.executable, str(script), what, kafka.bootstrap_servers, topic, str(ROWS), str(folder)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
    )


def test_a_killed_task_or_a_repeated_stage_aborts_everything_and_the_next_write_is_whole(
    kafka: Any, read_topic: Any, tmp_path: Path
):
    topic = kafka.topic(partitions=4)
    done = run_driver("task", kafka, topic, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["died"]
    assert "a second time" in told["error"]
    assert told["lost"]
    assert "again" in told["stage_error"]
    assert (told["rows"], told["already_done"]) == (ROWS, False)
    assert values(read_topic(topic, 4)) == list(range(ROWS))
    assert len(read_topic(topic, 4, isolation="read_uncommitted")) > ROWS  # the killed one had written


def test_a_tasks_error_is_raised_although_spark_has_run_the_task_again(kafka: Any, read_topic: Any, tmp_path: Path):
    """The attempts after it raise TaskRepeated, and Spark reports only the last one."""
    topic = kafka.topic()
    done = run_driver("error", kafka, topic, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["kind"] == "RecordTooLarge", told
    assert f"topic={topic}, partition=0" in told["text"]
    assert read_topic(topic) == []


@pytest.mark.parametrize("what", ["before", "after"])
def test_a_driver_killed_around_the_end_of_the_transaction_is_made_up_for(
    kafka: Any, session: Any, frame: Any, read_topic: Any, tmp_path: Path, scale: Any, what: str
):
    """In the full scale its JVM is its own, and ends with it."""
    topic = kafka.topic(partitions=4)
    done = run_driver(what, kafka, topic, tmp_path, **scale(shared_jvm.gateway(session), {}))
    assert done.returncode == -signal.SIGKILL, done.stderr[-4000:]
    options = {"bootstrap.servers": kafka.bootstrap_servers}
    again = write_kafka(frame, transactional_id=f"tx-{topic}", topic=topic, options=options, run_id="run")
    assert again.already_done == (what == "after")
    assert again.rows == ROWS
    assert values(read_topic(topic, 4)) == list(range(ROWS))
