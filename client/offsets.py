"""Offsets: where a partition begins and ends, where a time or a leader epoch begins, what a group has committed.

    list_offsets       ListOffsets (2)            to each partition's leader
    end_of_epoch       OffsetForLeaderEpoch (23)  to each partition's leader
    committed_offsets  OffsetFetch (9)            to the group's coordinator
    commit_offsets     OffsetCommit (8)           to the group's coordinator; transactional ones: `client.transactions`

Sources: https://kafka.apache.org/protocol, KIP-98 (isolation), KIP-320 (leader epochs), KIP-447 (stable offsets),
KIP-516 and KIP-848 (topic ids).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from client.broker import BrokerConnection
from client.cluster import Cluster, CoordinatorKey
from client.errors import Code, KafkaError, OffsetCommitFailed, ProtocolFault, UnsupportedVersion, error_from_code
from client.leaders import Answered, ask_leaders
from client.metadata import NO_ID, Leader
from client.partition import TopicPartition
from client.permissions import permission_lacking
from client.protocol import ErrorCode
from client.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from client.protocol.versions import can_require_stable
from client.reactions import reaction
from client.retry import Deadline

IsolationLevel = Literal["read_committed", "read_uncommitted"]

EARLIEST: Final = -2
LATEST: Final = -1
NO_OFFSET: Final = -1

_CONSUMER: Final = -1  # as replica id
_FIRST_BY_TIME: Final = 1
_FIRST_WITH_ISOLATION: Final = 2
_FIRST_WITH_ALL_TOPICS: Final = 2
_FIRST_WITH_GROUPS: Final = 8
_FIRST_WITH_TOPIC_IDS: Final = 10
_FIRST_WITH_REPLICA: Final = 3


class ListedOffset(NamedTuple):
    """An offset and, for a question by time, the timestamp (ms) of the record there. Offset -1: nothing there."""

    offset: int
    timestamp: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The largest epoch not above the one asked for, and the offset after its last record; -1, -1: not known."""

    leader_epoch: int
    end_offset: int


class CommittedOffset(NamedTuple):
    """The next offset to read, the leader epoch of the record before it (-1: not known), the committer's own words."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Committer(NamedTuple):
    """Who commits: a member of the group in a generation (the new protocol: in a member epoch), or nobody of it."""

    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


NOBODY: Final = Committer()


def isolation_code(isolation_level: IsolationLevel) -> int:
    """The protocol's number for an isolation level."""
    codes = {"read_uncommitted": 0, "read_committed": 1}
    if isolation_level not in codes:
        raise ValueError(f"isolation level {isolation_level!r} is neither read_committed nor read_uncommitted")
    return codes[isolation_level]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions grouped by topic, as requests carry them."""
    groups: dict[str, list[TopicPartition]] = defaultdict(list)
    for tp in partitions:
        groups[tp.topic].append(tp)
    return groups


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation_level: IsolationLevel
) -> dict[TopicPartition, ListedOffset]:
    """The first offset at or after a time (ms), or EARLIEST, or LATEST.

    LATEST is the high watermark under read_uncommitted, and the last stable offset under read_committed: a broker too
    old to be asked for it (before 0.11) has no transactions, and both are the same there. A time after the last
    record's gives offset -1.

    Raises what `client.errors.error_from_code` makes of a partition's error. A time is refused with UnsupportedVersion
    by a broker before 0.10.1, which knows where its segments begin, but not when; and with code 43 for a topic in a
    message format before 0.10.0, whose messages have no times.
    """
    isolation = isolation_code(isolation_level)

    def version_of(connection: BrokerConnection, _: Mapping[TopicPartition, Leader]) -> int:
        if connection.offers(ListOffsetsRequest, _FIRST_BY_TIME):
            return connection.version_of(ListOffsetsRequest)
        return 0  # never chosen by itself, as it knows no times; the ends of a log are the same in all versions

    def build(version: int, leaders: Mapping[TopicPartition, Leader]) -> ListOffsetsRequest:
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            timeout_ms=cluster.config.request_timeout_ms,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsRequest.ListOffsetsPartition(
                            partition_index=tp.partition, current_leader_epoch=leaders[tp].epoch, timestamp=wanted[tp]
                        )
                        for tp in partitions
                    ],
                )
                for topic, partitions in by_topic(leaders).items()
            ],
        )
        if version >= _FIRST_WITH_ISOLATION:
            request.isolation_level = isolation
        timed = [tp for tp in leaders if wanted[tp] not in (EARLIEST, LATEST)]
        if timed and version < _FIRST_BY_TIME:
            raise UnsupportedVersion(
                "the broker cannot find offsets by time, it is too old (before 0.10.1): name offsets instead",
                topic=timed[0].topic,
                partition=timed[0].partition,
            )
        return request

    def read(response: ListOffsetsResponse, _: Mapping[TopicPartition, Leader]) -> Iterator[Answered[ListedOffset]]:
        for topic in response.topics:
            for found in topic.partitions:
                # Version 0 answers EARLIEST and LATEST with a list of that one offset.
                offset = next(iter(found.old_style_offsets), found.offset)
                value = ListedOffset(offset, found.timestamp, found.leader_epoch)
                yield Answered(TopicPartition(topic.name, found.partition_index), found.error_code, value)

    try:
        return ask_leaders(cluster, wanted, ListOffsetsRequest, build, read, version_of)
    except KafkaError as error:
        if error.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            error.message += (
                "; the topic's messages are in a format without times: name offsets instead of a time, or set the "
                "topic's message.format.version to 0.10.0 or later for messages to come"
            )
        raise


def end_of_epoch(cluster: Cluster, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
    """Where each partition's leader epoch ended. An end below an offset read in that epoch: the log was truncated."""

    def build(version: int, leaders: Mapping[TopicPartition, Leader]) -> OffsetForLeaderEpochRequest:
        request = OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                            partition=tp.partition, current_leader_epoch=leaders[tp].epoch, leader_epoch=epochs[tp]
                        )
                        for tp in partitions
                    ],
                )
                for topic, partitions in by_topic(leaders).items()
            ]
        )
        if version >= _FIRST_WITH_REPLICA:
            request.replica_id = _CONSUMER
        return request

    def read(
        response: OffsetForLeaderEpochResponse, _: Mapping[TopicPartition, Leader]
    ) -> Iterator[Answered[EpochEnd]]:
        for topic in response.topics:
            for found in topic.partitions:
                value = EpochEnd(found.leader_epoch, found.end_offset)
                yield Answered(TopicPartition(topic.topic, found.partition), found.error_code, value)

    return ask_leaders(cluster, epochs, OffsetForLeaderEpochRequest, build, read)


