"""The producer on the real broker, read back by clients that are not ours."""

from __future__ import annotations

import time
import tracemalloc
import uuid
from typing import Any

import pytest

from kseg.client import BrokerError, CommittedOffset, Fenced, TopicPartition, committed_offsets
from kseg.client.errors import InvalidRecord, RecordTooLarge, RequestTimedOut, TransactionError, UnknownTopic
from kseg.client.protocol.error_codes import ErrorCode
from kseg.segment_reader.encode.batches import Record
from sending import send_all

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NOW = int(time.time() * 1000)
HARD = [
    Record(b"k", b"v", [("h", b"1"), ("h", None), ("ключ", b"")], NOW),
    Record(None, None, (), NOW + 1),
    Record(b"", b"", (), NOW - 5),
    Record("ü".encode(), b"x" * 5000, (), NOW + 2),
]


def rows(messages: list[Any]) -> list[tuple[Any, ...]]:
    return [(m.key(), m.value(), m.headers() or [], m.timestamp()[1]) for m in messages]


def expected(records: list[Record]) -> list[tuple[Any, ...]]:
    return [(r.key, r.value, list(r.headers), r.timestamp) for r in records]


def produce_all(bootstrap_servers: str, topic: str, producing: Any, codec: str) -> list[Record]:
    """Records in several batches of this codec; the brokers' offsets are checked."""
    records = HARD + [Record(b"%d" % n, b"value %d" % n, (), NOW + n) for n in range(500)]
    producer = producing(bootstrap_servers, compression_type=codec, batch_size=4096, linger_ms=20)
    deliveries = send_all(producer, topic, records)
    producer.flush()
    assert [d.result().offset for d in deliveries] == list(range(len(records)))
    return records


@pytest.mark.rule(112, 130, 298)
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_are_read_equal_by_other_clients(kafka: Any, producing: Any, read_back: Any, codec: str):
    topic = kafka.topic()
    records = produce_all(kafka.bootstrap_servers, topic, producing, codec)
    assert rows(read_back(kafka.bootstrap_servers, topic)) == expected(records)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # kafka-python loads its schemas by an old function
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "snappy"])  # for which it needs a C library
def test_records_are_read_equal_by_a_client_in_python(kafka: Any, producing: Any, codec: str):
    from kafka import KafkaConsumer
    from kafka import TopicPartition as TheirPartition

    topic = kafka.topic()
    records = produce_all(kafka.bootstrap_servers, topic, producing, codec)
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign([TheirPartition(topic, 0)])
    theirs: list[Any] = []
    until = time.monotonic() + 120
    while len(theirs) < len(records) and time.monotonic() < until:
        for found in consumer.poll(1000).values():
            theirs += found
    consumer.close()
    assert [(m.key, m.value, list(m.headers), m.timestamp) for m in theirs] == expected(records)


@pytest.mark.parametrize(("codec", "level"), [("gzip", 9), ("lz4", 9), ("zstd", 19)])
def test_a_compression_level_is_used(kafka: Any, producing: Any, read_back: Any, codec: str, level: int):
    topic = kafka.topic(partitions=2)
    values = [b"".join(b"%d" % (n * n * k) for k in range(40)) for n in range(300)]
    for partition, chosen in enumerate(({f"compression_{codec}_level": level}, {})):
        producer = producing(
            kafka.bootstrap_servers, compression_type=codec, batch_size=200_000, linger_ms=60_000, **chosen
        )
        send_all(producer, topic, [Record(None, value, (), NOW) for value in values], partition=partition)
        producer.close()
    logs = [sum(f.stat().st_size for f in kafka.log_dirs[0].glob(f"{topic}-{n}/*.log")) for n in (0, 1)]
    assert 0 < logs[0] < logs[1]
    assert [m.value() for m in read_back(kafka.bootstrap_servers, topic, 0)] == values


