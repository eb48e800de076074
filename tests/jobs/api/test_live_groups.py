"""Groups of all kinds: classic, consumer, share and streams; and their offsets.

Each API in every version of today, on a real broker.

A function is called as its API in snake case; `conftest` finds it and its versions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.broker

#: The fixture of `conftest`, whose class cannot be imported from here.
Live = Any


@pytest.mark.rule(3, 187, 218, 284, 285, "287-292", 318)
def test_an_api_means_what_it_should(live: Live, function: Callable[[Live, int], None], version: int) -> None:
    live.try_out(function, version)


def offset_commit(live: Live, version: int) -> None:
    live.a_group_with_offsets(version)


def offset_fetch(live: Live, version: int) -> None:
    group = live.a_group_with_offsets()
    topic = live.named("OffsetFetch", version)
    if version >= 8:
        asked = {"groupId": group, "topics": [topic | {"partitionIndexes": [0, 1]}]}
        [told] = live.ask("OffsetFetch", {"groups": [asked]}, version)["groups"]
    else:
        told = live.ask("OffsetFetch", {"groupId": group, "topics": [topic | {"partitionIndexes": [0, 1]}]}, version)
    first, second = sorted(told["topics"][0]["partitions"], key=lambda partition: int(partition["partitionIndex"]))
    assert (first["committedOffset"], first["metadata"]) == (5, "m")
    assert (second["committedOffset"], second["metadata"], second["errorCode"]) == (-1, "", "NONE")


def offset_delete(live: Live, version: int) -> None:
    group = live.a_group_with_offsets()
    partitions = [{"partitionIndex": 0}]
    live.ask("OffsetDelete", {"groupId": group, "topics": [{"name": live.topic, "partitions": partitions}]}, version)
    asked = {"groupId": group, "topics": [{"name": live.topic, "partitionIndexes": [0]}]}
    [told] = live.ask("OffsetFetch", {"groups": [asked]}, 9)["groups"]
    assert told["topics"][0]["partitions"][0]["committedOffset"] == -1


def join_group(live: Live, version: int) -> None:
    member = live.join(version)
    assert member["generationId"] == 1
    live.leave(member)


def sync_group(live: Live, version: int) -> None:
    member = live.join()
    live.sync(member, version)
    live.leave(member)


def heartbeat(live: Live, version: int) -> None:
    member = live.join()
    live.sync(member)
    live.ask("Heartbeat", member, version)
    live.ask("Heartbeat", member | {"generationId": 99}, version, fails="ILLEGAL_GENERATION")
    live.leave(member)


def leave_group(live: Live, version: int) -> None:
    member = live.join()
    live.leave(member, version)
    [group] = live.ask("DescribeGroups", {"groups": [member["groupId"]]})["groups"]
    assert (group["groupState"], group["members"]) == ("Empty", [])


def describe_groups(live: Live, version: int) -> None:
    member = live.join()
    live.sync(member)
    [group] = live.ask("DescribeGroups", {"groups": [member["groupId"]]}, version)["groups"]
    assert (group["groupState"], group["protocolType"], group["protocolData"]) == ("Stable", "consumer", "range")
    [told] = group["members"]
    assert told["memberMetadata"]["topics"] == [live.topic]
    assert told["memberAssignment"]["assignedPartitions"] == [{"topic": live.topic, "partitions": [0, 1]}]
    live.leave(member)


def list_groups(live: Live, version: int) -> None:
    group = live.a_group_with_offsets()
    told = {row["groupId"]: row for row in live.ask("ListGroups", {}, version)["groups"]}
    assert group in told
    if version >= 4:
        assert told[group]["groupState"] == "Empty"
        states = {row["groupState"] for row in live.ask("ListGroups", {"statesFilter": ["Stable"]}, version)["groups"]}
        assert states <= {"Stable"}


def delete_groups(live: Live, version: int) -> None:
    group = live.a_group_with_offsets()
    [told] = live.ask("DeleteGroups", {"groupsNames": [group]}, version)["results"]
    assert told["groupId"] == group
    live.ask("DeleteGroups", {"groupsNames": [group]}, version, fails="GROUP_ID_NOT_FOUND")


def a_consumer(live: Live, version: int) -> tuple[dict[str, Any], Any]:
    """A member of a new group, and its assignment if it has got that already."""
    who = {"groupId": live.new("consumers"), "memberId": live.new_id() if version >= 1 else ""}
    wish = {"rebalanceTimeoutMs": 10_000, "subscribedTopicNames": [live.topic], "topicPartitions": []}
    answer = live.ask("ConsumerGroupHeartbeat", who | wish | {"memberEpoch": 0}, version)
    assert answer["memberEpoch"] >= 1
    return who | {"memberId": answer["memberId"], "memberEpoch": answer["memberEpoch"]}, answer["assignment"]


def consumer_group_heartbeat(live: Live, version: int) -> None:
    who, assignment = a_consumer(live, version)
    deadline = time.monotonic() + 120
    while not (assignment and assignment["topicPartitions"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
        answer = live.ask("ConsumerGroupHeartbeat", who, version)
        who["memberEpoch"], assignment = answer["memberEpoch"], answer["assignment"]
    [topic] = assignment["topicPartitions"]
    assert (topic["topicId"], sorted(topic["partitions"])) == (live.topic_id, [0, 1])
    assert live.ask("ConsumerGroupHeartbeat", who | {"memberEpoch": -1}, version)["memberEpoch"] == -1


def consumer_group_describe(live: Live, version: int) -> None:
    who, _ = a_consumer(live, 1)
    [group] = live.ask("ConsumerGroupDescribe", {"groupIds": [who["groupId"]]}, version)["groups"]
    [member] = group["members"]
    assert (member["memberId"], member["subscribedTopicNames"]) == (who["memberId"], [live.topic])
    assert member.get("memberType", "CONSUMER") == "CONSUMER"
    live.ask("ConsumerGroupHeartbeat", who | {"memberEpoch": -1})


def share_group_heartbeat(live: Live, version: int) -> None:
    who = live.share()
    assert live.ask("ShareGroupHeartbeat", who | {"memberEpoch": -1}, version)["memberEpoch"] == -1


def share_group_describe(live: Live, version: int) -> None:
    who = live.share()
    [group] = live.ask("ShareGroupDescribe", {"groupIds": [who["groupId"]]}, version)["groups"]
    assert [member["memberId"] for member in group["members"]] == [who["memberId"]]
    live.ask("ShareGroupHeartbeat", who | {"memberEpoch": -1})


def share_fetch(live: Live, version: int) -> None:
    assert live.share_fetch(live.share(), version)[1] == 0


def share_acknowledge(live: Live, version: int) -> None:
    who = live.share()
    epoch, last = live.share_fetch(who, live.latest("ShareFetch"))
    batch = {"firstOffset": 0, "lastOffset": last, "acknowledgeTypes": ["ACCEPT"]}
    place = {"topicId": live.topic_id, "partitions": [{"partitionIndex": 0, "acknowledgementBatches": [batch]}]}
    answer = live.ask("ShareAcknowledge", who | {"shareSessionEpoch": epoch, "topics": [place]}, version)
    assert answer["responses"][0]["partitions"][0]["errorCode"] == "NONE"


def describe_share_group_offsets(live: Live, version: int) -> None:
    who = live.share()
    asked = {"groupId": who["groupId"], "topics": [{"topicName": live.topic, "partitions": [0]}]}
    [group] = live.ask("DescribeShareGroupOffsets", {"groups": [asked]}, version)["groups"]
    assert group["topics"][0]["topicName"] == live.topic
    live.ask("ShareGroupHeartbeat", who | {"memberEpoch": -1})


def an_empty_share_group(live: Live) -> str:
    who = live.share()
    live.share_fetch(who, live.latest("ShareFetch"))
    live.ask("ShareGroupHeartbeat", who | {"memberEpoch": -1})
    return str(who["groupId"])


def alter_share_group_offsets(live: Live, version: int) -> None:
    group = an_empty_share_group(live)
    topic = {"topicName": live.topic, "partitions": [{"partitionIndex": 0, "startOffset": 1}]}
    live.ask("AlterShareGroupOffsets", {"groupId": group, "topics": [topic]}, version)
    asked = {"groupId": group, "topics": [{"topicName": live.topic, "partitions": [0]}]}
    [told] = live.ask("DescribeShareGroupOffsets", {"groups": [asked]})["groups"]
    assert told["topics"][0]["partitions"][0]["startOffset"] == 1


def delete_share_group_offsets(live: Live, version: int) -> None:
    group = an_empty_share_group(live)
    answer = live.ask("DeleteShareGroupOffsets", {"groupId": group, "topics": [{"topicName": live.topic}]}, version)
    assert answer["responses"][0]["topicName"] == live.topic


def a_stream(live: Live, version: int | None = None) -> dict[str, Any]:
    who = {"groupId": live.new("streams"), "memberId": live.new_id()}
    part = {"subtopologyId": "0", "sourceTopics": [live.topic]}
    first = {
        "rebalanceTimeoutMs": 10_000,
        "topology": {"epoch": 0, "subtopologies": [part]},
        "processId": live.new_id(),
    }
    tasks: dict[str, Any] = {"activeTasks": [], "standbyTasks": [], "warmupTasks": [], "clientTags": []}
    answer = live.ask("StreamsGroupHeartbeat", who | first | tasks | {"memberEpoch": 0}, version)
    assert answer["memberEpoch"] >= 0
    return who


def streams_group_heartbeat(live: Live, version: int) -> None:
    who = a_stream(live, version)
    assert live.ask("StreamsGroupHeartbeat", who | {"memberEpoch": -1}, version)["memberEpoch"] == -1


def streams_group_describe(live: Live, version: int) -> None:
    who = a_stream(live)
    [group] = live.ask("StreamsGroupDescribe", {"groupIds": [who["groupId"]]}, version)["groups"]
    assert [member["memberId"] for member in group["members"]] == [who["memberId"]]
    live.ask("StreamsGroupHeartbeat", who | {"memberEpoch": -1})
