"""Groups and their offsets: a whole life of a group in each version, and offsets that come back where they belong."""

from __future__ import annotations

from typing import Any

from kseg.client.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kseg.client.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from kseg.client.protocol.messages.metadata import FindCoordinatorRequest
from kseg.client.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest

MEMBER_ID_REQUIRED = 79
#: A subscription, version 0: one topic, no user data. Brokers from 2.4 on look into it, and one that they cannot read
#: leaves a member of type "consumer" waiting for its generation forever.
SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + b"\0\4mine" + b"\xff\xff\xff\xff"
ASSIGNMENT = b"what the leader decided"


class Member:
    """A classic member in the one version of each request that the broker and we both speak, or the one under test."""

    def __init__(self, peer: Any, **versions: int) -> None:
        self.peer = peer
        self.group = peer.name("group")
        self.member_id = ""
        self.generation = -1
        self.versions = versions
        peer.await_coordinator(self.group)

    def version(self, api: str) -> int:
        return self.versions.get(api, self.peer.newest(api))

    def join(self) -> Any:
        version = self.version("JoinGroup")
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)

        def ask() -> Any:
            request = JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=30_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[protocol],
            )
            if version >= 1:
                request.rebalance_timeout_ms = 5_000
            response = self.peer.call(request, version)
            assert response.error_code in (0, MEMBER_ID_REQUIRED), response
            return response

        joined = self.peer.eventually(ask)
        if version >= 4:
            assert joined.error_code == MEMBER_ID_REQUIRED
            self.member_id = joined.member_id
            joined = ask()
        assert joined.error_code == 0
        self.member_id, self.generation = joined.member_id, joined.generation_id
        return joined

    def sync(self) -> Any:
        version = self.version("SyncGroup")
        given = SyncGroupRequest.SyncGroupRequestAssignment(member_id=self.member_id, assignment=ASSIGNMENT)
        request = SyncGroupRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id, assignments=[given]
        )
        if version >= 5:
            request.protocol_type, request.protocol_name = "consumer", "range"
        return self.peer.call(request, version)

    def heartbeat(self, generation: int | None = None) -> int:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
        )
        code: int = self.peer.call(request, self.version("Heartbeat")).error_code
        return code

    def leave(self) -> Any:
        version = self.version("LeaveGroup")
        request = LeaveGroupRequest(group_id=self.group)
        if version >= 3:
            request.members = [LeaveGroupRequest.MemberIdentity(member_id=self.member_id)]
        else:
            request.member_id = self.member_id
        return self.peer.call(request, version)

    def enter(self) -> Member:
        self.join()
        assert self.sync().error_code == 0
        return self


def describe(peer: Any, group: str, version: int | None = None) -> Any:
    version = peer.newest("DescribeGroups") if version is None else version
    [found] = peer.call(DescribeGroupsRequest(groups=[group]), version).groups
    assert found.group_id == group
    return found


def join_group(peer: Any, version: int) -> None:
    member = Member(peer, JoinGroup=version)
    joined = member.join()
    assert joined.leader == joined.member_id == member.member_id != ""
    assert (joined.generation_id, joined.protocol_name) == (1, "range")
    assert [(one.member_id, bytes(one.metadata)) for one in joined.members] == [(member.member_id, SUBSCRIPTION)]
    if version >= 7:
        assert joined.protocol_type == "consumer"
    member.sync()
    member.leave()


def sync_group(peer: Any, version: int) -> None:
    member = Member(peer, SyncGroup=version)
    member.join()
    synced = member.sync()
    assert (synced.error_code, bytes(synced.assignment)) == (0, ASSIGNMENT)
    if version >= 5:
        assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
    member.leave()


def heartbeat(peer: Any, version: int) -> None:
    member = Member(peer, Heartbeat=version).enter()
    assert member.heartbeat() == 0
    assert member.heartbeat(member.generation + 1) == 22  # ILLEGAL_GENERATION
    member.leave()
    assert member.heartbeat() == 25  # UNKNOWN_MEMBER_ID


def leave_group(peer: Any, version: int) -> None:
    member = Member(peer, LeaveGroup=version).enter()
    left = member.leave()
    assert left.error_code == 0
    if version >= 3:
        assert [(one.member_id, one.error_code) for one in left.members] == [(member.member_id, 0)]
    assert describe(peer, member.group).group_state in ("Empty", "Dead")


