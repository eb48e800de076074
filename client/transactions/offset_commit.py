"""TxnOffsetCommit (28): offsets of a group in a transaction, by a member of the group or by nobody (KIP-447)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kseg.client.errors import UnsupportedVersion, error_from_code
from kseg.client.groups.offsets import NOBODY, CommittedOffset, Committer, check_committed
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kseg.client.protocol.partition import TopicPartition, by_topic
from kseg.client.transactions.producer_identity import TransactionIdentity

_FIRST_WITH_MEMBERS: Final = 3

#: Codes of a single partition that concern the whole transaction.
_TRANSACTION_IS_OVER: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


def offset_commit_request(
    version: int,
    transaction: TransactionIdentity,
    group: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    committer: Committer,
) -> TxnOffsetCommitRequest:
    """The request. Raises UnsupportedVersion for a member if the version has no members."""
    if committer != NOBODY and version < _FIRST_WITH_MEMBERS:
        raise UnsupportedVersion(
            "the broker is too old to check the member that commits in a transaction (it needs 2.5)",
            group=group,
            transactional_id=transaction.transactional_id,
        )
    return TxnOffsetCommitRequest(
        transactional_id=transaction.transactional_id,
        group_id=group,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        generation_id=committer.generation,
        member_id=committer.member_id,
        group_instance_id=committer.instance_id,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                        partition_index=tp.partition,
                        committed_offset=offsets[tp].offset,
                        committed_leader_epoch=offsets[tp].leader_epoch,
                        committed_metadata=offsets[tp].metadata,
                    )
                    for tp in members
                ],
            )
            for topic, members in by_topic(offsets).items()
        ],
    )


def check_offset_commit(
    response: TxnOffsetCommitResponse, transactional_id: str, group: str, offsets: Collection[TopicPartition]
) -> None:
    """Raises OffsetCommitFailed, the error of a code that concerns the whole transaction, or ProtocolFault."""
    codes = {
        TopicPartition(topic.name, entry.partition_index): entry.error_code
        for topic in response.topics
        for entry in topic.partitions
    }
    for code in codes.values():
        if code in _TRANSACTION_IS_OVER:
            raise error_from_code(code, "TxnOffsetCommit", transactional_id=transactional_id, group=group)
    check_committed("TxnOffsetCommit", group, offsets, codes, transactional_id=transactional_id)
