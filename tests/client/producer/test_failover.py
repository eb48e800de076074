"""Three real brokers, of which one dies while records are under way: each record arrives once, in order."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

from kseg.client.admin.topics import NewTopic, create_topics
from kseg.client.errors import DeliveryTimedOut

PARTITIONS = 6


def test_a_leader_that_is_killed_costs_no_record_no_order_and_no_duplicate(
    kafka3: Any, connect: Any, producing: Any, read_back: Any, await_markers: Any, scale: Any
):
    cluster = connect(kafka3.bootstrap_servers)
    plain_topic, tx_topic, strict_topic = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("plain", "tx", "strict"))
    create_topics(cluster, [NewTopic(name, PARTITIONS, 3) for name in (plain_topic, tx_topic)])
    create_topics(cluster, [NewTopic(strict_topic, 1, 3, config={"min.insync.replicas": "3"})])
    count = scale(1000, 100_000)
    leaders = {
        p.partition: p.leader_id for p in cluster.metadata([plain_topic]).topics[plain_topic].partitions.values()
    }
    assert set(leaders.values()) == {1, 2, 3}
    quick = {"request_timeout_ms": 5000, "batch_size": 2000, "linger_ms": 2}
    plain = producing(kafka3.bootstrap_servers, **quick)
    # Open from the first record to the end, across the leader's death: no time of the coordinator's may cut it short.
    transactional = producing(
        kafka3.bootstrap_servers, transactional_id=tx_topic, transaction_timeout_ms=600_000, **quick
    )
    transactional.begin()
    half = threading.Event()
    deliveries: dict[int, list[Any]] = {partition: [] for partition in range(PARTITIONS)}

    def send() -> None:
        for number in range(count):
            for partition in range(PARTITIONS):
                deliveries[partition].append(plain.send(plain_topic, b"%d" % number, partition=partition))
                transactional.send(tx_topic, b"%d" % number, partition=partition)
            if number == count // 2:
                half.set()

    thread = threading.Thread(target=send)
    thread.start()
    assert half.wait(120)
    victim = leaders[0]
    kafka3.broker.kill(victim)
    thread.join(240)
    assert not thread.is_alive()
    plain.flush(120)
    transactional.commit()
    expected = [b"%d" % number for number in range(count)]
    await_markers(kafka3.bootstrap_servers, tx_topic)

    def leaders_now() -> set[int]:
        partitions = cluster.metadata([plain_topic], refresh=True).topics[plain_topic].partitions
        return {partition.leader_id for partition in partitions.values()}

    until = time.monotonic() + 120
    while victim in leaders_now():  # whichever broker answers may have heard of it later than the new leaders
        assert time.monotonic() < until
        time.sleep(0.1)
    for partition in range(PARTITIONS):
        messages = read_back(kafka3.bootstrap_servers, plain_topic, partition)
        assert [m.value() for m in messages] == expected
        # Where a repeated batch was known already, its leader may have forgotten where it is.
        told = [d.result(0).offset for d in deliveries[partition]]
        assert [t for t in told if t >= 0] == [m.offset() for m, t in zip(messages, told, strict=True) if t >= 0]
        assert [m.value() for m in read_back(kafka3.bootstrap_servers, tx_topic, partition)] == expected

    # Two of three are left, and this topic wants three.
    strict = producing(kafka3.bootstrap_servers, request_timeout_ms=5000, delivery_timeout_ms=8000, linger_ms=0)
    error = strict.send(strict_topic, b"v").exception(60)
    assert isinstance(error, DeliveryTimedOut)
    assert "NOT_ENOUGH_REPLICAS" in str(error)
