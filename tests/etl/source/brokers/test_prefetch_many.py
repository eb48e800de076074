"""Many small ranges fetched together give what each gives alone, by far fewer requests, whatever happens to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from kseg.client import ClientConfig
from kseg.client.admin.quotas import alter_quotas, quota_entity
from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import UnknownTopic
from kseg.client.wire.trace import TRAFFIC
from kseg.etl.run.account import throttled_by_broker
from kseg.etl.source.brokers.prefetch_many import MOST_AT_ONCE
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import OffsetsLost
from kseg.etl.source.range_result import LostRange, RangeResult
from kseg.etl.source.reader import readers
from kseg.etl.source.resolve import log_bounds, resolve_topics
from kseg.etl.source.tasks import RangeTask

pytestmark = pytest.mark.broker

PARTITIONS = 120


@pytest.fixture(scope="module")
def topics(kafka: Any, produce: Callable[..., None]) -> list[str]:
    """Two topics; each partition has seven records more than the one before, up to 70."""
    names = [kafka.topic(partitions=PARTITIONS // 2, prefix="small") for _ in range(2)]
    for name in names:
        produce(name, [(p, b"k", b"%d-%d" % (p, n)) for p in range(PARTITIONS // 2) for n in range(count(p))])
    return names


def count(partition: int) -> int:
    return 7 * (1 + partition % 10)


def ranges(topics: list[str]) -> list[RangeTask]:
    """The first records of each partition, those behind them, and nothing; numbered in the order of the partitions."""
    tasks = []
    for name in topics:
        for p in range(PARTITIONS // 2):
            middle = count(p) // 2
            tasks += [RangeTask(name, p, *bounds) for bounds in ((0, middle), (middle, count(p)), (5, 5))]
    return [replace(task, index=number) for number, task in enumerate(tasks)]


def read(
    tasks: Sequence[RangeTask], config: ClientConfig, *, together: bool, **options: Any
) -> tuple[list[list[tuple[Any, ...]]], list[RangeResult], dict[str, int]]:
    """Each range's rows and outcome, and how often each API was asked."""
    wanted = DecodeOptions(**options)
    TRAFFIC.reset()
    rows, outcomes = [], []
    with readers(tasks if together else (), config, wanted) as reader_of:
        for task in tasks:
            reader = reader_of(task, None)
            rows.append([tuple(row.values()) for batch in reader for row in batch.to_pylist()])
            outcomes.append(reader.result)
    asked: dict[str, int] = {}
    for (_, api, _), tally in TRAFFIC.snapshot().items():
        asked[api] = asked.get(api, 0) + tally.requests
    return rows, outcomes, asked