@pytest.mark.rule(139, 140)
def test_log_append_time_and_base_offset_are_told(kafka: Any, producing: Any):
    topic = kafka.topic(config={"message.timestamp.type": "LogAppendTime"})
    producer = producing(kafka.bootstrap_servers, linger_ms=60_000)
    first, second = producer.send(topic, b"a", timestamp=1), producer.send(topic, b"b", timestamp=2)
    producer.flush()
    assert first.result().log_append_time == second.result().log_append_time
    assert abs(first.result().log_append_time - time.time() * 1000) < 60_000
    assert (second.result().offset, second.result().base_offset) == (1, 0)
    created = producer.send(kafka.topic(), b"a")
    producer.flush()
    assert created.result().log_append_time == -1


@pytest.mark.rule(134)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_arrives(kafka: Any, producing: Any, read_back: Any, acks: str):
    topic = kafka.topic()
    producer = producing(kafka.bootstrap_servers, acks=acks, max_in_flight_requests_per_connection=1)
    deliveries = [producer.send(topic, b"%d" % n) for n in range(50)]
    producer.flush()
    offsets = [delivery.result(0).offset for delivery in deliveries]
    assert offsets == ([-1] * 50 if acks == "0" else list(range(50)))
    until = time.monotonic() + 120
    while len(found := read_back(kafka.bootstrap_servers, topic)) < 50 and time.monotonic() < until:
        time.sleep(0.1)  # with acks=0 a written request may not have been read yet
    assert [m.value() for m in found] == [b"%d" % n for n in range(50)]


@pytest.mark.rule(48)
def test_a_key_goes_where_java_and_librdkafka_send_it(kafka: Any, producing: Any, read_back: Any):
    from confluent_kafka import Producer

    topic = kafka.topic(partitions=7)
    theirs = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"})
    keys = [uuid.uuid4().bytes[: 1 + n % 16] for n in range(200)]
    ours = producing(kafka.bootstrap_servers)
    placed = [ours.send(topic, b"ours", key) for key in keys]
    ours.flush()
    for key in keys:
        theirs.produce(topic, b"theirs", key)
    theirs.flush(30)
    for partition in range(7):
        messages = read_back(kafka.bootstrap_servers, topic, partition)
        by = {who: {m.key() for m in messages if m.value() == who} for who in (b"ours", b"theirs")}
        assert by[b"ours"] == by[b"theirs"]
        assert by[b"ours"] == {k for k, d in zip(keys, placed, strict=True) if d.result().partition == partition}


@pytest.mark.rule(144)
def test_a_batch_that_the_topic_finds_too_large_is_split(kafka: Any, producing: Any, read_back: Any):
    topic = kafka.topic(config={"max.message.bytes": "5000"})
    producer = producing(kafka.bootstrap_servers, batch_size=100_000, linger_ms=1000)
    values = [b"%04d" % n + b"x" * 300 for n in range(100)] + [b"y" * 6000] + [b"%04d" % n for n in range(100)]
    deliveries = [producer.send(topic, value) for value in values]
    producer.flush()
    failed = [(n, d.exception()) for n, d in enumerate(deliveries) if d.exception() is not None]
    [(number, error)] = failed
    assert number == 100
    assert isinstance(error, RecordTooLarge)
    assert (error.code, error.topic, error.partition) == (ErrorCode.MESSAGE_TOO_LARGE, topic, 0)
    found = read_back(kafka.bootstrap_servers, topic)
    assert [m.value() for m in found] == values[:100] + values[101:]
    places = {d.result().offset: v for d, v in zip(deliveries, values, strict=True) if d.exception() is None}
    assert {m.offset(): m.value() for m in found} == places


