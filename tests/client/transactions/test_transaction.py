"""Transactions of offsets: on the real broker by both protocols, and on a scripted one for what cannot be provoked."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from java_programs import java_with_kafka
from kseg.client import (
    CommittedOffset,
    Fenced,
    OffsetCommitFailed,
    ProtocolFault,
    RequestTimedOut,
    TopicPartition,
    Transaction,
    TransactionError,
    committed_offsets,
)
from kseg.client.admin.topics import create_topic
from kseg.client.admin.transactions import describe_transactions
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.metadata import FindCoordinatorRequest
from kseg.client.protocol.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from kseg.client.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kseg.client.transactions.states import IllegalStep, TransactionState
from kseg.client.wire.trace import TRAFFIC
from kseg.jobs.broker.process import EmbeddedKafka
from kseg.segment_reader.encode.batches import Record
from offsets_elsewhere import through_kafka_python
from sending import producer_on, send_batches, send_to
from skips import IN_FULL

TP = TopicPartition("t", 0)


@pytest.fixture
def name() -> str:
    return f"tx-{uuid.uuid4()}"


def commits_aborts_and_fences(cluster: Any, servers: str, tp: TopicPartition, *, second_protocol: bool) -> None:
    """The story that both protocols have to tell alike."""
    group, name = f"group-{uuid.uuid4()}", f"tx-{uuid.uuid4()}"
    send_to(cluster, {tp: [Record(value=b"v")] * 9})

    older = Transaction(cluster, name)
    older.begin()
    assert older.second_protocol == second_protocol
    older.commit_offsets(group, {tp: CommittedOffset(3, 0, "kseg:l:1")})
    older.commit()
    assert committed_offsets(cluster, group, [tp]) == {tp: CommittedOffset(3, 0, "kseg:l:1")}
    assert through_kafka_python(servers, group) == {tp: (3, "kseg:l:1")}

    older.begin_next()
    older.commit_offsets(group, {tp: CommittedOffset(4)})
    older.abort()
    assert committed_offsets(cluster, group, [tp])[tp].offset == 3

    older.begin_next()
    older.commit_offsets(group, {tp: CommittedOffset(5)})
    with Transaction(cluster, name) as newer:
        newer.begin()  # fences the older one, aborts what it has open
        assert committed_offsets(cluster, group, [tp])[tp].offset == 3
        with pytest.raises(Fenced) as caught:
            older.commit_offsets(group, {tp: CommittedOffset(6)})
        assert not caught.value.retriable
        with pytest.raises(Fenced) as caught:
            older.commit()
        assert caught.value.transactional_id == name
        newer.commit_offsets(group, {tp: CommittedOffset(7, 0)})
        newer.commit()
    assert committed_offsets(cluster, group, [tp])[tp] == CommittedOffset(7, 0)


@pytest.mark.rule(236, 237)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_transaction_version_commits_aborts_fences_and_times_out(connect: Any, scale: Any, version: int):
    if version not in scale({0, 2}, {0, 1, 2}):
        pytest.skip(IN_FULL)
    look_often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with EmbeddedKafka(features={"transaction.version": version}, config=look_often, light=True) as broker:
        cluster = connect(broker.bootstrap_servers)
        assert cluster.finalized_features().get("transaction.version", 0) == version
        servers = broker.bootstrap_servers
        commits_aborts_and_fences(cluster, servers, topic_on(cluster), second_protocol=version == 2)
        produces_in_transactions(cluster, servers, topic_on(cluster, "u"))
        is_aborted_after_its_timeout(cluster, topic_on(cluster, "w"))


def is_aborted_after_its_timeout(cluster: Any, tp: TopicPartition) -> None:
    """The coordinator aborts by itself what stays open too long, and the producer is told when it wants to commit."""
    group = f"group-{uuid.uuid4()}"
    name = f"tx-{uuid.uuid4()}"
    slow = Transaction(cluster, name, timeout_ms=2000)
    slow.begin()
    slow.commit_offsets(group, {tp: CommittedOffset(5)})
    until = time.monotonic() + 60
    while describe_transactions(cluster, [name]).or_raise()[name].state != "CompleteAbort":
        assert time.monotonic() < until
        time.sleep(0.1)
    with pytest.raises(TransactionError):  # fenced in the first protocol, INVALID_TXN_STATE in the second
        slow.commit()
    assert slow.state == TransactionState.FATAL_ERROR
    assert committed_offsets(cluster, group, [tp])[tp].offset == -1


def topic_on(cluster: Any, name: str = "t") -> TopicPartition:
    create_topic(cluster, name, partitions=1)
    return TopicPartition(name, 0)


def produces_in_transactions(cluster: Any, servers: str, tp: TopicPartition) -> None:
    """Records of committed transactions are read by another client, those of aborted ones are not."""
    with producer_on(cluster, f"tx-{uuid.uuid4()}") as producer:
        for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
            producer.begin()
            send_batches(producer, {tp: [Record(value=value)] * 2})
            send_batches(producer, {tp: [Record(value=value)]})
            (producer.commit if commit else producer.abort)()
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": str(uuid.uuid4()), "isolation.level": "read_committed"}
    )
    consumer.assign([confluent_kafka.TopicPartition(*tp, 0)])
    values = [message.value() for message in consumer.consume(6, timeout=300)]
    consumer.close()
    assert values == [b"a"] * 3 + [b"c"] * 3


def test_the_second_protocol_gives_every_transaction_an_epoch_of_its_own(cluster: Any, kafka: Any, name: str):
    tp = TopicPartition(kafka.topic(), 0)
    transaction = Transaction(cluster, name)
    transaction.begin()
    epochs = [transaction.producer_epoch]
    for offset in range(3):
        transaction.commit_offsets(name, {tp: CommittedOffset(offset)})
        transaction.commit()
        epochs.append(transaction.producer_epoch)
        transaction.begin_next()
    assert epochs == [0, 1, 2, 3]


@pytest.mark.rule(241)
def test_kafkas_own_tool_sees_the_committed_offsets(cluster: Any, kafka: Any, name: str):
    tp = TopicPartition(kafka.topic(), 0)
    send_to(cluster, {tp: [Record(value=b"v")] * 9})
    with Transaction(cluster, name) as transaction:
        transaction.begin()
        transaction.commit_offsets(name, {tp: CommittedOffset(6, 0, "m")})
        transaction.commit()
    command = [*java_with_kafka(), "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"]
    command += ["--bootstrap-server", kafka.bootstrap_servers, "--describe", "--group", name]
    told = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=True)
    row = next(line.split() for line in told.stdout.splitlines() if tp.topic in line)
    assert row[1:6] == [tp.topic, "0", "6", "9", "3"]  # partition, current offset, log end, lag


def test_beginning_decides_what_an_older_run_left_open(cluster: Any, kafka: Any, name: str):
    """A run that died between its commit of offsets and its end: the next one aborts that, and reads stable offsets."""
    tp = TopicPartition(kafka.topic(), 0)
    died = Transaction(cluster, name)
    died.begin()
    died.commit_offsets(name, {tp: CommittedOffset(5)})
    Transaction(cluster, name).begin()
    assert committed_offsets(cluster, name, [tp])[tp].offset == -1


def test_an_error_within_the_block_aborts_at_once(cluster: Any, kafka: Any, name: str):
    tp = TopicPartition(kafka.topic(), 0)
    transaction = Transaction(cluster, name)

    def fail_within() -> None:
        with transaction:
            transaction.begin()
            transaction.commit_offsets(name, {tp: CommittedOffset(5)})
            raise KeyError("why")

    with pytest.raises(KeyError):
        fail_within()
    assert not transaction.open
    assert committed_offsets(cluster, name, [tp])[tp].offset == -1


@pytest.mark.rule(238)
def test_a_transaction_without_content_sends_nothing_but_its_id(cluster: Any, name: str):
    apis = {"AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"}

    def sent() -> int:
        return sum(tally.requests for (_, api, _), tally in TRAFFIC.snapshot().items() if api in apis)

    before = sent()
    transaction = Transaction(cluster, name)
    transaction.begin()
    transaction.commit_offsets("g", {})
    transaction.commit()
    transaction.begin_next()
    transaction.abort()
    transaction.abort()
    assert sent() == before
    transaction.begin_next()
    transaction.commit_offsets(name, {topic_on(cluster, name): CommittedOffset(5)})
    transaction.abort()
    assert sent() > before


def test_a_transaction_that_is_not_open_is_a_mistake(cluster: Any, name: str):
    transaction = Transaction(cluster, name)
    for call in (transaction.commit, transaction.begin_next, lambda: transaction.commit_offsets("g", {TP: (1, 1, "")})):
        with pytest.raises(RuntimeError):
            call()  # type: ignore[operator]


@pytest.mark.rule(237)
def test_a_timeout_beyond_the_brokers_is_told(cluster: Any, name: str):
    with pytest.raises(TransactionError, match="INVALID_TRANSACTION_TIMEOUT"):
        Transaction(cluster, name, timeout_ms=2**31 - 1).begin()


# -- scripted


def begun(fake: Any, connect: Any, *, version: int | None = 2, **properties: object) -> Transaction:
    """A transaction begun with producer id 7, epoch 3, on a broker with that `transaction.version` (None: without)."""
    fake.features = {} if version is None else {"transaction.version": version}
    fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=3))
    fake.on(AddOffsetsToTxnRequest, lambda _: AddOffsetsToTxnResponse())
    fake.on(TxnOffsetCommitRequest, committed())
    fake.on(EndTxnRequest, lambda _: EndTxnResponse(producer_id=8, producer_epoch=0))
    transaction = Transaction(connect(fake.bootstrap_servers, **properties), "tx")
    transaction.begin()
    return transaction


def committed(code: int = 0) -> Callable[[Any], TxnOffsetCommitResponse]:
    return lambda seen: TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in seen.request.topics
        ]
    )


@pytest.mark.rule(247)
@pytest.mark.parametrize(("version", "caps"), [(None, (4, 4)), (1, (4, 4)), (2, (5, 5)), (3, (5, 5))])
def test_versions_are_capped_by_the_finalized_feature_alone(fake: Any, connect: Any, version: int | None, caps: Any):
    transaction = begun(fake, connect, version=version)
    transaction.commit_offsets("g", {TP: CommittedOffset(1)})
    transaction.commit()
    [commit], [end] = fake.requests(TxnOffsetCommitRequest), fake.requests(EndTxnRequest)
    assert (commit.version, end.version) == caps
    assert len(fake.requests(AddOffsetsToTxnRequest)) == (0 if caps[0] == 5 else 1)


def test_the_next_identity_comes_with_the_end_of_the_second_protocol(fake: Any, connect: Any):
    transaction = begun(fake, connect, version=2)
    transaction.commit_offsets("g", {TP: CommittedOffset(1)})
    transaction.commit()
    assert (transaction.producer_id, transaction.producer_epoch) == (8, 0)


def test_the_first_protocol_keeps_its_identity(fake: Any, connect: Any):
    transaction = begun(fake, connect, version=1)
    transaction.commit_offsets("g", {TP: CommittedOffset(1)})
    transaction.commit()
    assert (transaction.producer_id, transaction.producer_epoch) == (7, 3)


def test_a_transaction_keeps_the_protocol_that_it_began_with(fake: Any, connect: Any):
    transaction = begun(fake, connect, version=1)
    fake.features = {"transaction.version": 2}
    transaction._cluster.close()  # the next connections hear of the upgrade
    transaction.commit_offsets("g", {TP: CommittedOffset(1)})
    transaction.commit()
    assert [seen.version for seen in fake.requests(TxnOffsetCommitRequest)] == [4]
    assert [seen.version for seen in fake.requests(EndTxnRequest)] == [4]
    assert len(fake.requests(AddOffsetsToTxnRequest)) == 1


@pytest.mark.parametrize("version", [1, 2, 4])
def test_a_commit_carries_the_leader_epoch_and_no_generation(fake: Any, connect: Any, version: int):
    fake.ranges[TxnOffsetCommitRequest.KEY] = (0, version)
    begun(fake, connect, version=1).commit_offsets("g", {TP: CommittedOffset(9, 6, "m")})
    [seen] = fake.requests(TxnOffsetCommitRequest)
    [partition] = seen.request.topics[0].partitions
    assert (partition.committed_offset, partition.committed_metadata) == (9, "m")
    assert partition.committed_leader_epoch == (6 if version >= 2 else -1)
    assert (seen.request.generation_id, seen.request.member_id) == (-1, "")
    assert (seen.request.producer_id, seen.request.producer_epoch) == (7, 3)


@pytest.mark.rule(184, 240, 241)
def test_offsets_go_to_the_groups_coordinator_the_rest_to_the_transactions(fake: Any, connect: Any):
    transaction = begun(fake, connect, version=1)
    transaction.commit_offsets("g", {TP: CommittedOffset(1)})
    asked = [(s.request.key_type, s.request.coordinator_keys) for s in fake.requests(FindCoordinatorRequest)]
    assert asked == [(1, ["tx"]), (0, ["g"])]


@pytest.mark.parametrize("kind", [InitProducerIdRequest, AddOffsetsToTxnRequest, EndTxnRequest])
def test_concurrent_transactions_are_waited_for(fake: Any, connect: Any, kind: Any):
    transaction = begun(fake, connect, version=1)
    answer = {
        InitProducerIdRequest: InitProducerIdResponse,
        AddOffsetsToTxnRequest: AddOffsetsToTxnResponse,
        EndTxnRequest: EndTxnResponse,
    }[kind]
    before = len(fake.requests(kind))
    busy = lambda _: answer(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)  # noqa: E731
    fake.on(kind, busy, busy, lambda _: answer())
    if kind is InitProducerIdRequest:
        transaction.abort()
        transaction.begin()
    else:
        transaction.commit_offsets("g", {TP: CommittedOffset(1)})
        transaction.commit()
    assert len(fake.requests(kind)) - before == 3


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
@pytest.mark.parametrize("kind", [AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest, InitProducerIdRequest])
def test_a_fence_is_raised_by_every_step_and_never_tried_again(fake: Any, connect: Any, code: ErrorCode, kind: Any):
    transaction = begun(fake, connect, version=1)
    fake.on(kind, REFUSING[kind](code))
    before = len(fake.requests(kind))

    def work() -> None:
        transaction.commit_offsets("g", {TP: CommittedOffset(1)})
        transaction.commit()
        transaction.begin()

    for _ in range(2):
        with pytest.raises(Fenced) as caught:
            work()
        assert caught.value.transactional_id == "tx"
        assert caught.value.group == ("g" if kind in (AddOffsetsToTxnRequest, TxnOffsetCommitRequest) else None)
    assert len(fake.requests(kind)) == before + 1
    assert transaction.state == TransactionState.FATAL_ERROR
    with pytest.raises(Fenced):
        transaction.begin()


REFUSING: dict[Any, Any] = {
    AddOffsetsToTxnRequest: lambda code: lambda _: AddOffsetsToTxnResponse(error_code=code),
    TxnOffsetCommitRequest: lambda code: committed(code),
    EndTxnRequest: lambda code: lambda _: EndTxnResponse(error_code=code),
    InitProducerIdRequest: lambda code: lambda _: InitProducerIdResponse(error_code=code),
}


def test_a_fenced_block_is_left_without_an_abort(fake: Any, connect: Any):
    transaction = begun(fake, connect)
    fake.on(TxnOffsetCommitRequest, committed(ErrorCode.PRODUCER_FENCED))
    with pytest.raises(Fenced), transaction:
        transaction.commit_offsets("g", {TP: CommittedOffset(1)})
    assert not fake.requests(EndTxnRequest)


def test_a_refused_partition_is_named(fake: Any, connect: Any):
    transaction = begun(fake, connect)
    fake.on(TxnOffsetCommitRequest, committed(ErrorCode.OFFSET_METADATA_TOO_LARGE))
    with pytest.raises(OffsetCommitFailed) as caught:
        transaction.commit_offsets("g", {TP: CommittedOffset(1)})
    assert caught.value.partitions == {TP: ErrorCode.OFFSET_METADATA_TOO_LARGE}


def test_an_abortable_error_says_so(fake: Any, connect: Any):
    transaction = begun(fake, connect)
    fake.on(TxnOffsetCommitRequest, committed(ErrorCode.TRANSACTION_ABORTABLE))
    with pytest.raises(TransactionError) as caught:
        transaction.commit_offsets("g", {TP: CommittedOffset(1)})
    assert caught.value.abortable
    transaction.abort()
    assert fake.requests(EndTxnRequest)[0].request.committed is False


def test_a_lost_answer_to_the_end_is_asked_for_again(fake: Any, fakes: Any, connect: Any):
    transaction = begun(fake, connect)
    transaction.commit_offsets("g", {TP: CommittedOffset(1)})
    fake.on(EndTxnRequest, lambda _: fakes.CLOSE, lambda _: EndTxnResponse(producer_id=7, producer_epoch=4))
    transaction.commit()
    first, second = fake.requests(EndTxnRequest)
    assert first.request == second.request
    assert transaction.producer_epoch == 4


def test_the_next_transaction_does_not_go_on_with_ids_that_are_being_replaced(fake: Any, fakes: Any, connect: Any):
    """`begin` takes over with new ones: with the present ones the coordinator would fence this producer."""
    transaction = begun(fake, connect, default_api_timeout_ms=200, request_timeout_ms=100)
    transaction.abort()
    fake.on(InitProducerIdRequest, lambda _: fakes.SILENT)
    with pytest.raises(RequestTimedOut):
        transaction.begin()
    asked = len(fake.requests(InitProducerIdRequest))
    with pytest.raises(IllegalStep, match=r"call begin\(\) again"):
        transaction.begin_next()
    assert len(fake.requests(InitProducerIdRequest)) == asked


@pytest.mark.rule(239)
def test_adding_partitions_stays_at_the_clients_last_version(fake: Any, connect: Any):
    transaction = begun(fake, connect, version=1)
    transaction.add_partitions([TP])
    transaction.add_partitions([TP])
    [seen] = fake.requests(AddPartitionsToTxnRequest)
    assert seen.version == 3
    assert seen.request.v3_and_below_topics[0].partitions == [0]
    fake.on(AddPartitionsToTxnRequest, lambda _: AddPartitionsToTxnResponse())
    with pytest.raises(ProtocolFault, match=r"lacks a requested partition.*partition=1"):
        transaction.add_partitions([TopicPartition("t", 1)])


def test_a_partition_that_could_not_be_added_is_named(fake: Any, connect: Any):
    Answer = AddPartitionsToTxnResponse  # noqa: N806

    def refused(_: Any) -> AddPartitionsToTxnResponse:
        results = [
            Answer.AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=55),
            Answer.AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=29),
        ]
        topic = Answer.AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
        return Answer(results_by_topic_v3_and_below=[topic])

    transaction = begun(fake, connect, version=1)
    fake.on(AddPartitionsToTxnRequest, refused)
    with pytest.raises(Exception, match=r"TOPIC_AUTHORIZATION_FAILED.*partition=1"):
        transaction.add_partitions([TP, TopicPartition("t", 1)])
