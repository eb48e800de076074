"""Transactions from outside: told by leaders, coordinators and all brokers; a hanging one is ended."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kseg.client import LATEST, Fenced, TopicPartition, Transaction, TransactionError, UnsupportedVersion, list_offsets
from kseg.client.admin.topics import NewTopic, create_topics
from kseg.client.admin.transactions import (
    abort_transaction,
    describe_producers,
    describe_transactions,
    fence_producer,
    list_transactions,
)
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)
from kseg.segment_reader.encode.batches import Record
from sending import begin_with
from skips import full_scale_only


def stable(cluster: Any, tp: TopicPartition) -> int:
    return list_offsets(cluster, {tp: LATEST}, isolation_level="read_committed")[tp].offset


@pytest.fixture
def tp(cluster: Any, name: str) -> TopicPartition:
    create_topics(cluster, [NewTopic(name, 1, 1)]).or_raise()
    return TopicPartition(name, 0)


@pytest.fixture
def open_transaction(cluster: Any, name: str, tp: TopicPartition) -> Any:
    """A transaction that has written one record and is not decided."""
    yield begin_with(cluster, name, {tp: [Record(value=b"v")]})
    fence_producer(cluster, name)


def test_every_version_tells_the_open_transaction(
    cluster: Any, each_version: Any, name: str, tp: TopicPartition, open_transaction: Transaction, until: Any
):
    ids = (open_transaction.producer_id, open_transaction.producer_epoch)
    for _ in each_version(cluster, DescribeProducersRequest):
        results = describe_producers(cluster, [tp])
        [producer] = results.or_raise()[tp]
        assert (producer.producer_id, producer.epoch) == ids
        assert producer.transaction_start == 0
        assert producer.last_sequence == 0

    for _ in each_version(cluster, DescribeTransactionsRequest):
        told = describe_transactions(cluster, [name, f"{name}-none"])
        found = told.done()[name]
        assert (found.state, found.producer_id, found.producer_epoch) == ("Ongoing", *ids)
        assert found.partitions == {tp}
        assert found.timeout_ms == 60_000
        assert found.start_ms is not None
        none = told.failed()[f"{name}-none"]
        assert (none.code, none.transactional_id) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"{name}-none")

    def listed(**filters: Any) -> set[str]:
        found = list_transactions(cluster, **filters).or_raise()
        return {entry.transactional_id for entries in found.values() for entry in entries}

    for version in each_version(cluster, ListTransactionsRequest):
        assert name in listed()
        assert name in listed(states=["Ongoing"])
        assert name not in listed(states=["Empty", "CompleteCommit"])
        assert listed(producer_ids=[ids[0]]) == {name}
        if version >= 1:
            assert name in listed(longer_than_ms=0)
            assert name not in listed(longer_than_ms=3_600_000)
        else:
            assert isinstance(list_transactions(cluster, longer_than_ms=0)[1], UnsupportedVersion)
        if version >= 2:
            assert listed(pattern=f"{re.escape(name)}.*") == {name}
            assert name not in listed(pattern="nothing-like-it")
        else:
            assert isinstance(list_transactions(cluster, pattern=".*")[1], UnsupportedVersion)
        unknown = list_transactions(cluster, states=["Sleeping"])[1]
        assert isinstance(unknown, TransactionError)
        assert "Sleeping" in str(unknown)

    open_transaction.commit()
    assert until(lambda: describe_transactions(cluster, [name]).or_raise()[name].state == "CompleteCommit")
    assert describe_transactions(cluster, [name]).or_raise()[name].start_ms is not None
    assert describe_producers(cluster, [tp]).or_raise()[tp][0].transaction_start is None


@full_scale_only
def test_every_broker_lists_the_transactions_that_it_coordinates(three: Any, name: str):
    for number in range(9):
        Transaction(three, f"{name}-{number}").begin()
    told = list_transactions(three).or_raise()
    assert set(told) == {1, 2, 3}
    mine = {
        node: {t.transactional_id for t in found if t.transactional_id.startswith(name)} for node, found in told.items()
    }
    assert set().union(*mine.values()) == {f"{name}-{number}" for number in range(9)}
    assert sum(len(found) for found in mine.values()) == 9
    assert describe_transactions(three, [f"{name}-{number}" for number in range(9)]).failed() == {}


def test_fencing_a_producer_ends_what_it_left_open(
    cluster: Any, name: str, tp: TopicPartition, open_transaction: Transaction, until: Any
):
    assert stable(cluster, tp) == 0
    _, epoch = fence_producer(cluster, name)
    assert epoch > open_transaction.producer_epoch
    assert until(lambda: stable(cluster, tp) == 2)
    with pytest.raises(Fenced):
        open_transaction.commit()


@pytest.mark.rule(243, 303)
def test_every_version_aborts_a_hanging_transaction(any_cluster: Any, each_version: Any, name: str):
    """Its coordinator knows nothing of it: as if it had answered before it had written, which is what KIP-664 mends.

    Here the marker goes past a coordinator that does know. For the partition it is the same.
    """
    for version in each_version(any_cluster, WriteTxnMarkersRequest):
        topic = f"{name}-{version}"
        create_topics(any_cluster, [NewTopic(topic, 1, 1)]).or_raise()
        tp = TopicPartition(topic, 0)
        begin_with(any_cluster, topic, {tp: [Record(value=b"v")]})
        assert stable(any_cluster, tp) == 0
        [producer] = describe_producers(any_cluster, [tp]).or_raise()[tp]
        assert producer.transaction_start == 0
        abort_transaction(any_cluster, tp, producer)
        assert stable(any_cluster, tp) == 2
        [producer] = describe_producers(any_cluster, [tp]).or_raise()[tp]
        assert producer.transaction_start is None
        fence_producer(any_cluster, topic)