@pytest.mark.rule(137, 146)
def test_what_the_broker_refuses_in_a_batch_is_named(kafka: Any, producing: Any, read_back: Any):
    topic = kafka.topic(config={"cleanup.policy": "compact"})
    producer = producing(kafka.bootstrap_servers, linger_ms=60_000)
    good = producer.send(topic, b"v", b"k", partition=0)
    bad = producer.send(topic, b"v", None, partition=0)  # a compacted topic takes no record without a key
    producer.flush(30)
    with pytest.raises(InvalidRecord) as caught:
        bad.result(0)
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert list(caught.value.record_errors) == [1]
    assert good.exception() is caught.value  # refused together
    after = producer.send(topic, b"v", b"k")
    producer.flush(30)
    assert after.result(0).offset >= 0  # and the next batch starts a new epoch
    old = kafka.topic(config={"message.timestamp.before.max.ms": "1000"})
    too_old = producer.send(old, b"v", timestamp=1)
    producer.flush(30)
    with pytest.raises(InvalidRecord) as caught:
        too_old.result(0)
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP


def test_a_topic_or_partition_that_is_not_there_is_told_at_once(kafka: Any, producing: Any):
    producer = producing(kafka.bootstrap_servers, max_block_ms=4000)
    with pytest.raises(UnknownTopic):
        producer.send("no-such-topic", b"v")
    topic = kafka.topic(partitions=2)
    with pytest.raises(UnknownTopic, match="2 partitions") as caught:
        producer.send(topic, b"v", partition=2)
    assert (caught.value.topic, caught.value.partition) == (topic, 2)


@pytest.mark.rule(142, 242, 244)
def test_transactions_commit_and_abort(kafka: Any, producing: Any, read_back: Any, cluster: Any):
    topic = kafka.topic(partitions=3)
    group = f"group-{uuid.uuid4()}"
    producer = producing(kafka.bootstrap_servers, transactional_id=f"tx-{uuid.uuid4()}", compression_type="lz4")
    for number, end in enumerate([producer.commit, producer.abort, producer.commit, producer.abort]):
        producer.begin()
        for partition in range(3):
            send_all(producer, topic, [Record(None, b"%d" % number, (), NOW)] * 100, partition=partition)
        if number == 2:
            producer.commit_offsets(group, {TopicPartition(topic, 0): CommittedOffset(7)})
        end()
    for partition in range(3):
        values = [m.value() for m in read_back(kafka.bootstrap_servers, topic, partition)]
        assert values == [b"0"] * 100 + [b"2"] * 100
    assert committed_offsets(cluster, group, [TopicPartition(topic, 0)])[TopicPartition(topic, 0)].offset == 7


@pytest.mark.rule(236)
def test_a_fenced_producer_cannot_write_or_commit(kafka: Any, producing: Any, read_back: Any, await_markers: Any):
    topic, name = kafka.topic(), f"tx-{uuid.uuid4()}"
    older, newer = (producing(kafka.bootstrap_servers, transactional_id=name, linger_ms=0) for _ in range(2))
    older.begin()
    older.send(topic, b"older").result(30)
    newer.begin()
    older.send(topic, b"older again")
    with pytest.raises(TransactionError):
        older.commit()
    with pytest.raises(Fenced):
        older.abort()
    newer.send(topic, b"newer")
    newer.commit()
    await_markers(kafka.bootstrap_servers, topic)
    assert [m.value() for m in read_back(kafka.bootstrap_servers, topic)] == [b"newer"]


def test_a_transaction_that_lost_a_record_can_only_be_aborted(
    kafka: Any, producing: Any, read_back: Any, await_markers: Any
):
    topic = kafka.topic(config={"max.message.bytes": "1000"})
    producer = producing(kafka.bootstrap_servers, transactional_id=f"tx-{uuid.uuid4()}", linger_ms=0)
    producer.begin()
    producer.send(topic, b"too large" * 500)
    with pytest.raises(RecordTooLarge):
        producer.commit()
    with pytest.raises(RecordTooLarge):
        producer.send(topic, b"more")
    producer.abort()
    producer.begin()
    producer.send(topic, b"small")
    producer.commit()
    await_markers(kafka.bootstrap_servers, topic)
    assert [m.value() for m in read_back(kafka.bootstrap_servers, topic)] == [b"small"]


