"""The scripted brokers themselves: a group's states and a cluster's moves, as the client meets them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.fetch import ListOffsetsRequest
from kseg.client.protocol.messages.groups import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kseg.client.protocol.messages.offsets import OffsetCommitRequest


@pytest.fixture
def ask(connect: Any) -> Any:
    """`ask(broker, request)`: one request over a connection of its own."""

    def send(broker: Any, request: Any) -> Any:
        cluster = connect(broker.bootstrap_servers)
        return cluster.send(request)

    return send


def join(member_id: str = "") -> JoinGroupRequest:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"m")
    return JoinGroupRequest(group_id="g", member_id=member_id, protocol_type="consumer", protocols=[protocol])


@pytest.mark.rule(212, 224)
def test_a_group_goes_through_its_states(fake: Any, fakes: Any, ask: Any):
    group = fakes.group(fake, size=2)
    ids = [ask(fake, join()).member_id for _ in range(2)]
    assert group.state == "Empty"
    answers: dict[str, Any] = {}
    threads = [threading.Thread(target=lambda name=name: answers.update({name: ask(fake, join(name))})) for name in ids]
    threads[0].start()
    group.wait_for(lambda g: g.state == "PreparingRebalance")
    assert not answers
    threads[1].start()
    for thread in threads:
        thread.join(10)
    assert {answer.generation_id for answer in answers.values()} == {1}
    [leader] = [answer.member_id for answer in answers.values() if answer.members]
    assert group.state == "CompletingRebalance"

    follower = next(name for name in ids if name != leader)
    waiting = threading.Thread(
        target=lambda: answers.update(
            sync=ask(fake, SyncGroupRequest(group_id="g", generation_id=1, member_id=follower))
        )
    )
    waiting.start()
    entry = SyncGroupRequest.SyncGroupRequestAssignment
    assignments = [entry(member_id=follower, assignment=b"yours"), entry(member_id=leader, assignment=b"mine")]
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=leader, assignments=assignments)
    assert bytes(ask(fake, request).assignment) == b"mine"
    waiting.join(10)
    assert bytes(answers["sync"].assignment) == b"yours"
    assert group.state == "Stable"

    def beat(name: str, generation: int = 1) -> int:
        return ask(fake, HeartbeatRequest(group_id="g", generation_id=generation, member_id=name)).error_code

    assert beat(leader) == 0
    assert beat(leader, 0) == ErrorCode.ILLEGAL_GENERATION
    assert beat("stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    group.rebalance()
    assert beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    group.forget(follower)
    assert beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    leaving = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id=leader)])
    assert ask(fake, leaving).error_code == 0
    assert group.state == "Empty"
    group.die()
    assert beat(leader) == ErrorCode.NOT_COORDINATOR


def test_a_group_takes_commits_of_its_generation_only(fake: Any, fakes: Any, ask: Any):
    group = fakes.group(fake)
    member = ask(fake, join()).member_id
    assert ask(fake, join(member)).generation_id == 1
    ask(fake, SyncGroupRequest(group_id="g", generation_id=1, member_id=member))

    def commit(generation: int) -> int:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
        request = OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=generation, member_id=member, topics=[topic]
        )
        return ask(fake, request).topics[0].partitions[0].error_code

    assert commit(0) == ErrorCode.ILLEGAL_GENERATION
    assert not group.commits
    assert commit(1) == 0
    assert group.commits == {("t", 0): 5}


def test_a_clusters_leaders_move_and_every_broker_tells_so(fakes: Any, connect: Any):
    brokers = fakes.cluster(3)
    brokers.add_topic("t", [1, 2])
    brokers.on(ListOffsetsRequest, fakes.answers.list_offsets())
    cluster = connect(brokers.bootstrap_servers)
    assert cluster.metadata(["t"]).topics["t"].partitions[0].leader_id == 1
    assert brokers.move_leader("t", 0, 3) == 1
    for broker in brokers:
        told = connect(broker.bootstrap_servers).metadata(["t"]).topics["t"].partitions[0]
        assert (told.leader_id, told.leader_epoch) == (3, 1)
