"""One range through a real broker: the right rows, every offset accounted for, whatever happens to the log."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from kseg.client import ClientConfig, Cluster, TopicPartition
from kseg.client.admin.quotas import alter_quotas, quota_entity
from kseg.client.errors import KafkaError
from kseg.etl.run.account import throttled_by_broker
from kseg.etl.source.decode_options import ADDRESS_COLUMNS, DecodeOptions
from kseg.etl.source.errors import NoProgress, OffsetsLost, TopicRecreated
from kseg.etl.source.range_result import LostRange, RangeResult
from kseg.etl.source.reader import RangeReader
from kseg.etl.source.resolve import log_bounds, resolve_topics
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.decode.engine import Limits

pytestmark = pytest.mark.broker


def read(task: RangeTask, config: ClientConfig, **options: Any) -> tuple[pa.Table, RangeResult]:
    reader = RangeReader(task, config, DecodeOptions(**options))
    batches = list(reader)
    assert reader.result.accounted, reader.result
    assert reader.result.data == sum(batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches, schema=DecodeOptions(**options).schema), reader.result


def offsets(table: pa.Table) -> list[int]:
    return table.column("offset").to_pylist()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def plain(kafka: Any, produce: Callable[..., None]) -> str:
    """5,000 records of about 1 KB, which do not compress, in lz4 batches of 20."""
    import random

    noise = random.Random(5)
    name: str = kafka.topic(prefix="plain")
    settings = {"compression.type": "lz4", "batch.num.messages": 20}
    produce(name, [(0, f"k{n}".encode(), noise.randbytes(1000)) for n in range(5000)], **settings)
    return name


@pytest.mark.rule(169)
def test_a_whole_range(client_config: ClientConfig, plain: str, read_back: Callable[..., Any]) -> None:
    table, outcome = read(RangeTask(plain, 0, 0, 5000), client_config)
    columns = (table.column(name).to_pylist() for name in ("partition", "offset", "key", "value"))
    assert list(zip(*columns, strict=True)) == read_back(plain)
    assert (outcome.data, outcome.control, outcome.aborted, outcome.absent) == (5000, 0, 0, 0)
    assert (outcome.high_watermark, outcome.last_stable_offset, outcome.log_start) == (5000, 5000, 0)
    assert outcome.bytes > 5_000_000
    assert outcome.rows_out is None


@pytest.mark.parametrize("fetch_ahead", [True, False])
def test_many_small_answers(client_config: ClientConfig, plain: str, fetch_ahead: bool) -> None:
    small = replace(client_config, max_partition_fetch_bytes=30_000)
    table, outcome = read(RangeTask(plain, 0, 7, 4321), small, fetch_ahead=fetch_ahead)
    assert offsets(table) == list(range(7, 4321))
    assert outcome.fetches > 20


def test_batches_are_cut_as_asked(client_config: ClientConfig, plain: str) -> None:
    options = DecodeOptions(limits=Limits(max_rows=700))
    lengths = [batch.num_rows for batch in RangeReader(RangeTask(plain, 0, 0, 5000), client_config, options)]
    assert max(lengths) <= 700
    assert sum(lengths) == 5000


def test_an_empty_range_asks_nobody() -> None:
    nobody = ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:1"}, client_id="x")
    table, outcome = read(RangeTask("t", 0, 9, 9), nobody)
    assert table.num_rows == 0
    assert outcome.fetches == 0


def test_the_outcome_is_known_at_the_end_only(client_config: ClientConfig, plain: str) -> None:
    reader = RangeReader(RangeTask(plain, 0, 0, 5000), client_config, DecodeOptions())
    assert next(iter(reader)).num_rows > 0
    with pytest.raises(RuntimeError, match="has not been read to its end"):
        _ = reader.result


def test_address_columns_repeat_the_records_own(client_config: ClientConfig, plain: str) -> None:
    table, _ = read(RangeTask(plain, 0, 10, 20), client_config, addresses=True, provenance=True)
    assert table.column_names[-3:] == list(ADDRESS_COLUMNS)
    for name, own in zip(ADDRESS_COLUMNS, ("topic", "partition", "offset"), strict=True):
        assert table.column(name) == table.column(own)


def test_what_a_quota_costs_is_told_by_broker(kafka: Any, client_config: ClientConfig, plain: str) -> None:
    slow = replace(client_config, client_id="kseg-slow", max_partition_fetch_bytes=100_000, fetch_max_bytes=100_000)
    entity = quota_entity(client_id=slow.client_id)
    with Cluster(client_config) as cluster:
        # A broker takes the mean of ten seconds: what is above the first 1,000 kB has to wait. It counts from when it
        # has heard of the quota, a moment after the controller.
        alter_quotas(cluster, {entity: {"consumer_byte_rate": 100_000.0}}).or_raise()
        outcomes = (read(RangeTask(plain, 0, 0, 1150), slow, fetch_ahead=False)[1] for _ in range(3))
        outcome = next(outcome for outcome in outcomes if outcome.throttled)
        alter_quotas(cluster, {entity: {"consumer_byte_rate": None}}).or_raise()
    [(broker, seconds)] = outcome.throttled
    assert broker == 1
    assert 0 < seconds <= outcome.waiting
    assert throttled_by_broker([outcome, outcome, replace(outcome, throttled=())]) == {1: 2 * seconds}


def test_options_and_outcomes_travel(client_config: ClientConfig, plain: str) -> None:
    options = DecodeOptions(provenance=True, limits=Limits(max_rows=5))
    assert pickle.loads(pickle.dumps(options)) == options
    _, outcome = read(RangeTask(plain, 0, 0, 10), client_config)
    lost = replace(outcome, lost=(LostRange(1, 2, "retention"),), gaps=((3, 4),), throttled=((1, 0.5),))
    assert RangeResult.from_json(lost.to_json()) == lost
    assert pickle.loads(pickle.dumps(lost)) == lost


# -- read_committed, wherever a range is cut


def test_every_split_point_gives_the_same_rows(
    client_config: ClientConfig,
    cluster: Cluster,
    transactions: Any,
    read_back: Callable[..., Any],
    scale: Callable[[int, int], int],
) -> None:
    transactions.run(producers=4, steps=scale(40, 200), seed=7, open_at_end=True)
    topic = transactions.topic
    bounds = log_bounds(cluster, [TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    end = bounds.last_stable
    assert end < bounds.high_watermark
    whole, outcome = read(RangeTask(topic, 0, 0, end), client_config)
    columns = (whole.column(name).to_pylist() for name in ("partition", "offset", "key", "value"))
    assert list(zip(*columns, strict=True)) == read_back(topic)
    assert set(whole.column("value").to_pylist()) <= set(transactions.committed)
    assert outcome.aborted > 10
    assert outcome.control > 5
    assert outcome.last_stable_offset == end
    for cut in range(1, end):
        first, told_first = read(RangeTask(topic, 0, 0, cut), client_config, fetch_ahead=bool(cut % 2))
        second, told_second = read(RangeTask(topic, 0, cut, end), client_config, fetch_ahead=bool(cut % 2))
        assert pa.concat_tables([first, second]).equals(whole), f"cut at {cut}"
        for kind in ("data", "control", "aborted", "absent"):
            assert getattr(told_first, kind) + getattr(told_second, kind) == getattr(outcome, kind), f"cut at {cut}"


@pytest.mark.rule(166)
def test_read_uncommitted_reads_what_is_undecided(
    client_config: ClientConfig, cluster: Cluster, transactions: Any
) -> None:
    transactions.run(producers=2, steps=12, seed=3, open_at_end=True)
    partition = TopicPartition(transactions.topic, 0)
    end = log_bounds(cluster, [partition])[partition].high_watermark
    task = RangeTask(transactions.topic, 0, 0, end)
    _, outcome = read(task, client_config, isolation_level="read_uncommitted")
    assert outcome.aborted == 0
    assert outcome.data + outcome.control == end
    assert outcome.last_stable_offset < outcome.high_watermark == end


# -- logs that lose their records


@pytest.fixture
def trimmed(kafka: Any, produce: Callable[..., None]) -> str:
    """20 records in batches of one, of which the first 8 are deleted."""
    name: str = kafka.topic(prefix="trimmed")
    produce(name, [(0, b"k", b"v")] * 20, **{"batch.num.messages": 1})
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for done in admin.delete_records([Place(name, 0, 8)]).values():
        done.result(30)
    return name


def test_offsets_below_the_log_start_are_an_error(client_config: ClientConfig, trimmed: str) -> None:
    with pytest.raises(OffsetsLost) as caught:
        read(RangeTask(trimmed, 0, 3, 15), client_config)
    lost = caught.value
    assert (lost.first, lost.last, lost.reason) == (3, 8, "retention")
    assert lost.address == {"topic": trimmed, "partition": 0, "offset": 3}
    assert not lost.retriable
    assert pickle.loads(pickle.dumps(lost)).__dict__ == lost.__dict__


def test_lost_offsets_can_be_recorded(client_config: ClientConfig, trimmed: str) -> None:
    table, outcome = read(RangeTask(trimmed, 0, 3, 15), client_config, on_data_loss="record")
    assert offsets(table) == list(range(8, 15))
    assert outcome.lost == (LostRange(3, 8, "retention"),)
    assert outcome.absent == 5
    assert outcome.gaps == ()
    assert outcome.gap_count == 0


def test_a_range_may_be_lost_whole(client_config: ClientConfig, trimmed: str) -> None:
    table, outcome = read(RangeTask(trimmed, 0, 2, 6), client_config, on_data_loss="record")
    assert table.num_rows == 0
    assert outcome.lost == (LostRange(2, 6, "retention"),)
    assert outcome.absent == 4


def test_offsets_above_the_logs_end_are_lost_to_truncation(client_config: ClientConfig, trimmed: str) -> None:
    with pytest.raises(OffsetsLost) as caught:
        read(RangeTask(trimmed, 0, 30, 40), client_config)
    assert caught.value.reason == "truncation"
    _, outcome = read(RangeTask(trimmed, 0, 30, 40), client_config, on_data_loss="record")
    assert outcome.lost == (LostRange(30, 40, "truncation"),)


def test_a_broker_without_more_records_is_waited_for_and_then_named(client_config: ClientConfig, trimmed: str) -> None:
    hasty = replace(client_config, default_api_timeout_ms=3000, fetch_max_wait_ms=100)
    with pytest.raises(NoProgress) as caught:
        read(RangeTask(trimmed, 0, 10, 25), hasty)
    assert caught.value.retriable
    assert caught.value.address == {"topic": trimmed, "partition": 0, "offset": 20}


def test_a_topic_that_was_created_again_is_not_read(
    kafka: Any, client_config: ClientConfig, produce: Callable[..., None]
) -> None:
    name: str = kafka.topic(prefix="recreated")
    produce(name, [(0, b"k", b"old")] * 3)
    with Cluster(client_config) as cluster:
        topic_id = resolve_topics(cluster, topics=[name])[TopicPartition(name, 0)].topic_id
    kafka.make_anew(name)
    produce(name, [(0, b"k", b"new")] * 3)
    with pytest.raises(TopicRecreated, match="recreated") as caught:
        read(RangeTask(name, 0, 0, 3, topic_id=topic_id), replace(client_config, default_api_timeout_ms=3000))
    assert (caught.value.code, caught.value.exit_code) == ("topic-recreated", 3)


def test_an_unreachable_cluster_is_told_as_such(plain: str) -> None:
    nobody = ClientConfig.from_properties(
        {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "500"}, client_id="x"
    )
    with pytest.raises(KafkaError) as caught:
        read(RangeTask(plain, 0, 0, 5), nobody)
    assert caught.value.retriable
