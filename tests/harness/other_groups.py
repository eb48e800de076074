"""Groups that are no consumer groups, made by raw requests as their clients send them."""

from __future__ import annotations

import time
import uuid
from typing import Any

from kseg.client import Cluster, describe_group
from kseg.client.protocol.messages.share_groups import ShareGroupHeartbeatRequest
from kseg.client.protocol.messages.streams_groups import StreamsGroupHeartbeatRequest

LEAVE = -1


def make_group(cluster: Cluster, kind: str, group: str, topic: str, *, live: bool) -> None:
    """A group of this type ("share", "streams") with one member that reads the topic; not live: it has left again."""
    describe_group(cluster, group)  # waits for the coordinator
    beat = _share if kind == "share" else _streams
    member, epoch = str(uuid.uuid4()), 0
    deadline = time.monotonic() + 120
    while True:
        answer = cluster.send(beat(group, member, epoch, topic), coordinator=("group", group))
        assert answer.error_code == 0, answer
        epoch = answer.member_epoch
        if epoch > 0:
            break
        assert time.monotonic() < deadline
        time.sleep(0.1)
    if not live:
        left = cluster.send(beat(group, member, LEAVE, topic), coordinator=("group", group))
        assert left.error_code == 0, left


def _share(group: str, member: str, epoch: int, topic: str) -> Any:
    topics = [topic] if epoch == 0 else None
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics
    )


def _streams(group: str, member: str, epoch: int, topic: str) -> Any:
    request = StreamsGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, process_id="p1")
    if epoch == 0:
        part = StreamsGroupHeartbeatRequest.Subtopology(subtopology_id="0", source_topics=[topic])
        request.topology = StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[part])
        request.rebalance_timeout_ms = 60_000
        request.client_tags, request.active_tasks = [], []
        request.standby_tasks, request.warmup_tasks = [], []
    return request
