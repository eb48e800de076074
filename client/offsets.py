"""Offsets of a log: a partition's start and end, the first offset at a time, the end of a leader epoch.

    list_offsets  ListOffsets (2)            to each partition's leader
    list_bounds   ListOffsets (2), thrice    to each partition's leader
    list_times    ListOffsets (2), twice     to each partition's leader
    end_of_epoch  OffsetForLeaderEpoch (23)  to each partition's leader

Sources: https://kafka.apache.org/protocol, KIP-98 (isolation), KIP-320 (leader epochs).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, Literal, NamedTuple

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.leaders import Answered, ask_leaders
from kseg.client.cluster.metadata import Leader
from kseg.client.errors import KafkaError, UnsupportedVersion
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.fetch import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kseg.client.protocol.partition import TopicPartition, by_topic
from kseg.client.wire.broker import BrokerConnection

IsolationLevel = Literal["read_committed", "read_uncommitted"]


class SpecialTimestamp(Enum):
    """Places of a log that ListOffsets finds without a time.

    Requests carry them as negative timestamps (KIP-79, KIP-405, KIP-734). They are no numbers here, because a time
    before 1970 is a negative number too.
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4


EARLIEST: Final = SpecialTimestamp.EARLIEST
LATEST: Final = SpecialTimestamp.LATEST
#: The record with the largest timestamp, for `list_offsets` (KIP-734, Kafka 3.0).
MAX_TIMESTAMP: Final = SpecialTimestamp.MAX_TIMESTAMP
#: Where the part on the leader's own disk begins, for `list_offsets` (KIP-405, Kafka 3.0).
EARLIEST_LOCAL: Final = SpecialTimestamp.EARLIEST_LOCAL

TimeOrMark = int | SpecialTimestamp
"""A time (ms since 1970), or a place without one. Times before 1970 are searched for as 0: no record is older."""

_CONSUMER: Final = -1  # as replica id
_FIRST_BY_TIME: Final = 1
_FIRST_WITH_ISOLATION: Final = 2
_FIRST_WITH_MAX_TIMESTAMP: Final = 7
_FIRST_WITH_EARLIEST_LOCAL: Final = 8
_FIRST_WITH_REPLICA: Final = 3

_TOO_OLD: Final = (
    # What is asked for (None: any time), the first version that knows it, and the message for a broker before that.
    (
        None,
        _FIRST_BY_TIME,
        "the broker is too old to find offsets by timestamp (before 0.10.1): give offsets instead",
    ),
    (MAX_TIMESTAMP, _FIRST_WITH_MAX_TIMESTAMP, "the broker is too old to find the largest timestamp (before 3.0)"),
    (EARLIEST_LOCAL, _FIRST_WITH_EARLIEST_LOCAL, "the broker is too old to tell where its disk begins (before 3.0)"),
)


class ListedOffset(NamedTuple):
    """An offset and, for a search by time, the timestamp (ms) of its record. Offset -1: there is no record."""

    offset: int
    timestamp: int
    leader_epoch: int


class ListedBounds(NamedTuple):
    """The bounds of a log, each with the leader epoch in its response."""

    start: ListedOffset
    last_stable: ListedOffset
    high_watermark: ListedOffset


class ListedTime(NamedTuple):
    """The first record at or after a time, and the log's end from before that search."""

    end: ListedOffset
    first: ListedOffset


class EpochEnd(NamedTuple):
    """The largest epoch up to the requested one, and the offset after its last record; -1, -1: unknown."""

    leader_epoch: int
    end_offset: int


def isolation_code(isolation_level: IsolationLevel) -> int:
    """The protocol's number for an isolation level."""
    codes = {"read_uncommitted": 0, "read_committed": 1}
    if isolation_level not in codes:
        raise ValueError(f"isolation level {isolation_level!r} is neither read_committed nor read_uncommitted")
    return codes[isolation_level]


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, TimeOrMark], *, isolation_level: IsolationLevel
) -> dict[TopicPartition, ListedOffset]:
    """The first offset at or after a time (ms), or EARLIEST, LATEST, MAX_TIMESTAMP or EARLIEST_LOCAL.

    A time before 1970 is requested as 0: the first record that has a timestamp. EARLIEST also finds records without.

    LATEST is the high watermark under read_uncommitted, and the last stable offset under read_committed. Brokers before
    0.11 have no transactions, so both are the same there. For a time after the last record, the offset is -1.

    Raises the error of `client.errors.error_from_code` for a partition's error code. A time raises UnsupportedVersion
    with brokers before 0.10.1, which cannot search by time, and an error with code 43 for topics in a message format
    before 0.10.0, whose messages have no timestamps. MAX_TIMESTAMP and EARLIEST_LOCAL raise UnsupportedVersion before
    3.0.
    """
    answers = _ask(cluster, wanted, [_Question(wanted, isolation_code(isolation_level))])
    return {tp: listed for tp, (listed,) in answers.items()}


def list_bounds(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ListedBounds]:
    """Each partition's log start, last stable offset and high watermark, in one round trip.

    A leader processes the three requests in this order, and all three offsets only increase, so always start <= last
    stable offset <= high watermark. Raises the errors of `list_offsets`.
    """
    uncommitted, committed = isolation_code("read_uncommitted"), isolation_code("read_committed")
    earliest, latest = dict.fromkeys(partitions, EARLIEST), dict.fromkeys(partitions, LATEST)
    questions = [_Question(earliest, uncommitted), _Question(latest, committed), _Question(latest, uncommitted)]
    return {tp: ListedBounds(*answers) for tp, answers in _ask(cluster, partitions, questions).items()}


