"""Transactions in `__transaction_state`: what the transaction coordinator stores of each transactional id.

A null value is a tombstone.
"""

from __future__ import annotations

from enum import IntEnum

from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.fields import array, int8, int16, int32, int64, string
from kseg.client.protocol.schema import Struct


class TransactionStatus(IntEnum):
    """The states of `TransactionLogValue.transaction_status`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


class TransactionLogKey(TypedMessage, key=0, versions="0"):
    """A transactional id; its type is 0."""

    transactional_id: str = string("0")


class TransactionLogValue(TypedMessage, key=0, versions="0-1", flexible="1+"):
    """Producer, state and partitions. Times are ms since 1970, -1 for none; `TransactionStatus` names the states.

    v1 is flexible, and has the next producer id and epoch (KIP-890).
    """

    class PartitionsSchema(Struct):
        topic: str = string("0+")
        partition_ids: list[int] = array(int32, "0+")

    producer_id: int = int64("0+")
    previous_producer_id: int = int64("1+", default=-1, tag=0)
    next_producer_id: int = int64("1+", default=-1, tag=1)
    producer_epoch: int = int16("0+")
    next_producer_epoch: int = int16("1+", default=-1, tag=3)
    transaction_timeout_ms: int = int32("0+")
    transaction_status: int = int8("0+")
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int = int64("0+")
    transaction_start_timestamp_ms: int = int64("0+")
    client_transaction_version: int = int16("1+", tag=2)
