"""Producer ids and transactions. Each API in every version of today, on a real broker.

A function is called as its API in snake case; `conftest` finds it and its versions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.broker

#: The fixture of `conftest`, whose class cannot be imported from here.
Live = Any


@pytest.mark.rule(234, 243, 298, "300-304")
def test_an_api_means_what_it_should(live: Live, function: Callable[[Live, int], None], version: int) -> None:
    live.try_out(function, version)


def init_producer_id(live: Live, version: int) -> None:
    document = {"transactionalId": live.new("transaction"), "transactionTimeoutMs": 10_000}
    first, second = (live.ask("InitProducerId", document, version) for _ in range(2))
    assert (first["producerEpoch"], second["producerEpoch"]) == (0, 1)
    assert first["producerId"] == second["producerId"]
    alone = live.ask("InitProducerId", {"transactionalId": None, "transactionTimeoutMs": 10_000}, version)
    assert alone["producerId"] not in (-1, first["producerId"])


def add_partitions_to_txn(live: Live, version: int) -> None:
    if version <= 3:
        live.end(live.begin(version))
        return
    # From 4 on it is spoken by brokers, which a broker without an authorizer believes everybody to be.
    who = live.a_transaction()
    topics = [{"name": live.topic, "partitions": [1]}]
    answer = live.ask("AddPartitionsToTxn", {"transactions": [who | {"topics": topics}]}, version)
    [told] = answer["resultsByTransaction"]
    assert told["topicResults"][0]["resultsByPartition"][0]["partitionErrorCode"] == "NONE"
    live.end(who)


def add_offsets_to_txn(live: Live, version: int) -> None:
    who = live.a_transaction()
    live.ask("AddOffsetsToTxn", who | {"groupId": live.new("group")}, version)
    live.end(who)


def end_txn(live: Live, version: int) -> None:
    who = live.begin()
    answer = live.end(who, version)
    if version >= 5:  # the epoch to go on with (KIP-890)
        assert answer["producerEpoch"] == who["producerEpoch"] + 1


def write_txn_markers(live: Live, version: int) -> None:
    who = live.begin()
    marker = {
        "producerId": who["producerId"],
        "producerEpoch": who["producerEpoch"],
        "transactionResult": False,
        "topics": [{"name": live.topic, "partitionIndexes": [1]}],
        "coordinatorEpoch": 0,
    }
    [told] = live.ask("WriteTxnMarkers", {"markers": [marker]}, version)["markers"]
    assert told["topics"][0]["partitions"] == [{"partitionIndex": 1, "errorCode": "NONE"}]
    live.end(who)


def txn_offset_commit(live: Live, version: int) -> None:
    who, group = live.a_transaction(), live.new("group")
    if version < 5:  # later ones add the group by themselves
        live.ask("AddOffsetsToTxn", who | {"groupId": group})
    partitions = [{"partitionIndex": 0, "committedOffset": 9}]
    document = who | {"groupId": group, "topics": [{"name": live.topic, "partitions": partitions}]}
    live.ask("TxnOffsetCommit", document, version)
    live.ask("EndTxn", who | {"committed": True}, 5 if version >= 5 else 4)
    asked = {"groupId": group, "topics": [{"name": live.topic, "partitionIndexes": [0]}]}
    [told] = live.ask("OffsetFetch", {"groups": [asked], "requireStable": True}, 9)["groups"]
    assert told["topics"][0]["partitions"][0]["committedOffset"] == 9


def describe_producers(live: Live, version: int) -> None:
    who = live.a_transaction()
    data = {"index": 1, "records": live.records(producer_id=who["producerId"], producer_epoch=0, base_sequence=0)}
    document = {"acks": -1, "timeoutMs": 5000, "topicData": [{"name": live.topic, "partitionData": [data]}]}
    live.ask("Produce", document)
    topics = [{"name": live.topic, "partitionIndexes": [1]}]
    [told] = live.ask("DescribeProducers", {"topics": topics}, version)["topics"]
    producers = {producer["producerId"]: producer for producer in told["partitions"][0]["activeProducers"]}
    assert producers[who["producerId"]]["lastSequence"] == 0


def describe_transactions(live: Live, version: int) -> None:
    who = live.begin()
    ids = {"transactionalIds": [who["transactionalId"]]}
    [told] = live.ask("DescribeTransactions", ids, version)["transactionStates"]
    assert (told["transactionState"], told["producerId"]) == ("Ongoing", who["producerId"])
    assert told["topics"] == [{"topic": live.topic, "partitions": [1]}]
    live.end(who)


def list_transactions(live: Live, version: int) -> None:
    who = live.begin()
    answer = live.ask("ListTransactions", {"stateFilters": ["Ongoing"]}, version)
    told = {row["transactionalId"]: row["producerId"] for row in answer["transactionStates"]}
    assert told[who["transactionalId"]] == who["producerId"]
    live.end(who)


@pytest.mark.rule(155)
def test_replica_minus_2_sees_what_is_not_decided_yet(live: Live) -> None:
    """A client is replica -1; -2 is for looking at a log as its replicas do (rule of the guide, `api call` alone)."""
    topic = live.kafka.topic()
    who = live.a_transaction()
    ids = {f"v3AndBelow{name[0].upper()}{name[1:]}": value for name, value in who.items()}
    live.ask("AddPartitionsToTxn", ids | {"v3AndBelowTopics": [{"name": topic, "partitions": [0]}]}, 3)
    options = {"producer_id": who["producerId"], "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    data = [{"name": topic, "partitionData": [{"index": 0, "records": live.records(**options)}]}]
    produced = {"transactionalId": who["transactionalId"], "acks": -1, "timeoutMs": 5000, "topicData": data}
    live.ask("Produce", produced, 11)
    place = {"topics": [{"name": topic, "partitions": [{"partitionIndex": 0, "timestamp": "LATEST"}]}]}
    ends = {}
    for replica in (-1, -2):
        asked = place | {"isolationLevel": "READ_COMMITTED", "replicaId": replica}
        ends[replica] = live.ask("ListOffsets", asked)["topics"][0]["partitions"][0]["offset"]
    live.end(who)
    assert ends == {-1: 0, -2: 1}