def describe_groups(peer: Any, version: int) -> None:
    member = Member(peer).enter()
    found = describe(peer, member.group, version)
    assert (found.error_code, found.group_state, found.protocol_type) == (0, "Stable", "consumer")
    assert found.protocol_data == "range"
    [one] = found.members
    assert (one.member_id, one.client_id) == (member.member_id, "kseg-live")
    assert "127.0.0.1" in one.client_host
    assert (bytes(one.member_metadata), bytes(one.member_assignment)) == (SUBSCRIPTION, ASSIGNMENT)
    member.leave()
    # Only from 0.10.1 on does a broker keep a group without members.
    assert describe(peer, member.group, version).group_state == ("Dead" if peer.release == "0.9.0.1" else "Empty")
    nobody = describe(peer, peer.name("nobody"), version)
    assert (nobody.group_state, nobody.error_code) == ("Dead", 69 if version >= 6 else 0)


def list_groups(peer: Any, version: int) -> None:
    member = Member(peer).enter()

    def listed(**filters: Any) -> dict[str, Any]:
        response = peer.call(ListGroupsRequest(**filters), version)
        assert response.error_code == 0
        return {found.group_id: found for found in response.groups}

    found = listed()[member.group]
    assert found.protocol_type == "consumer"
    if version >= 4:
        assert found.group_state == "Stable"
        assert member.group in listed(states_filter=["Stable"])
        assert member.group not in listed(states_filter=["Empty"])
    if version >= 5:
        assert found.group_type.lower() == "classic"
        assert member.group not in listed(types_filter=["consumer"])
    member.leave()


def delete_groups(peer: Any, version: int) -> None:
    member = Member(peer).enter()

    def delete() -> int:
        [result] = peer.call(DeleteGroupsRequest(groups_names=[member.group]), version).results
        assert result.group_id == member.group
        code: int = result.error_code
        return code

    assert delete() == 68  # NON_EMPTY_GROUP
    member.leave()
    assert delete() == 0
    assert delete() == 69  # GROUP_ID_NOT_FOUND


def find_coordinator(peer: Any, version: int) -> None:
    group = peer.name("group")
    peer.await_coordinator(group)
    kinds = (0, 1) if version >= 1 else (0,)
    for kind in kinds:
        peer.await_coordinator(group, kind)
        if version >= 4:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[group, group + "-2"])
            found = peer.call(request, version).coordinators
            assert sorted(one.key for one in found) == [group, group + "-2"]
        else:
            request = FindCoordinatorRequest(key=group)
            if version >= 1:
                request.key_type = kind
            found = [peer.call(request, version)]
        for one in found:
            assert (one.error_code, one.node_id) == (0, peer.node_id)
            assert f"{one.host}:{one.port}" == peer.kafka.bootstrap_servers


def commit(peer: Any, group: str, topic: str, offset: int, version: int, **fields: Any) -> int:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=f"note {offset}", **fields.pop("part", {})
    )
    data = OffsetCommitRequest.OffsetCommitRequestTopic(partitions=[part])
    if version >= 10:
        data.topic_id = peer.topic_id(topic)
    else:
        data.name = topic
    response = peer.call(OffsetCommitRequest(group_id=group, topics=[data], **fields), version)
    [found] = response.topics
    [entry] = found.partitions
    assert entry.partition_index == 0
    code: int = entry.error_code
    return code


def fetch_offset(peer: Any, group: str, topic: str, version: int, *, everything: bool = False) -> list[Any]:
    """The entries of an OffsetFetch answer about one topic's partition 0, or about all that the group has."""
    if version >= 8:
        asked = OffsetFetchRequest.OffsetFetchRequestTopics(partition_indexes=[0])
        if version >= 10:
            asked.topic_id = peer.topic_id(topic)
        else:
            asked.name = topic
        of_group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None if everything else [asked])
        [found] = peer.call(OffsetFetchRequest(groups=[of_group], require_stable=True), version).groups
        assert found.group_id == group
    else:
        old = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=group, topics=None if everything else [old])
        if version >= 7:
            request.require_stable = True
        found = peer.call(request, version)
    assert found.error_code == 0
    return [entry for answered in found.topics for entry in answered.partitions]


