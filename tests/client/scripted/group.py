"""A classic group as its coordinator sees it, driven step by step.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable        Dead: another broker coordinates it now

A JoinGroup is answered when `size` members have joined, a follower's SyncGroup when the leader's has come: until then
they wait, as with a real coordinator. `rebalance()` makes the members join again, `forget()` makes one a stranger.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kseg.client.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse

_PATIENCE = 60.0


class ScriptedGroup:
    """One group on one scripted broker. What it has seen stands in the broker's `seen`."""

    def __init__(self, broker: Any, *, size: int = 1) -> None:
        self.size = size
        self.state = "Empty"
        self.generation = 0
        self.members: dict[str, JoinGroupRequest] = {}
        self.assignments: dict[str, bytes] = {}
        self.commits: dict[tuple[str, int], int] = {}
        self._joining: dict[str, JoinGroupRequest] = {}
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        broker.on(JoinGroupRequest, self.join)
        broker.on(SyncGroupRequest, self.sync)
        broker.on(HeartbeatRequest, self.heartbeat)
        broker.on(LeaveGroupRequest, self.leave)
        broker.on(OffsetCommitRequest, self.commit)

    # -- what the test does

    def rebalance(self, size: int | None = None) -> None:
        """Members hear of it with their next heartbeat; the group goes on when `size` of them have joined again."""
        with self._changed:
            self.size = self.size if size is None else size
            self._prepare()

    def forget(self, member_id: str) -> None:
        """A member's session has timed out."""
        with self._changed:
            del self.members[member_id]
            self._prepare()

    def die(self) -> None:
        """Another broker coordinates the group now: everybody is told NOT_COORDINATOR."""
        with self._changed:
            self.state = "Dead"
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[ScriptedGroup], bool]) -> None:
        """Until the group has come so far; fails after a minute."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), _PATIENCE), f"the group is {self.state} still"

    # -- one handler an API

    def join(self, seen: Any) -> JoinGroupResponse:
        request: JoinGroupRequest = seen.request
        with self._changed:
            if self.state == "Dead":
                return JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
            member_id = request.member_id
            if not member_id:
                member_id = f"{seen.client_id}-{next(self._numbers)}"
                if seen.version >= 4 and getattr(request, "group_instance_id", None) is None:
                    return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
            self._joining[member_id] = request
            if self.state != "PreparingRebalance":
                self._prepare(keep=member_id)
            if len(self._joining) >= self.size:
                self._complete()
            generation = self.generation
            if not self._changed.wait_for(lambda: member_id not in self._joining or self.state == "Dead", _PATIENCE):
                return JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            if self.state == "Dead" or self.generation < generation:
                return JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
            leader = next(iter(self.members))
            return JoinGroupResponse(
                generation_id=self.generation,
                protocol_type=request.protocol_type if seen.version >= 7 else None,
                protocol_name=request.protocols[0].name,
                leader=leader,
                member_id=member_id,
                members=[
                    JoinGroupResponse.JoinGroupResponseMember(member_id=name, metadata=joined.protocols[0].metadata)
                    for name, joined in (self.members.items() if member_id == leader else ())
                ],
            )

    def sync(self, seen: Any) -> SyncGroupResponse:
        request: SyncGroupRequest = seen.request
        with self._changed:
            if code := self._refusal(request.member_id, request.generation_id, ("CompletingRebalance", "Stable")):
                return SyncGroupResponse(error_code=code)
            if request.assignments or len(self.members) == 1:
                self.assignments = {entry.member_id: bytes(entry.assignment) for entry in request.assignments}
                self.state = "Stable"
                self._changed.notify_all()
            self._changed.wait_for(lambda: self.state != "CompletingRebalance", _PATIENCE)
            if self.state != "Stable":
                return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            return SyncGroupResponse(
                assignment=self.assignments.get(request.member_id, b""),
                protocol_type=request.protocol_type if seen.version >= 5 else None,
                protocol_name=request.protocol_name if seen.version >= 5 else None,
            )

    def heartbeat(self, seen: Any) -> HeartbeatResponse:
        request: HeartbeatRequest = seen.request
        with self._changed:
            states = ("Stable", "CompletingRebalance")
            return HeartbeatResponse(error_code=self._refusal(request.member_id, request.generation_id, states))

    def leave(self, seen: Any) -> LeaveGroupResponse:
        with self._changed:
            leaving = [entry.member_id for entry in seen.request.members] or [seen.request.member_id]
            known = all(name in self.members for name in leaving)
            for name in leaving:
                self.members.pop(name, None)
            if self.members:
                self._prepare()
            else:
                self.state = "Empty"
            return LeaveGroupResponse(error_code=0 if known else ErrorCode.UNKNOWN_MEMBER_ID)

    def commit(self, seen: Any) -> OffsetCommitResponse:
        request: OffsetCommitRequest = seen.request
        with self._changed:
            code = self._refusal(request.member_id, request.generation_id_or_member_epoch, ("Stable",))
            response = OffsetCommitResponse()
            for topic in request.topics:
                answered = OffsetCommitResponse.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
                for entry in topic.partitions:
                    if not code:
                        self.commits[topic.name or str(topic.topic_id), entry.partition_index] = entry.committed_offset
                    answered.partitions.append(
                        OffsetCommitResponse.OffsetCommitResponsePartition(
                            partition_index=entry.partition_index, error_code=code
                        )
                    )
                response.topics.append(answered)
            return response

    # -- inside, under the lock

    def _prepare(self, keep: str | None = None) -> None:
        self.state = "PreparingRebalance"
        self._joining = {name: joined for name, joined in self._joining.items() if name == keep}
        self._changed.notify_all()

    def _complete(self) -> None:
        self.members, self._joining = self._joining, {}
        self.generation += 1
        self.assignments = {}
        self.state = "CompletingRebalance"
        self._changed.notify_all()

    def _refusal(self, member_id: str, generation: int, states: tuple[str, ...]) -> int:
        if self.state == "Dead":
            return ErrorCode.NOT_COORDINATOR
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return 0 if self.state in states else ErrorCode.REBALANCE_IN_PROGRESS
