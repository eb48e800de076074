"""The stream reader as Spark drives it, with a list for a checkpoint: what micro-batches hold, and what is refused.

What Spark makes of it, and Delta: test_stream.py.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kseg.client import TopicPartition
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.source import lag
from kseg.etl.source.errors import OffsetsLost
from kseg.etl.spark_format.stream import KsegStreamReader
from kseg.etl.spark_format.stream_offsets import StreamOffsets, take_at_most
from kseg.etl.spark_format.stream_options import StreamOptions
from kseg.segment_reader.encode.batches import Record
from sending import send_to

pytestmark = pytest.mark.broker

Produce = Callable[..., None]
Read = list[tuple[str, int, int]]
"""topic, partition, offset"""


class Stream:
    """One query: its options, and the offsets that Spark would have written down."""

    def __init__(self, servers: str, **options: str) -> None:
        self.options = {"kafka.bootstrap.servers": servers, "kafka.fetch.max.wait.ms": "50", **options}
        self.checkpoint: list[dict[str, Any]] = []
        self.reader = KsegStreamReader(StreamOptions.parse(self.options))

    def restarted(self, **options: str) -> KsegStreamReader:
        self.reader.stop()
        self.reader = KsegStreamReader(StreamOptions.parse(self.options | options))
        return self.reader

    def plan(self) -> bool:
        """The next micro-batch; False: there is none."""
        start = self.checkpoint[-1] if self.checkpoint else self.reader.initialOffset()
        end = json.loads(json.dumps(self.reader.latestOffset(start, self.reader.getDefaultReadLimit())))
        if end == start:
            return False
        self.checkpoint.append(end)
        return True

    def read(self) -> Read:
        """The rows of the last micro-batch that was planned, by readers such as workers get."""
        start = self.checkpoint[-2] if len(self.checkpoint) > 1 else {}
        partitions = self.reader.partitions(start, self.checkpoint[-1])
        worker = pickle.loads(pickle.dumps(self.reader))
        columns = ("topic", "partition", "offset")
        return sorted(
            row
            for partition in partitions
            for batch in worker.read(partition)
            for row in zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
        )

    def run(self, *, available_now: bool = True) -> list[Read]:
        """Micro-batches until nothing is left; those that read something."""
        if available_now:
            self.reader.prepareForTriggerAvailableNow()
        found = []
        while self.plan():
            found.append(self.read())
        return [batch for batch in found if batch]


@pytest.fixture
def stream(kafka: Any) -> Any:
    made: list[Stream] = []

    def stream(topic: str, **options: str) -> Stream:
        made.append(Stream(kafka.bootstrap_servers, **{"subscribe": topic, "startingOffsets": "earliest", **options}))
        return made[-1]

    yield stream
    for one in made:
        one.reader.stop()


@pytest.fixture(scope="module")
def admin(kafka: Any) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


def some(count: int, partition: int = 0) -> list[tuple[int, bytes, bytes]]:
    return [(partition, b"k%d" % n, b"v%d" % n) for n in range(count)]


def test_micro_batches_are_as_large_as_asked(stream: Any, kafka: Any, produce: Produce) -> None:
    topic = kafka.topic(partitions=3)
    produce(topic, [*some(50), *some(2, 1)])
    under = stream(topic, maxOffsetsPerTrigger="20")
    batches = under.run()
    assert [len(batch) for batch in batches] == [20, 20, 12]
    assert (topic, 1, 0) in batches[0], "a small partition is not starved by a large one"
    assert sorted(row for batch in batches for row in batch) == [
        *((topic, 0, n) for n in range(50)),
        *((topic, 1, n) for n in range(2)),
    ]
    assert under.run() == []


def test_all_that_is_there_is_taken_whatever_the_options_say_when_spark_asks_for_it(
    stream: Any, kafka: Any, produce: Produce
) -> None:
    topic = kafka.topic()
    produce(topic, some(9))
    under = stream(topic, maxOffsetsPerTrigger="2")
    assert under.reader.getDefaultReadLimit() == ReadMaxRows(2)
    assert under.plan()
    end = under.reader.latestOffset(under.checkpoint[-1], ReadAllAvailable())
    assert end[topic] == {"0": 9}


@pytest.mark.parametrize("millis", [-1, -2, -3, -3_600_000])
def test_a_query_that_starts_before_1970_starts_with_the_log(
    stream: Any, kafka: Any, cluster: Any, millis: int
) -> None:
    topic = kafka.topic()
    tp = TopicPartition(topic, 0)
    send_to(cluster, {tp: [Record(value=b"untimed")] * 2})
    send_to(cluster, {tp: [Record(value=b"timed", timestamp=1_767_225_600_000)]})
    under = stream(topic, startingTimestamp=str(millis))
    assert under.run() == [[(topic, 0, offset) for offset in range(3)]]


def test_available_now_reads_nothing_that_came_later(stream: Any, kafka: Any, produce: Produce) -> None:
    topic = kafka.topic()
    produce(topic, some(5))
    under = stream(topic)
    under.reader.prepareForTriggerAvailableNow()
    produce(topic, some(5))
    kafka.add_partitions(topic, 2)
    read = []
    while under.plan():
        read += under.read()
    assert [row[2] for row in read] == [0, 1, 2, 3, 4]


def test_few_offsets_wait_for_more_but_not_for_ever(stream: Any, kafka: Any, produce: Produce) -> None:
    topic = kafka.topic()
    produce(topic, some(5))
    under = stream(topic, minOffsetsPerTrigger="10")
    assert under.run(available_now=False) == []
    produce(topic, some(5))
    assert [len(batch) for batch in under.run(available_now=False)] == [10]
    produce(topic, some(1))
    assert under.run(available_now=False) == []
    under.restarted(maxTriggerDelay="0s")
    assert [len(batch) for batch in under.run(available_now=False)] == [1]
    produce(topic, some(1))
    under.restarted()
    assert [len(batch) for batch in under.run()] == [1]


def test_topics_and_partitions_that_appear_are_read_from_their_beginning(
    stream: Any, kafka: Any, produce: Produce, admin: AdminClient
) -> None:
    topic = kafka.topic(prefix="family")
    produce(topic, some(4))
    under = Stream(kafka.bootstrap_servers, subscribePattern=f"^{topic}")
    assert under.run() == [], "a new query begins at the end"
    other = f"{topic}-b"
    for done in admin.create_topics([NewTopic(other, 1, 1)], operation_timeout=30).values():
        done.result(30)
    kafka.add_partitions(topic, 2)
    produce(other, some(3))
    produce(topic, some(2, 1))
    under.restarted()
    (batch,) = under.run()
    assert batch == [(topic, 1, 0), (topic, 1, 1), *((other, 0, n) for n in range(3))]
    under.reader.stop()


def test_what_a_crash_repeats_lies_between_the_same_offsets(stream: Any, kafka: Any, produce: Produce) -> None:
    topic = kafka.topic()
    produce(topic, some(3))
    under = stream(topic, startingOffsets="latest")
    assert under.plan()
    produce(topic, some(3))
    under.restarted()
    assert under.read() == []  # the first micro-batch again
    assert under.plan()
    produce(topic, some(3))
    under.restarted()
    assert [row[2] for row in under.read()] == [3, 4, 5]
    assert under.run() == [[(topic, 0, 6), (topic, 0, 7), (topic, 0, 8)]]


def test_tasks_are_cut_as_those_of_a_batch_read(stream: Any, kafka: Any, produce: Produce) -> None:
    topic = kafka.topic()
    produce(topic, some(30))
    under = stream(topic, maxRecordsPerPartition="10")
    under.run()
    assert len(under.reader.partitions(under.checkpoint[0], under.checkpoint[1])) == 3


# -- what may not be gone on with


def test_a_topic_that_was_made_anew(stream: Any, kafka: Any, produce: Produce) -> None:
    """With more records than were read, so that no offset tells it."""
    topic = kafka.topic()
    produce(topic, some(5))
    under = stream(topic)
    under.run()
    produce(topic, some(1))
    under.restarted()
    assert under.plan()
    kafka.make_anew(topic)
    produce(topic, some(8))
    for step in (under.read, under.plan):
        under.restarted()
        with pytest.raises(Refused, match="deleted and created again") as caught:
            step()
        assert caught.value.code == "topic-recreated"
        assert str(caught.value).splitlines()[0].endswith(f" — {caught.value.remedy}"), "Spark shows no other line"
    under.restarted(failOnDataLoss="false")
    assert under.read() == [], "what was planned is gone"
    assert under.run() == [[(topic, 0, n) for n in range(8)]]


def test_records_that_retention_removed_before_they_were_read(
    stream: Any, kafka: Any, produce: Produce, admin: AdminClient
) -> None:
    topic = kafka.topic()
    produce(topic, some(20), **{"batch.num.messages": 1})
    under = stream(topic)
    under.run()
    produce(topic, some(20), **{"batch.num.messages": 1})
    for done in admin.delete_records([Place(topic, 0, 30)]).values():
        done.result(30)
    under.restarted()
    assert under.plan()
    with pytest.raises(OffsetsLost, match="offsets 20 to 29"):
        under.read()
    under.restarted(failOnDataLoss="false")
    assert [row[2] for row in under.read()] == list(range(30, 40))


def test_a_log_that_ends_below_what_was_read(stream: Any, kafka: Any, produce: Produce) -> None:
    topic = kafka.topic()
    produce(topic, some(5))
    under = stream(topic)
    under.run()
    under.checkpoint[-1][topic]["0"] = 9  # as if four records had been read that the cluster has lost since
    with pytest.raises(Refused, match="ends at 5") as caught:
        under.plan()
    assert caught.value.code == "log-truncated"
    under.restarted(failOnDataLoss="false")
    assert under.run(available_now=False) == []
    produce(topic, some(2))
    assert under.run(available_now=False) == [[(topic, 0, 5), (topic, 0, 6)]]


def test_another_cluster_is_refused_in_any_case(stream: Any, kafka: Any, produce: Produce) -> None:
    topic = kafka.topic()
    produce(topic, some(5))
    under = stream(topic, failOnDataLoss="false")
    under.run()
    under.checkpoint[-1]["@kseg"]["cluster"] = "elsewhere"
    with pytest.raises(Refused, match="cluster elsewhere"):
        under.plan()


def test_a_partition_that_is_not_asked_for_any_more(stream: Any, kafka: Any, produce: Produce) -> None:
    one, other = kafka.topic(), kafka.topic()
    produce(one, some(1))
    produce(other, some(1))
    under = stream(f"{one},{other}")
    under.run()
    produce(one, some(1))
    under.restarted(subscribe=one)
    with pytest.raises(Refused, match=f"has read {other}"):
        under.plan()
    under.restarted(subscribe=one, failOnDataLoss="false")
    assert under.run() == [[(one, 0, 1)]]


def test_a_named_topic_that_was_deleted_is_left_out_without_fail_on_data_loss(
    stream: Any, kafka: Any, produce: Produce, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "PAUSES", (0.1, 0.1))
    one, other = kafka.topic(), kafka.topic()
    produce(one, some(1))
    produce(other, some(1))
    under = stream(f"{one},{other}")
    under.run()
    for done in admin.delete_topics([other], operation_timeout=30).values():
        done.result(30)
    produce(one, some(1))
    with pytest.raises(Refused) as caught:
        under.run()
    assert caught.value.code == "topic-missing"
    under.restarted(failOnDataLoss="false")
    assert under.run() == [[(one, 0, 1)]]
    for done in admin.delete_topics([one], operation_timeout=30).values():
        done.result(30)
    assert under.run() == [], "no topic is left"
    assert under.checkpoint[-1]["@kseg"]["cluster"]


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "2"}, "minOffsetsPerTrigger"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "startingOffsets"),
    ],
)
def test_wrong_options_are_told(options: dict[str, str], path: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        StreamOptions.parse({"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders", **options})
    assert [fault.path for fault in caught.value.faults] == [path]


def test_files_are_no_stream() -> None:
    with pytest.raises(ConfigurationError, match="log files cannot be read as a stream"):
        StreamOptions.parse({"path": "/var/lib/kafka/data"})


def test_options_mean_what_they_mean_to_sparks_source() -> None:
    base = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders"}
    assert StreamOptions.parse(base).read.start == "latest"
    assert StreamOptions.parse({**base, "maxTriggerDelay": "5min"}).max_delay.total_seconds() == 300
    assert StreamOptions.parse({**base, "maxTriggerDelay": "1500"}).max_delay.total_seconds() == 1.5


# -- offsets


def test_offsets_of_sparks_own_source_are_read_and_a_strange_form_is_refused() -> None:
    read = StreamOffsets.of({"orders": {"0": 23, "1": 7}})
    assert read.offsets == {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): 7}
    assert not read.pinned
    assert StreamOffsets.of(read.document()).pinned
    for strange in ({"logOffset": 4}, {"orders": {"zero": 1}}, {"@kseg": {}}):
        with pytest.raises(Refused) as caught:
            StreamOffsets.of(strange)
        assert caught.value.code == "checkpoint-unreadable"


def test_a_micro_batch_that_sparks_own_source_began_is_refused_where_its_start_is_not_known(
    stream: Any, kafka: Any, produce: Produce
) -> None:
    topic = kafka.topic(partitions=2)
    produce(topic, some(5))
    under = stream(topic)
    for start in ({}, {topic: {"0": 1}}):  # {}: it is the query's very first
        with pytest.raises(Refused) as caught:
            under.reader.partitions(start, {topic: {"0": 5, "1": 0}})
        assert caught.value.code == "checkpoint-unfinished"
    assert len(under.reader.partitions({topic: {"0": 1, "1": 0}}, {topic: {"0": 5, "1": 0}})) == 1


def test_shares_add_up_to_the_limit() -> None:
    tps = [TopicPartition("t", n) for n in range(4)]
    starts = dict.fromkeys(tps, 10)
    ends = dict(zip(tps, (10, 11, 110, 1010), strict=True))
    for limit in (1, 2, 3, 10, 500, 1100, 1101, 5000):
        taken = take_at_most(limit, starts, ends)
        assert sum(taken[tp] - starts[tp] for tp in tps) == min(limit, 1101)
        assert all(starts[tp] <= taken[tp] <= ends[tp] for tp in tps)
        assert limit < 3 or all(taken[tp] > starts[tp] for tp in tps[1:])
