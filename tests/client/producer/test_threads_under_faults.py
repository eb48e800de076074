"""Threads that send, flush and are overtaken by `close`, while requests and responses are lost: nothing waits for ever,
and what a delivery says is true."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.client.errors import KafkaError
from kseg.client.producer import Delivery, ProducerClosed
from kseg.client.protocol.error_codes import ErrorCode

PARTITIONS = 3
FAULTS: list[Any] = [
    "lost before",
    "lost after",
    "silent",
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    {0: ErrorCode.REQUEST_TIMED_OUT},
    {1: ErrorCode.TOPIC_AUTHORIZATION_FAILED},
]
#: Of a leader that does not have the batch yet: it checks these before it recognizes a duplicate.
REJECTIONS = [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD]


@pytest.mark.rule(53)
@pytest.mark.parametrize("seed", range(6))
def test_every_delivery_ends_and_is_true_whatever_is_lost_and_whenever_it_is_closed(
    fakes: Any, leader_on: Any, producing: Any, scale: Any, seed: int
):
    for run in range(scale(1, 20)):
        broker = fakes.start()  # another one each time: it may still have requests of the last producer
        one_run(leader_on(broker, PARTITIONS), producing, random.Random(seed + 100 * run))


def one_run(leader: Any, producing: Any, chance: random.Random) -> None:
    def script(batches: list[Any]) -> Any:
        if chance.random() < 0.7:
            return None
        if chance.random() < 0.2:
            there = any(value in leader.logs[batch.tp].values for batch in batches for value in batch.values)
            return None if there else chance.choice(REJECTIONS)
        return chance.choice(FAULTS)

    leader.script = script
    producer = producing(
        leader.fake.bootstrap_servers,
        retry_backoff_ms=5,
        retry_backoff_max_ms=20,
        request_timeout_ms=60,
        delivery_timeout_ms=chance.choice([150, 400, 5000]),
        batch_size=chance.choice([0, 200, 2000]),
        buffer_memory=chance.choice([1000, 5000, 10**6]),
        max_block_ms=200,
        linger_ms=chance.choice([0, 3]),
    )
    sent: list[list[tuple[bytes, Delivery]]] = [[] for _ in range(PARTITIONS)]
    flushes = chance.random() < 0.5

    def work(partition: int) -> None:
        for number in range(200):
            value = b"%05d" % number
            try:
                sent[partition].append((value, producer.send("t", value, partition=partition)))
                if flushes and number % 50 == 0:
                    producer.flush(60)
            except ProducerClosed:
                return
            except KafkaError:
                pass  # no memory, or no response in time: the next one

    threads = [threading.Thread(target=work, args=(partition,)) for partition in range(PARTITIONS)]
    for thread in threads:
        thread.start()
    if chance.random() < 0.5:
        time.sleep(chance.random() * 0.3)
    else:
        for thread in threads:
            thread.join(120)
    producer.close(chance.choice([None, 0, 0.1]))
    for thread in [*threads, producer._sender._thread]:
        if thread.ident is not None:  # it may have been closed before the first record
            thread.join(120)
            assert not thread.is_alive()
    for partition, records in enumerate(sent):
        log = leader.logs[TopicPartition("t", partition)].values
        assert log == sorted(set(log)), "each once, in order"
        assert all(delivery.done() for _, delivery in records)
        errors = {value: delivery.exception(0) for value, delivery in records}
        assert [value for value, error in errors.items() if error is None and value not in log] == []
        assert [value for value, error in errors.items() if error and not error.sent and value in log] == []