def test_a_record_that_does_not_fit_into_memory_leaves_no_trace_in_the_transaction(
    kafka: Any, producing: Any, read_back: Any
):
    """The coordinator rejects the commit of a transaction that it does not know."""
    topic = kafka.topic()
    producer = producing(kafka.bootstrap_servers, transactional_id=f"tx-{uuid.uuid4()}", buffer_memory=1000)
    producer.begin()
    with pytest.raises(RecordTooLarge, match=r"buffer\.memory"):
        producer.send(topic, b"x" * 5000)
    producer.commit()
    producer.begin()
    producer.send(topic, b"small")
    producer.commit()
    assert [m.value() for m in read_back(kafka.bootstrap_servers, topic)] == [b"small"]


@pytest.mark.parametrize("lost", ["request", "response"])
def test_beginning_after_a_commit_of_unknown_outcome_commits_it(
    kafka: Any, producing: Any, read_back: Any, monkeypatch: Any, lost: str
):
    topic = kafka.topic()
    producer = producing(kafka.bootstrap_servers, transactional_id=f"tx-{uuid.uuid4()}", linger_ms=0)
    producer.begin()
    producer.send(topic, b"first")
    send_built = producer._cluster.send_built

    def lose(*given: Any, **named: Any) -> None:
        if lost == "response":
            send_built(*given, **named)
        raise RequestTimedOut("lost")

    with monkeypatch.context() as patch:
        patch.setattr(producer._cluster, "send_built", lose)
        with pytest.raises(RequestTimedOut):
            producer.commit()
    producer.begin()
    producer.send(topic, b"second")
    producer.commit()
    assert [m.value() for m in read_back(kafka.bootstrap_servers, topic)] == [b"first", b"second"]


def test_deliveries_that_are_kept_do_not_keep_their_records(kafka: Any, producing: Any):
    topic = kafka.topic(config={"max.message.bytes": "300000"})
    producer = producing(kafka.bootstrap_servers, batch_size=900_000, linger_ms=60_000)
    producer.send(topic, b"first")
    producer.flush(60)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        deliveries = [producer.send(topic, uuid.uuid4().bytes * 6250) for _ in range(60)]
        producer.flush(60)
        assert {delivery.exception(0) for delivery in deliveries} == {None}
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2_000_000  # 6 MB of records


def test_leaving_on_an_error_aborts_and_fails_what_waits(kafka: Any, producing: Any, read_back: Any):
    topic = kafka.topic()
    producer = producing(kafka.bootstrap_servers, transactional_id=f"tx-{uuid.uuid4()}", linger_ms=60_000)
    deliveries = []

    def work() -> None:
        with producer:
            producer.begin()
            deliveries.append(producer.send(topic, b"v"))
            raise KeyError("why")

    with pytest.raises(KeyError):
        work()
    with pytest.raises(BrokerError, match="closed before"):
        deliveries[0].result(0)
    assert read_back(kafka.bootstrap_servers, topic) == []


def test_records_of_many_threads_arrive_once_each(kafka: Any, producing: Any, read_back: Any, scale: Any):
    from concurrent.futures import ThreadPoolExecutor

    topic, count = kafka.topic(partitions=4), scale(2000, 50_000)
    producer = producing(kafka.bootstrap_servers, batch_size=2000, buffer_memory=100_000)

    def work(thread: int) -> None:
        send_all(producer, topic, [Record(None, b"%d-%d" % (thread, n), (), NOW) for n in range(count)])

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(work, number) for number in range(4)]:
            done.result()
    producer.flush()
    values = [m.value() for p in range(4) for m in read_back(kafka.bootstrap_servers, topic, p)]
    assert sorted(values) == sorted(b"%d-%d" % (thread, n) for thread in range(4) for n in range(count))
