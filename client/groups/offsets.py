"""A group's committed offsets: fetching them, and committing outside of transactions.

    committed_offsets  OffsetFetch (9)   to the group's coordinator
    commit_offsets     OffsetCommit (8)  to the group's coordinator

Transactional commits: `client.transactions.transaction`.

Sources: https://kafka.apache.org/protocol, KIP-320 (leader epochs), KIP-447 (stable offsets), KIP-516 and KIP-848
(topic ids).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.coordinators import CoordinatorKey
from kseg.client.cluster.metadata import NO_ID
from kseg.client.errors import KafkaError, OffsetCommitFailed, ProtocolFault, UnsupportedVersion, error_from_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.lookup import permission_lacking, reaction
from kseg.client.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse
from kseg.client.protocol.partition import TopicPartition, by_topic
from kseg.client.protocol.versions import can_require_stable
from kseg.client.retry import Deadline

NO_OFFSET: Final = -1

#: The most bytes that one request writes to `__consumer_offsets`: a quarter of what brokers allow by default.
COMMIT_BYTES: Final = 256 * 1024
_RECORD_BYTES: Final = 80  # at most, of a record there without its strings

_FIRST_WITH_ALL_TOPICS: Final = 2
_FIRST_WITH_GROUPS: Final = 8
_FIRST_WITH_TOPIC_IDS: Final = 10


class CommittedOffset(NamedTuple):
    """The next offset to read, the leader epoch of the record before it (-1: unknown), the commit's metadata text."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Committer(NamedTuple):
    """The committer: a member of the group in a generation (the new protocol: in a member epoch), or no member."""

    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


NOBODY: Final = Committer()


def committed_offsets(
    cluster: Cluster,
    group: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    require_stable: bool = True,
) -> dict[TopicPartition, CommittedOffset]:
    """A group's committed offsets of `partitions` (None: of all). Offset -1: none is committed for the partition.

    `require_stable`: retries while a transaction's commit of these offsets is pending. It may be pending shortly after
    `commit` too, because EndTxn returns before the group's coordinator has written the offsets. Name the partitions in
    this case: for None, a broker silently leaves out partitions whose first commit is pending. Brokers before 2.5
    (OffsetFetch below 7) do not support it: there, only an `InitProducerId` for the transactional id beforehand makes
    sure that nothing is pending.
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
    """Commit without a transaction; by default also not as a member (generation -1, member id "").

    A coordinator accepts a commit by a non-member only if the group has no live members. Raises OffsetCommitFailed with
    the code of each failed partition; the others may have been committed. Many offsets are sent in several requests
    (`in_parts`).
    """
    for part in in_parts(group, offsets):
        _commit_part(cluster, group, part, committer)


def in_parts(
    group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> Iterator[dict[TopicPartition, CommittedOffset]]:
    """The offsets in parts that are small enough for one request each.

    The coordinator writes the offsets of one request as one batch. If it is larger than the `max.message.bytes` of
    `__consumer_offsets` (1 MB by default), the request fails with UNKNOWN_SERVER_ERROR.
    """
    part: dict[TopicPartition, CommittedOffset] = {}
    remaining = COMMIT_BYTES
    for tp, offset in offsets.items():
        size = _RECORD_BYTES + len(group.encode()) + len(tp.topic.encode()) + len((offset.metadata or "").encode())
        if part and size > remaining:
            yield part
            part, remaining = {}, COMMIT_BYTES
        part[tp] = offset
        remaining -= size
    if part:
        yield part


def _commit_part(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, CommittedOffset], committer: Committer
) -> None:
    key: CoordinatorKey = ("group", group)

    def attempt(deadline: Deadline) -> None:
        ids = _topic_ids(cluster, offsets, deadline)
        connection = cluster.coordinator(key, deadline)
        version = connection.version_of(OffsetCommitRequest, topic_ids_known=bool(ids))
        response = connection.call(_offset_commit(version, group, offsets, ids, committer), version, deadline=deadline)
        names = {topic_id: name for name, topic_id in ids.items()}
        codes = {
            TopicPartition(names.get(topic.topic_id, topic.name), entry.partition_index): entry.error_code
            for topic in response.topics
            for entry in topic.partitions
        }
        check_committed("OffsetCommit", group, offsets, codes)

    cluster.retry(attempt, coordinator=key)


def check_committed(
    what: str,
    group: str,
    offsets: Collection[TopicPartition],
    codes: Mapping[TopicPartition, int],
    *,
    transactional_id: str | None = None,
) -> None:
    """Raise OffsetCommitFailed if any partition failed (retriable if every failure is), ProtocolFault if one is not in
    the response. codes: the error codes in the response, 0 for success.
    """
    failed = {tp: ErrorCode.of(code) for tp, code in codes.items() if code}
    missing = next((tp for tp in offsets if tp not in codes), None)
    if missing is not None and not failed:
        raise ProtocolFault(
            f"{what} response lacks a requested partition",
            topic=missing.topic,
            partition=missing.partition,
            group=group,
            transactional_id=transactional_id,
        )
    if not failed:
        return
    words = ", ".join(f"{tp}: {code.name}" for tp, code in failed.items())
    place, decisive = next(
        ((tp, code) for tp, code in failed.items() if not reaction(what, code).retriable), next(iter(failed.items()))
    )
    lacking = permission_lacking(decisive, what, topic=place.topic, group=group, transactional_id=transactional_id)
    if lacking is not None:
        words += f"; lacking: {lacking} ({lacking.remedy})"
    kind = reaction(what, decisive)
    raise OffsetCommitFailed(
        f"{what} failed for {len(failed)} partitions: {words}",
        partitions=failed,
        lacking=lacking,
        code=decisive,
        retriable=kind.retriable,
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
        raise UnsupportedVersion("the broker is too old to return all offsets of a group", group=group)
    return request


def _fetched(
    response: OffsetFetchResponse, group: str, ids: Mapping[str, UUID]
) -> dict[TopicPartition, CommittedOffset]:
    """The partitions of a response of any version. Raises its first error that is not retriable, else its first."""
    names = {topic_id: name for name, topic_id in ids.items()}
    answered: Any = response
    if response.groups:
        answered = next((entry for entry in response.groups if entry.group_id == group), None)
        if answered is None:
            raise ProtocolFault("OffsetFetch response lacks the requested group", group=group)
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
