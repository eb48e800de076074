"""Reading many partitions of the real broker, with its fetch sessions."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from kseg.client import KafkaError, TopicPartition
from kseg.client.admin.topics import NewTopic, create_topics
from kseg.client.fetch.many_reader import ManyReader, fetch_many
from kseg.segment_reader.decode.next_offset import next_offset
from kseg.segment_reader.encode.batches import Record
from sending import send_to


def now() -> int:
    return int(time.time() * 1000)


def test_many_small_partitions_of_the_real_broker_are_read_whole(cluster: Any):
    topic = f"many-{uuid.uuid4()}"
    create_topics(cluster, [NewTopic(topic, partitions=40, replication_factor=1)]).or_raise()
    partitions = [TopicPartition(topic, number) for number in range(40)]
    for round_ in range(3):
        records = {tp: [Record(value=b"%d-%d" % (tp.partition, round_), timestamp=now())] * 5 for tp in partitions}
        send_to(cluster, records)
    found: dict[TopicPartition, bytes] = dict.fromkeys(partitions, b"")
    reached = dict.fromkeys(partitions, 0)
    wanted = dict.fromkeys(partitions, (0, 15))
    for tp, fetched in fetch_many(
        cluster, wanted, next_offset, isolation_level="read_committed", partition_max_bytes=100, max_bytes=2000
    ):
        assert fetched.fetch_offset == reached[tp]
        reached[tp] = next_offset(fetched.records, reached[tp])
        found[tp] += bytes(fetched.records)
    assert set(reached.values()) == {15}
    for tp, data in found.items():
        for round_ in range(3):
            assert data.count(b"%d-%d" % (tp.partition, round_)) >= 5


@pytest.mark.rule(159)
def test_the_real_brokers_session_is_used_and_its_loss_survived(cluster: Any, kafka: Any):
    tp, other = (TopicPartition(kafka.topic(2), number) for number in range(2))
    other = TopicPartition(tp.topic, 1)
    with ManyReader(cluster, isolation_level="read_committed", max_wait_ms=50) as reader:
        reader.add(tp, 0)
        reader.add(other, 0)
        reader.poll()
        [fetcher] = reader._fetchers.values()
        session_id = fetcher.session.session_id
        assert session_id > 0

        def read_one(offset: int) -> None:
            send_to(cluster, {tp: [Record(value=b"v", timestamp=now())]})
            until = time.monotonic() + 120
            while time.monotonic() < until:
                for found, fetched in reader.poll():
                    assert not isinstance(fetched, KafkaError)
                    if found == tp and next_offset(fetched.records, offset) > offset:
                        reader.seek(tp, offset + 1)
                        return
            pytest.fail("nothing came")

        read_one(0)
        assert (fetcher.session.session_id, fetcher.session.epoch > 1) == (session_id, True)
        while not fetcher.requested:
            reader.send_fetches()
        reader.poll()
        fetcher.session.epoch += 7  # as if answers had been lost
        read_one(1)
        fetcher.session.session_id = 12345  # as if the broker had dropped it
        read_one(2)
        assert fetcher.session.session_id not in (12345, 0)
