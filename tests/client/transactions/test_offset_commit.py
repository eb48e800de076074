"""Offsets of a group in a transaction, as a member of the group."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kseg.client import CommittedOffset, OffsetCommitFailed, TopicPartition, UnsupportedVersion
from kseg.client.errors import ProtocolFault
from kseg.client.groups.offsets import NOBODY, Committer
from kseg.client.membership.member import GroupMember
from kseg.client.producer import KafkaProducer
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.transactions import TxnOffsetCommitResponse
from kseg.client.transactions.offset_commit import check_offset_commit, offset_commit_request
from kseg.client.transactions.producer_identity import TransactionIdentity

TP = TopicPartition("t", 0)
IDENTITY = TransactionIdentity("tx", 7, 3)


@pytest.mark.parametrize("version", [2, 3, 5])
def test_a_commit_as_a_member_carries_its_generation_or_is_refused(version: int):
    member = Committer(5, "m", "i")
    if version < 3:
        assert offset_commit_request(version, IDENTITY, "g", {TP: CommittedOffset(9)}, NOBODY).generation_id == -1
        with pytest.raises(UnsupportedVersion, match=r"needs 2\.5"):
            offset_commit_request(version, IDENTITY, "g", {TP: CommittedOffset(9)}, member)
        return
    request = offset_commit_request(version, IDENTITY, "g", {TP: CommittedOffset(9)}, member)
    assert (request.generation_id, request.member_id, request.group_instance_id) == (5, "m", "i")


def test_a_commit_is_not_done_for_a_partition_that_the_response_lacks():
    with pytest.raises(ProtocolFault, match="lacks a requested partition") as caught:
        check_offset_commit(TxnOffsetCommitResponse(), "tx", "g", [TP])
    assert (caught.value.topic, caught.value.group, caught.value.transactional_id) == ("t", "g", "tx")


@pytest.mark.broker
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_the_group_went_on_without_commits_no_offsets(cluster: Any, kafka: Any, protocol: Any):
    group, tp = f"group-{uuid.uuid4()}", TopicPartition(kafka.topic(), 0)
    with GroupMember(cluster.config, group, topics=[tp.topic], protocol=protocol) as member:
        while tp not in member.assignment:
            member.poll(60)
        zombie = member.committer._replace(generation=member.generation - 1)
        with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": group}) as producer:
            producer.begin()
            with pytest.raises(OffsetCommitFailed) as caught:
                producer.commit_offsets(group, {tp: CommittedOffset(5)}, committer=zombie)
            assert caught.value.partitions == {tp: ErrorCode.ILLEGAL_GENERATION}
            with pytest.raises(OffsetCommitFailed):
                producer.commit()
            producer.abort()
            producer.begin()
            producer.commit_offsets(group, {tp: CommittedOffset(6)}, committer=member.committer)
            producer.commit()
        assert member.committed()[tp].offset == 6