def test_the_rows_are_those_of_each_range_alone(client_config: ClientConfig, topics: list[str]) -> None:
    tasks = ranges(topics)
    alone, outcomes_alone, asked_alone = read(tasks, client_config, together=False)
    together, outcomes, asked = read(tasks, client_config, together=True)
    assert together == alone
    assert [outcome.what_was_read for outcome in outcomes] == [outcome.what_was_read for outcome in outcomes_alone]
    assert all(outcome.accounted for outcome in outcomes)
    assert sum(map(len, together)) == sum(count(p) for p in range(PARTITIONS // 2)) * 2
    # Two ranges of each partition, the second asked for after the first; each range alone has a connection of its own.
    assert asked_alone["ApiVersions"] >= 2 * PARTITIONS
    assert asked["ApiVersions"] <= 2
    assert asked["Metadata"] <= 2
    assert asked["Fetch"] <= asked_alone["Fetch"]


def test_a_range_a_partition_takes_a_request_for_many(client_config: ClientConfig, topics: list[str]) -> None:
    tasks = [RangeTask(topics[0], p, 0, count(p), index=p) for p in range(PARTITIONS // 2)]
    rows, _, asked = read(tasks, client_config, together=True)
    assert len(tasks) < MOST_AT_ONCE
    assert [len(found) for found in rows] == [count(p) for p in range(PARTITIONS // 2)]
    assert asked["Fetch"] == 1


def test_answers_that_are_full_leave_ranges_for_later(client_config: ClientConfig, topics: list[str]) -> None:
    tasks = [RangeTask(topics[1], p, 0, count(p), index=p) for p in range(PARTITIONS // 2)]
    tight = replace(client_config, fetch_max_bytes=2000)
    rows, outcomes, _ = read(tasks, tight, together=True)
    assert [len(found) for found in rows] == [count(p) for p in range(PARTITIONS // 2)]
    assert all(outcome.absent == 0 for outcome in outcomes)


def test_offsets_that_are_gone_are_told_of_their_own_range(
    client_config: ClientConfig, kafka: Any, produce: Callable[..., None]
) -> None:
    topic = kafka.topic(partitions=3, prefix="gone")
    produce(topic, [(p, b"k", b"%d" % n) for p in range(3) for n in range(20)])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for deleted in admin.delete_records([Place(topic, 1, 8)]).values():
        deleted.result(timeout=30)
    tasks = [RangeTask(topic, p, 0, 20, index=p) for p in range(3)]
    with pytest.raises(OffsetsLost) as caught:
        read(tasks, client_config, together=True)
    assert (caught.value.address["partition"], caught.value.first, caught.value.last) == (1, 0, 8)
    rows, outcomes, _ = read(tasks, client_config, together=True, on_data_loss="record")
    assert list(map(len, rows)) == [20, 12, 20]
    assert [outcome.lost for outcome in outcomes] == [(), (LostRange(0, 8, "retention"),), ()]


def test_what_transactions_left_behind_is_told_apart(
    client_config: ClientConfig, kafka: Any, produce: Callable[..., None], transactions: Any
) -> None:
    topic = kafka.topic(prefix="fates")
    transactions.run(producers=2, steps=40, seed=7, open_at_end=True)
    produce(topic, [(0, b"k", b"v")])
    with Cluster(client_config) as cluster:
        bounds = log_bounds(cluster, resolve_topics(cluster, topics=[transactions.topic, topic]))
    tasks = [RangeTask(tp.topic, 0, 0, log.last_stable, index=n) for n, (tp, log) in enumerate(bounds.items())]
    together, outcomes, _ = read(tasks, client_config, together=True)
    alone, outcomes_alone, _ = read(tasks, client_config, together=False)
    assert together == alone
    assert [outcome.what_was_read for outcome in outcomes] == [outcome.what_was_read for outcome in outcomes_alone]
    undecided = next(outcome for outcome in outcomes if outcome.topic == transactions.topic)
    assert undecided.data == len(transactions.committed) > 0
    assert undecided.aborted > 0


def test_a_topic_that_is_not_there_is_named(client_config: ClientConfig, topics: list[str]) -> None:
    hasty = replace(client_config, default_api_timeout_ms=3000)
    tasks = [RangeTask(topics[0], 0, 0, 5), RangeTask("no-such-topic", 0, 0, 5, index=1)]
    with pytest.raises(UnknownTopic) as caught:
        read(tasks, hasty, together=True)
    assert caught.value.topic == "no-such-topic"


def test_a_throttled_answer_counts_once(client_config: ClientConfig, kafka: Any, produce: Callable[..., None]) -> None:
    topic = kafka.topic(partitions=30, prefix="quota")
    produce(topic, [(p, b"k", bytes(40_000)) for p in range(30)])
    # Answers are of ten partitions or so. A broker takes the mean of ten seconds: what is above 1,000 kB has to wait.
    config = replace(client_config, client_id="kseg-quota-together", fetch_max_bytes=400_000)
    entity = quota_entity(client_id=config.client_id)
    tasks = [RangeTask(topic, p, 0, 1, index=p) for p in range(30)]
    with Cluster(client_config) as admin:
        alter_quotas(admin, {entity: {"consumer_byte_rate": 100_000.0}}).or_raise()
        for _ in range(3):  # it counts from when it has heard of the quota, a moment after the controller
            _, outcomes, _ = read(tasks, config, together=True)
            told = sum(tally.throttled_ms for (_, api, _), tally in TRAFFIC.snapshot().items() if api == "Fetch")
            if told:
                break
        alter_quotas(admin, {entity: {"consumer_byte_rate": None}}).or_raise()
    assert told > 0
    assert sum(throttled_by_broker(outcomes).values()) == pytest.approx(told / 1000)