def committed_offsets(
    cluster: Cluster,
    group: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    require_stable: bool = True,
) -> dict[TopicPartition, CommittedOffset]:
    """What a group has committed (None: all it has). Offset -1: nothing committed for a partition asked for.

    `require_stable` waits, by retrying, for a pending transaction's commit of these offsets to be decided: also for one
    that has been committed a moment ago, since EndTxn answers before the group's coordinator has heard of it. Name the
    partitions then: asked for all, a broker leaves out those whose first commit is pending, without a word. Brokers
    before 2.5 (OffsetFetch below 7) cannot wait at all: there only an `InitProducerId` on the transactional id
    beforehand makes sure that nothing is pending.
    """
    key: CoordinatorKey = ("group", group)

    def attempt(deadline: Deadline) -> dict[TopicPartition, CommittedOffset]:
        ids = _topic_ids(cluster, partitions, deadline)
        connection = cluster.coordinator(key, deadline)
        version = connection.version_of(OffsetFetchRequest, topic_ids_known=bool(ids))
        request = _offset_fetch(version, group, partitions, ids, require_stable)
        found = _fetched(connection.call(request, version, deadline=deadline), group, ids)
        return found | {tp: CommittedOffset(NO_OFFSET) for tp in partitions or () if tp not in found}

    return cluster.retry(attempt, coordinator=key)


def commit_offsets(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, CommittedOffset], *, committer: Committer = NOBODY
) -> None:
    """Commit outside of any transaction, by default of any generation too (generation -1, member id "").

    A coordinator takes the latter only for a group without live members. Raises OffsetCommitFailed with the code of
    each partition that was refused; the others may have been committed.
    """
    key: CoordinatorKey = ("group", group)

    def attempt(deadline: Deadline) -> None:
        ids = _topic_ids(cluster, offsets, deadline)
        connection = cluster.coordinator(key, deadline)
        version = connection.version_of(OffsetCommitRequest, topic_ids_known=bool(ids))
        response = connection.call(_offset_commit(version, group, offsets, ids, committer), version, deadline=deadline)
        names = {topic_id: name for name, topic_id in ids.items()}
        failed: dict[TopicPartition, Code] = {}
        for topic in response.topics:
            name = names.get(topic.topic_id, topic.name)
            for entry in topic.partitions:
                if entry.error_code:
                    failed[TopicPartition(name, entry.partition_index)] = ErrorCode.of(entry.error_code)
        raise_commit_failed("OffsetCommit", group, failed)

    if offsets:
        cluster.retry(attempt, coordinator=key)


