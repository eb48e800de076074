"""DescribeTransactions (API key 65): tells the state of transactions (KIP-664); goes to each one's coordinator."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"], key=65, versions="0", flexible="0+"):
    """Transactional ids."""

    transactional_ids: list[str] = array(string, "0+")


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    """State, producer and partitions of each."""

    class TransactionState(Struct):
        """`transaction_start_time_ms` is -1 where no transaction is open."""

        class TopicData(Struct):
            topic: str = string("0+")
            partitions: list[int] = array(int32, "0+")

        error_code: int = int16("0+")
        transactional_id: str = string("0+")
        transaction_state: str = string("0+")
        transaction_timeout_ms: int = int32("0+")
        transaction_start_time_ms: int = int64("0+")
        producer_id: int = int64("0+")
        producer_epoch: int = int16("0+")
        topics: list[TopicData] = array(TopicData, "0+")

    TopicData: TypeAlias = TransactionState.TopicData

    throttle_time_ms: int = int32("0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")
