"""AddPartitionsToTxn (API key 24): tells the transaction coordinator which partitions a transaction is to write to.

v1  throttles after the answer
v2  PRODUCER_FENCED
v3  flexible; the last version for clients
v4  many transactions at once, asked by brokers on behalf of their clients (KIP-890)
v5  TRANSACTION_ABORTABLE
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"], key=24, versions="0-5", flexible="3+"):
    """One transaction's partitions up to v3, many transactions' from v4."""

    class AddPartitionsToTxnTransaction(Struct):
        """From v4."""

        class AddPartitionsToTxnTopic(Struct):
            name: str = string("0+")
            partitions: list[int] = array(int32, "0+")

        transactional_id: str = string("4+")
        producer_id: int = int64("4+")
        producer_epoch: int = int16("4+")
        verify_only: bool = boolean("4+")
        topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")

    AddPartitionsToTxnTopic: TypeAlias = AddPartitionsToTxnTransaction.AddPartitionsToTxnTopic

    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+"):
    """An error per partition."""

    class AddPartitionsToTxnResult(Struct):
        """From v4."""

        class AddPartitionsToTxnTopicResult(Struct):
            class AddPartitionsToTxnPartitionResult(Struct):
                partition_index: int = int32("0+")
                partition_error_code: int = int16("0+")

            name: str = string("0+")
            results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
                AddPartitionsToTxnPartitionResult, "0+"
            )

        transactional_id: str = string("4+")
        topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")

    AddPartitionsToTxnTopicResult: TypeAlias = AddPartitionsToTxnResult.AddPartitionsToTxnTopicResult
    AddPartitionsToTxnPartitionResult: TypeAlias = AddPartitionsToTxnTopicResult.AddPartitionsToTxnPartitionResult

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")
