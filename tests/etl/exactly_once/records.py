"""Topics whose records are known from the producer's delivery reports, and a group's offsets, through librdkafka alone:
nothing of it comes from the code under test."""

from __future__ import annotations

import itertools
import os
import time
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec

Row = tuple[str, int, int, bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
"""topic, partition, offset, key, value, timestamp (ms), headers"""

_NO_COORDINATOR = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


class Records:
    """Writes topics, and knows which records of theirs count."""

    def __init__(self, kafka: Any) -> None:
        self.kafka = kafka
        self.settings = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}
        self.admin = AdminClient(self.settings)
        self.forget_metadata()
        self._rows: dict[str, list[Row]] = {}
        self._aborted: dict[str, list[Row]] = {}
        self._numbers = itertools.count()

    def topic(self, partitions: int = 2, config: dict[str, str] | None = None) -> str:
        name: str = self.kafka.topic(partitions, config, prefix="orders")
        self._rows[name], self._aborted[name] = [], []
        return name

    def configure(self, kind: Any, name: str, **entries: str | None) -> None:
        """Set properties of a topic or broker, dots written as underscores, until the broker has them. None: unset."""
        changes = [
            ConfigEntry(
                key.replace("_", "."),
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for key, value in entries.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=changes)
        for changed in self.admin.incremental_alter_configs([resource]).values():
            changed.result(60)
        # The broker hears of it a moment after the controller.
        wanted = {key.replace("_", "."): value for key, value in entries.items() if value is not None}
        deadline = time.monotonic() + 60
        while True:
            asked = self.admin.describe_configs([ConfigResource(kind, name)], request_timeout=60)
            (told,) = (described.result(60) for described in asked.values())
            if all(told[key].value == value for key, value in wanted.items()):
                return
            assert time.monotonic() < deadline, wanted
            time.sleep(0.05)

    def forget_metadata(self) -> None:
        """Producers learn of new partitions in minutes, else."""
        self._plain = Producer(self.settings | {"linger.ms": 5})
        self._transactional: Producer | None = None

    def write(
        self, topic: str, partition: int, count: int, *, transaction: str | None = None, timestamp: int = 0
    ) -> list[Row]:
        """Records with new values. transaction: `commit` or `abort`; None is without one. timestamp: ms, 0 is now.

        A transaction's marker may be written a moment after this: see `settle`.
        """
        producer = self._plain if transaction is None else self._in_transaction()
        written: list[Row] = []
        for _ in range(count):
            number = next(self._numbers)
            key, value = (None if number % 7 == 0 else b"k%d" % number), b"value %d" % number
            headers = (("a", b"%d" % number), ("a", None)) if number % 3 == 0 else ()

            def delivered(error: Any, message: Any, key: Any = key, value: Any = value, headers: Any = headers) -> None:
                assert error is None, error
                place = (message.topic(), message.partition(), message.offset())
                written.append((*place, key, value, message.timestamp()[1], headers))

            producer.produce(
                topic,
                key=key,
                value=value,
                headers=list(headers) or None,
                partition=partition,
                timestamp=timestamp,
                on_delivery=delivered,
            )
        assert producer.flush(60) == 0
        if transaction == "commit":
            producer.commit_transaction(60)
        if transaction == "abort":
            producer.abort_transaction(60)
        (self._aborted if transaction == "abort" else self._rows)[topic] += written
        return written

    def write_keys(self, topic: str, keys: list[bytes], *, timestamp: int) -> None:
        """One record a key; not kept in mind, since compaction will have its say."""
        for key in keys:
            self._plain.produce(topic, key=key, value=b"v", partition=0, timestamp=timestamp)
        assert self._plain.flush(60) == 0

    def write_alone(self, topic: str, count: int) -> None:
        """Records of partition 0, each in a batch of its own; not kept in mind, since they are damaged next."""
        producer = Producer(self.settings | {"batch.num.messages": 1})
        for number in range(count):
            producer.produce(topic, value=b"value %d" % number, partition=0)
        assert producer.flush(60) == 0

    def write_mixed(self, topic: str, partitions: int = 2, rounds: int = 2, count: int = 15) -> None:
        """Committed, aborted and plain records in turn, in every partition; the last thing in each log is an abort."""
        for _ in range(rounds):
            for partition in range(partitions):
                self.write(topic, partition, count, transaction="commit")
                self.write(topic, partition, count)
                self.write(topic, partition, count // 3, transaction="abort")
        self.settle(topic)

    def _in_transaction(self) -> Producer:
        if self._transactional is None:
            self._transactional = Producer(self.settings | {"transactional.id": f"t-{os.getpid()}"})
            self._transactional.init_transactions(60)
        self._transactional.begin_transaction()
        return self._transactional

    def rows(self, *topics: str, aborted: bool = False) -> list[Row]:
        """What of these topics counts: all but the aborted, or those as well."""
        stores = (self._rows, self._aborted) if aborted else (self._rows,)
        return sorted(row for store in stores for topic in topics for row in store[topic])

    def ends(self, *topics: str, stable: bool = True) -> dict[tuple[str, int], int]:
        """Each partition's last stable offset (or its high watermark)."""
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        partitions = [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in self.admin.list_topics(topic, timeout=60).topics[topic].partitions
        ]
        asked = dict.fromkeys(partitions, OffsetSpec.latest())
        listed = self.admin.list_offsets(asked, isolation_level=level, request_timeout=60)
        return {(tp.topic, tp.partition): found.result(60).offset for tp, found in listed.items()}

    def settle(self, *topics: str) -> None:
        """Wait for the markers of all transactions: a producer is told of the end before they are written."""
        deadline = time.monotonic() + 60
        while self.ends(*topics) != self.ends(*topics, stable=False):
            assert time.monotonic() < deadline, "markers are missing"
            time.sleep(0.01)

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """The stable offsets that a group has, in all topics there are.

        Asked by a consumer that never joins the group: librdkafka's admin client takes the process down with it if
        the group's coordinator has just moved or is not loaded yet (librdkafka's issue 5040). A consumer raises then.
        """
        topics = self.admin.list_topics(timeout=60).topics.values()
        asked = [TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions]
        consumer = Consumer(self.settings | {"group.id": group, "isolation.level": "read_committed"})
        deadline = time.monotonic() + 60
        try:
            while True:
                try:
                    found = consumer.committed(asked, timeout=60)
                    break
                except KafkaException as error:
                    if error.args[0].code() not in _NO_COORDINATOR or time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
        finally:
            consumer.close()
        assert not any(tp.error for tp in found)
        return {(tp.topic, tp.partition): tp.offset for tp in found if tp.offset >= 0}

    def set_group_offsets(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(*tp, offset) for tp, offset in offsets.items()])]
        altered = self.admin.alter_consumer_group_offsets(asked, request_timeout=60)[group].result(60)
        assert not any(tp.error for tp in altered.topic_partitions)

    def delete_group(self, group: str) -> None:
        self.admin.delete_consumer_groups([group], request_timeout=60)[group].result(60)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        tp = TopicPartition(topic, partition, before)
        for deleted in self.admin.delete_records([tp], request_timeout=60).values():
            deleted.result(60)
