"""`df.write.format("kseg")` beside `df.write.format("kafka")`: the same rows become the same records."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark.errors import PySparkException

from kseg.client.producer.partitioners import partition_of_key
from kseg.jobs.broker import jars

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PEER = "spark-kafka-4.2.0"
DDL = "key binary, value binary, headers array<struct<key:string,value:binary>>, partition int"
ROWS: list[tuple[Any, ...]] = [
    (b"k", b"v", [("a", b"1"), ("a", None)], None),
    (None, b"no key", None, 2),
    (b"gone", None, [], 0),
    (b"", b"", None, None),
    ("ключ".encode(), b"x" * 100_000, [("ключ", b"")], None),
    *((b"%d" % n, b"value %d" % n, None, None) for n in range(500)),
]


def save(frame: Any, servers: str, source: str = "kseg", mode: str = "append", **options: str) -> None:
    writer = frame.write.format(source).option("kafka.bootstrap.servers", servers)
    writer.options(**{key.replace("__", "."): value for key, value in options.items()}).mode(mode).save()


def content(messages: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(((m.partition(), m.key(), m.value(), tuple(m.headers() or ())) for m in messages), key=repr)


def test_rows_become_the_records_that_sparks_own_sink_makes_of_them(kafka: Any, session: Any, read_topic: Any):
    folder = jars.ensure(PEER) if PEER in jars.locked_sets() else jars.directory(PEER)
    for jar in sorted(folder.glob("*.jar")):
        session.sql(f"ADD JAR '{jar}'")
    frame = session.createDataFrame(ROWS, DDL)
    ours, theirs = kafka.topic(partitions=4), kafka.topic(partitions=4)
    save(frame, kafka.bootstrap_servers, topic=ours)
    save(frame, kafka.bootstrap_servers, source="kafka", topic=theirs)
    found = content(read_topic(ours, 4))
    assert found == content(read_topic(theirs, 4))
    assert len(found) == len(ROWS)


def test_rows_of_a_partition_keep_their_order_and_their_keys_javas_partition(
    kafka: Any, session: Any, read_topic: Any, scale: Any
):
    rows = scale(20_000, 500_000)
    topic = kafka.topic(partitions=3, config={"retention.ms": "-1"})  # the rows' timestamps are old
    frame = session.range(0, rows, 1, 1).selectExpr(
        "CAST(id % 97 AS STRING) AS key", "CAST(id AS STRING) AS value", "timestamp_millis(id) AS timestamp"
    )
    save(frame, kafka.bootstrap_servers, topic=topic, kafka__compression__type="zstd", kafka__batch__size="20000")
    messages = read_topic(topic, 3)
    assert sorted(int(m.value()) for m in messages) == list(range(rows))
    for partition in range(3):
        numbers = [int(m.value()) for m in messages if m.partition() == partition]
        assert numbers == sorted(numbers)
    assert all(m.partition() == partition_of_key(m.key(), 3) for m in messages)
    assert all(m.timestamp()[1] == int(m.value()) for m in messages)


def test_a_topic_column_sends_each_row_to_its_topic(kafka: Any, session: Any, read_topic: Any):
    first, second = kafka.topic(), kafka.topic()
    frame = session.createDataFrame([(first, "a"), (second, "b"), (first, "c")], "topic string, value string")
    save(frame.coalesce(1), kafka.bootstrap_servers)
    assert [m.value() for m in read_topic(first)] == [b"a", b"c"]
    assert [m.value() for m in read_topic(second)] == [b"b"]


def test_a_row_without_a_timestamp_gets_the_time_of_writing(kafka: Any, session: Any, read_topic: Any):
    topic = kafka.topic()
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    frame = session.createDataFrame([("a", at), ("b", None)], "value string, timestamp timestamp").coalesce(1)
    began = dt.datetime.now(dt.UTC).timestamp() * 1000
    save(frame, kafka.bootstrap_servers, topic=topic)
    given, written = [m.timestamp()[1] for m in read_topic(topic)]
    assert given == at.timestamp() * 1000
    assert began - 1000 <= written


@pytest.mark.parametrize(("ddl", "row", "words"), [
    ("topic string, value string", (None, "v"),
     r"the topic is null \(row=0\) — give the option topic"),
    ("value string, partition int", ("v", 5), "there is no partition 5"),
    ("value string, headers array<struct<key:string,value:binary>>", ("v", [(None, b"h")]), "a header has no key"),
])  # fmt: skip
def test_a_row_that_cannot_be_a_record_is_told(kafka: Any, session: Any, ddl: str, row: Any, words: str):
    frame = session.createDataFrame([row], ddl)
    options = {} if ddl.startswith("topic") else {"topic": kafka.topic()}
    with pytest.raises(PySparkException, match=words):
        save(frame, kafka.bootstrap_servers, **options)


@pytest.mark.parametrize(("mode", "options", "words"), [
    ("append", {"kafka__transactional__id": "tx"}, "kseg.write_kafka"),
    ("overwrite", {}, "cannot be overwritten"),
])  # fmt: skip
def test_what_the_format_does_not_do_is_refused(kafka: Any, session: Any, mode: str, options: Any, words: str):
    frame = session.createDataFrame([("v",)], "value string")
    with pytest.raises(PySparkException, match=words):
        save(frame, kafka.bootstrap_servers, mode=mode, topic="t", **options)