def offset_commit(peer: Any, version: int) -> None:
    group, topic = peer.name("group"), peer.topic()
    peer.await_coordinator(group)
    if version == 0 and not peer.with_zookeeper:
        assert commit(peer, group, topic, 7, version) == 35  # offered, and refused: there is no ZooKeeper to write to
        return
    peer.eventually(lambda: _equal(commit(peer, group, topic, 7, version), 0))
    newest = peer.newest("OffsetFetch")
    [found] = fetch_offset(peer, group, topic, newest)
    if version == 0:
        # ZooKeeper has it, and nobody who looks at Kafka's own offsets sees it.
        assert found.committed_offset == -1
        [old] = fetch_offset(peer, group, topic, 0)
        assert (old.committed_offset, old.error_code) == (7, 0)
        with peer.kafka.broker.zookeeper() as zookeeper:
            assert zookeeper.get(f"/consumers/{group}/offsets/{topic}/0") == b"7"
        return
    assert (found.committed_offset, found.metadata, found.error_code) == (7, "note 7", 0)
    # A member's generation keeps others out, as does a live group.
    member = Member(peer).enter()
    inside = {"generation_id_or_member_epoch": member.generation, "member_id": member.member_id}
    assert commit(peer, member.group, topic, 8, version, **inside) == 0
    assert commit(peer, member.group, topic, 9, version) in (22, 25)  # ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID
    zombie = inside | {"generation_id_or_member_epoch": member.generation - 1}
    assert commit(peer, member.group, topic, 9, version, **zombie) == 22
    [kept] = fetch_offset(peer, member.group, topic, newest)
    assert kept.committed_offset == 8
    member.leave()


def _equal(found: Any, wanted: Any) -> None:
    assert found == wanted


def offset_fetch(peer: Any, version: int) -> None:
    group, topic, other = peer.name("group"), peer.topic(), peer.topic()
    peer.await_coordinator(group)
    if version == 0 and not peer.with_zookeeper:
        assert [entry.error_code for entry in fetch_offset(peer, group, topic, version)] == [35]
        return
    by = 0 if version == 0 else max(1, peer.versions("OffsetCommit")[-1])
    peer.eventually(lambda: _equal(commit(peer, group, topic, 5, by), 0))
    [found] = fetch_offset(peer, group, topic, version)
    assert (found.committed_offset, found.error_code) == (5, 0)
    if version >= 1:
        assert found.metadata == "note 5"
    # Nothing committed: -1 and no error from Kafka; ZooKeeper knows no such node and says so.
    [none] = fetch_offset(peer, group, other, version)
    assert (none.committed_offset, none.metadata or "") == (-1, "")
    assert none.error_code == (3 if version == 0 else 0)
    if version >= 2:
        [of_all] = fetch_offset(peer, group, topic, version, everything=True)
        assert of_all.committed_offset == 5


def offset_delete(peer: Any, version: int) -> None:
    group, topic = peer.name("group"), peer.topic()
    peer.await_coordinator(group)
    peer.eventually(lambda: _equal(commit(peer, group, topic, 5, min(9, peer.newest("OffsetCommit"))), 0))
    part = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
    data = OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=[part])
    response = peer.call(OffsetDeleteRequest(group_id=group, topics=[data]), version)
    assert response.error_code == 0
    [found] = response.topics
    assert (found.name, found.partitions[0].error_code) == (topic, 0)
    [gone] = fetch_offset(peer, group, topic, peer.newest("OffsetFetch"))
    assert gone.committed_offset == -1


def consumer_group_heartbeat(peer: Any, version: int) -> None:
    """Offered since 3.7, and refused as long as the new protocol is not switched on: that is so until 4.0."""
    group, topic = peer.name("group"), peer.topic(2)
    peer.await_coordinator(group)
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    assert peer.call(request, version).error_code == 35
    assert describe(peer, group).group_state == "Dead"  # nobody has entered


def consumer_group_describe(peer: Any, version: int) -> None:
    """As its heartbeat: refused, for a group that is there as well as for one that is not."""
    member = Member(peer).enter()
    for group in (member.group, peer.name("nobody")):
        [found] = peer.call(ConsumerGroupDescribeRequest(group_ids=[group]), version).groups
        assert (found.group_id, found.error_code) == (group, 35)
    member.leave()


CHECKS = {
    "JoinGroup": join_group,
    "SyncGroup": sync_group,
    "Heartbeat": heartbeat,
    "LeaveGroup": leave_group,
    "DescribeGroups": describe_groups,
    "ListGroups": list_groups,
    "DeleteGroups": delete_groups,
    "FindCoordinator": find_coordinator,
    "OffsetCommit": offset_commit,
    "OffsetFetch": offset_fetch,
    "OffsetDelete": offset_delete,
    "ConsumerGroupHeartbeat": consumer_group_heartbeat,
    "ConsumerGroupDescribe": consumer_group_describe,
}