def raise_commit_failed(
    what: str, group: str, failed: Mapping[TopicPartition, Code], *, transactional_id: str | None = None
) -> None:
    """Raise OffsetCommitFailed if any partition failed; retriable if every failure is."""
    if not failed:
        return
    words = ", ".join(f"{tp}: {code.name}" for tp, code in failed.items())
    place, decisive = next(
        ((tp, code) for tp, code in failed.items() if not reaction(what, code).again), next(iter(failed.items()))
    )
    lacking = permission_lacking(decisive, what, topic=place.topic, group=group, transactional_id=transactional_id)
    if lacking is not None:
        words += f"; lacking: {lacking} ({lacking.remedy})"
    kind = reaction(what, decisive)
    raise OffsetCommitFailed(
        f"{what} refused for {len(failed)} partitions: {words}",
        partitions=failed,
        lacking=lacking,
        code=decisive,
        retriable=kind.again,
        reaction=kind,
        group=group,
    )


def _topic_ids(cluster: Cluster, partitions: Iterable[TopicPartition] | None, deadline: Deadline) -> dict[str, UUID]:
    """The ids of these partitions' topics, or {} unless all are known: a request names all topics by id or none."""
    if partitions is None:
        return {}
    topics = {tp.topic for tp in partitions}
    known = cluster.metadata_now(topics, deadline).topics
    ids = {name: topic.topic_id for name, topic in known.items() if topic.topic_id is not None}
    return ids if len(ids) == len(topics) else {}


def _offset_commit(
    version: int,
    group: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    ids: Mapping[str, UUID],
    committer: Committer,
) -> OffsetCommitRequest:
    topics = []
    for topic, members in by_topic(offsets).items():
        entry = OffsetCommitRequest.OffsetCommitRequestTopic(
            partitions=[
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=offsets[tp].offset,
                    committed_leader_epoch=offsets[tp].leader_epoch,
                    committed_metadata=offsets[tp].metadata,
                )
                for tp in members
            ]
        )
        if version >= _FIRST_WITH_TOPIC_IDS:
            entry.topic_id = ids[topic]
        else:
            entry.name = topic
        topics.append(entry)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=committer.generation,
        member_id=committer.member_id,
        group_instance_id=committer.instance_id,
        topics=topics,
    )


def _offset_fetch(
    version: int,
    group: str,
    partitions: Collection[TopicPartition] | None,
    ids: Mapping[str, UUID],
    require_stable: bool,
) -> OffsetFetchRequest:
    request = OffsetFetchRequest()
    if can_require_stable(version):
        request.require_stable = require_stable
    topics = by_topic(partitions or ())
    if version >= _FIRST_WITH_GROUPS:
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
        if partitions is not None:
            asked.topics = []
            for topic, members in topics.items():
                entry = OffsetFetchRequest.OffsetFetchRequestTopics(partition_indexes=[tp.partition for tp in members])
                if version >= _FIRST_WITH_TOPIC_IDS:
                    entry.topic_id = ids[topic]
                else:
                    entry.name = topic
                asked.topics.append(entry)
        request.groups = [asked]
        return request
    request.group_id = group
    if partitions is not None:
        request.topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[tp.partition for tp in members])
            for topic, members in topics.items()
        ]
    elif version >= _FIRST_WITH_ALL_TOPICS:
        request.topics = None
    else:
        raise UnsupportedVersion("the broker cannot tell all of a group's offsets at once: it is too old", group=group)
    return request


def _fetched(
    response: OffsetFetchResponse, group: str, ids: Mapping[str, UUID]
) -> dict[TopicPartition, CommittedOffset]:
    """The partitions of an answer, whichever version's shape it has. Raises its first error, a decisive one first."""
    names = {topic_id: name for name, topic_id in ids.items()}
    answered: Any = response
    if response.groups:
        answered = next((entry for entry in response.groups if entry.group_id == group), None)
        if answered is None:
            raise ProtocolFault("OffsetFetch answer lacks the group asked for", group=group)
    errors: list[KafkaError] = []
    if answered.error_code:
        errors.append(error_from_code(answered.error_code, "OffsetFetch", group=group))
    found: dict[TopicPartition, CommittedOffset] = {}
    for topic in answered.topics:
        name = names.get(getattr(topic, "topic_id", NO_ID), topic.name)
        for entry in topic.partitions:
            tp = TopicPartition(name, entry.partition_index)
            if entry.error_code:
                errors.append(
                    error_from_code(
                        entry.error_code, "OffsetFetch", group=group, topic=tp.topic, partition=tp.partition
                    )
                )
            found[tp] = CommittedOffset(entry.committed_offset, entry.committed_leader_epoch, entry.metadata or "")
    if errors:
        raise min(errors, key=lambda error: error.retriable)
    return found