def list_times(
    cluster: Cluster, times: Mapping[TopicPartition, TimeOrMark], *, isolation_level: IsolationLevel
) -> dict[TopicPartition, ListedTime]:
    """For each partition, the first offset as of `list_offsets`, and LATEST, in one round trip.

    A leader processes LATEST first. So if no record is found, all records at or after the time that become visible
    later (they are written, or their transaction commits) are at or above that end. Raises the errors of
    `list_offsets`.
    """
    isolation = isolation_code(isolation_level)
    questions = [_Question(dict.fromkeys(times, LATEST), isolation), _Question(times, isolation)]
    return {tp: ListedTime(*answers) for tp, answers in _ask(cluster, times, questions).items()}


class _Question(NamedTuple):
    """One ListOffsets request for all partitions: the timestamp for each, and the isolation level's number."""

    wanted: Mapping[TopicPartition, TimeOrMark]
    isolation: int


def _ask(
    cluster: Cluster, partitions: Collection[TopicPartition], questions: Sequence[_Question]
) -> dict[TopicPartition, list[ListedOffset]]:
    """Each partition's responses to all requests, from one leader."""

    def version_of(connection: BrokerConnection, _: Mapping[TopicPartition, Leader]) -> int:
        if connection.offers(ListOffsetsRequest, _FIRST_BY_TIME):
            return connection.version_of(ListOffsetsRequest)
        return 0  # never chosen by itself, as it knows no times; the ends of a log are the same in all versions

    def build(version: int, leaders: Mapping[TopicPartition, Leader]) -> list[ListOffsetsRequest]:
        timeout_ms = cluster.config.request_timeout_ms
        return [_list_offsets_request(version, leaders, question, timeout_ms) for question in questions]

    def read(
        responses: Sequence[ListOffsetsResponse], leaders: Mapping[TopicPartition, Leader]
    ) -> Iterator[Answered[list[ListedOffset]]]:
        found: dict[TopicPartition, list[ListedOffset]] = {tp: [] for tp in leaders}
        for response in responses:
            for tp, code, listed in _answers(response):
                if code:
                    yield Answered(tp, code, [])
                    found.pop(tp, None)
                elif tp in found:
                    found[tp].append(listed)
        yield from (Answered(tp, 0, listed) for tp, listed in found.items() if len(listed) == len(questions))

    try:
        return ask_leaders(cluster, partitions, ListOffsetsRequest, build, read, version_of)
    except KafkaError as error:
        if error.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            error.message += (
                "; the topic's messages are in a format without times: give offsets instead of a time, or set the "
                "topic's message.format.version to 0.10.0 or later for messages to come"
            )
        raise


def _answers(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, int, ListedOffset]]:
    for topic in response.topics:
        for found in topic.partitions:
            # Version 0 answers EARLIEST and LATEST with a list of that one offset.
            offset = next(iter(found.old_style_offsets), found.offset)
            listed = ListedOffset(offset, found.timestamp, found.leader_epoch)
            yield TopicPartition(topic.name, found.partition_index), found.error_code, listed


def _list_offsets_request(
    version: int, leaders: Mapping[TopicPartition, Leader], question: _Question, timeout_ms: int
) -> ListOffsetsRequest:
    """The ListOffsets request. Raises UnsupportedVersion if the leader is too old for it."""
    wanted = question.wanted
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        timeout_ms=timeout_ms,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(
                        partition_index=tp.partition,
                        current_leader_epoch=leaders[tp].epoch,
                        timestamp=_wire_timestamp(wanted[tp]),
                    )
                    for tp in partitions
                ],
            )
            for topic, partitions in by_topic(leaders).items()
        ],
    )
    if version >= _FIRST_WITH_ISOLATION:
        request.isolation_level = question.isolation
    for mark, first, what in _TOO_OLD:
        if version >= first:
            continue
        for tp in leaders:
            if wanted[tp] is mark or (mark is None and wanted[tp] not in (EARLIEST, LATEST)):
                raise UnsupportedVersion(what, topic=tp.topic, partition=tp.partition)
    return request


def _wire_timestamp(wanted: TimeOrMark) -> int:
    return wanted.value if isinstance(wanted, SpecialTimestamp) else max(0, wanted)


def end_of_epoch(cluster: Cluster, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
    """The end of each partition's leader epoch. If it is below an offset read in this epoch, the log was truncated."""

    def build(version: int, leaders: Mapping[TopicPartition, Leader]) -> list[OffsetForLeaderEpochRequest]:
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
        return [request]

    def read(
        responses: Sequence[OffsetForLeaderEpochResponse], _: Mapping[TopicPartition, Leader]
    ) -> Iterator[Answered[EpochEnd]]:
        for topic in responses[0].topics:
            for found in topic.partitions:
                value = EpochEnd(found.leader_epoch, found.end_offset)
                yield Answered(TopicPartition(topic.topic, found.partition), found.error_code, value)

    return ask_leaders(cluster, epochs, OffsetForLeaderEpochRequest, build, read)
