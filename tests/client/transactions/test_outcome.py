"""A commit that fails after its response was lost: only ways that find out what became of it are left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kseg.client import CommittedOffset, TopicPartition, Transaction, TransactionError
from kseg.client.errors import AuthenticationFailed, BrokerError, ConfigError, KafkaError
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from kseg.client.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    DescribeTransactionsRequest,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
)
from kseg.client.transactions.states import IllegalStep, TransactionState

TP = TopicPartition("t", 0)


@pytest.fixture
def with_offsets(fake: Any, fakes: Any, connect: Any) -> Callable[[int], Transaction]:
    """An open transaction with offsets in it, by the protocol of that `transaction.version`."""

    def begin(version: int) -> Transaction:
        fake.features = {"transaction.version": version}
        # Else it says what became of the commit.
        del fake.ranges[DescribeTransactionsRequest.KEY]
        fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=3))
        fake.on(AddOffsetsToTxnRequest, lambda _: AddOffsetsToTxnResponse())
        fake.on(TxnOffsetCommitRequest, fakes.answers.txn_offset_commit())
        transaction = Transaction(connect(fake.bootstrap_servers, retry_backoff_ms=5), "tx")
        transaction.begin()
        transaction.commit_offsets("g", {TP: CommittedOffset(1)})
        return transaction

    return begin


def ended(code: int = 0) -> Callable[[Any], EndTxnResponse]:
    return lambda _: EndTxnResponse(error_code=code, producer_id=-1 if code else 7, producer_epoch=-1 if code else 4)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("error", [AuthenticationFailed("expired"), ConfigError(()), None], ids=repr)
def test_no_abort_is_possible_while_it_is_unknown_whether_a_commit_was_executed(
    fake: Any, fakes: Any, with_offsets: Any, version: int, error: KafkaError | None, monkeypatch: Any
):
    """The abort would be taken for done, and a program that sends everything again would duplicate it."""
    transaction = with_offsets(version)
    cluster = transaction._cluster

    def failing(*_: Any) -> None:
        assert error is not None
        raise error

    def lost(_: Any) -> object:
        if error is None:
            fake.on(EndTxnRequest, ended(ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            monkeypatch.setattr(cluster, "coordinator", failing)
        return fakes.CLOSE

    fake.on(EndTxnRequest, lost)
    for end in (transaction.commit, transaction.begin_next):
        with pytest.raises(BrokerError if error is None else type(error)):
            end()
        assert transaction.state is TransactionState.COMMITTING
        with pytest.raises(IllegalStep, match="unknown whether it was committed"):
            transaction.abort()
        transaction.leave()
    monkeypatch.undo()
    fake.on(EndTxnRequest, ended())
    transaction.commit()
    assert {seen.request.committed for seen in fake.requests(EndTxnRequest)} == {True}


@pytest.mark.parametrize("version", [1, 2])
def test_an_abort_after_a_failed_commit_is_not_taken_for_done_if_the_coordinator_knows_no_transaction(
    fake: Any, fakes: Any, with_offsets: Any, version: int
):
    transaction = with_offsets(version)
    fake.on(EndTxnRequest, lambda _: fakes.CLOSE, ended(ErrorCode.TRANSACTION_ABORTABLE))
    with pytest.raises(TransactionError, match="TRANSACTION_ABORTABLE"):
        transaction.commit()
    assert transaction.state is TransactionState.ABORTABLE_ERROR
    fake.on(EndTxnRequest, ended(ErrorCode.INVALID_TXN_STATE))
    with pytest.raises(TransactionError, match="INVALID_TXN_STATE"):
        transaction.abort()
    assert transaction.state is TransactionState.FATAL_ERROR


def test_without_a_commit_an_abort_has_nothing_to_do_where_the_coordinator_knows_no_transaction(
    fake: Any, with_offsets: Any
):
    transaction = with_offsets(2)
    fake.on(EndTxnRequest, ended(ErrorCode.INVALID_TXN_STATE))
    transaction.abort()
    assert transaction.state is TransactionState.READY
