"""Reading one partition: Fetch (1) as a pipelined long poll over a connection of its own.

    reader.request(start)
    while ...:
        fetched = reader.response()
        reader.request(next_offset(fetched.records))    # before decoding: the broker works while we do
        decode(fetched)

The record set comes as a view of the received bytes, uninterpreted. It may begin below the offset asked for (a batch
comes whole), end with an incomplete batch, and, with its first batch, be larger than every limit that was asked for.
Brokers before 0.10.1 (Fetch below 3) send of a larger message only as much as was asked for, from which nobody gets on:
there the limit is raised, up to a largest one. An answer without records is an ordinary one: nothing came within
`max_wait_ms`.

What has nothing to do with the caller is handled inside: no leader, another leader, a fenced or unknown leader epoch, a
broken connection: metadata is refreshed and every open request sent again, until `default.api.timeout.ms` has passed.

Fetch sessions (KIP-227) are not used: they save work where one request names many partitions, ours name one. From
version 13 on the topic is named by its id (KIP-516), so a topic that was deleted and created again under the same name
is told apart; where the id is not known, version 12 is the last.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from client.broker import BrokerConnection
from client.cluster import Cluster
from client.connection import MAX_FETCH_FRAME
from client.errors import (
    BrokerError,
    KafkaError,
    LeaderNotAvailable,
    MessageCutShort,
    OffsetOutOfRange,
    ProtocolFault,
    UnknownTopic,
    error_from_code,
)
from client.metadata import NO_ID, Leader
from client.offsets import EARLIEST, LATEST, IsolationLevel, isolation_code, list_offsets
from client.partition import TopicPartition
from client.protocol import ErrorCode
from client.protocol.messages import FetchRequest, FetchResponse
from client.retry import Backoff, Deadline

#: For the last fetch of a range: what it wants is there already, so an answer without records is to come at once.
LAST_MAX_WAIT_MS: Final = 10
#: What a broker before 0.10.1 is asked for at most, if one message is larger than `max_bytes`.
LARGEST_MESSAGE: Final = 128 * 1024 * 1024
_FIRST_WITH_WHOLE_MESSAGES: Final = 3
_FIRST_WITH_TOPIC_IDS: Final = 13
_MESSAGE_HEAD: Final = Struct(">qi")  # of every format: offset, and the length of what follows
_NOT_KNOWN: Final = -1
_SESSIONLESS: Final = (0, -1)


class AbortedTransaction(NamedTuple):
    """An aborted transaction that overlaps what was returned; it may have begun before it."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """One Fetch answer. `records` is the record set as it came; offsets are -1 where the broker is too old to tell."""

    records: memoryview
    aborted: list[AbortedTransaction]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    fetch_offset: int
    throttle_time_ms: int


@dataclass(slots=True)
class _Asked:
    offset: int
    last: bool
    sent: bool = False


class PartitionReader:
    """Fetches from one partition's leader. Close it, or use it as a context manager."""

    def __init__(
        self,
        cluster: Cluster,
        tp: TopicPartition,
        *,
        isolation_level: IsolationLevel,
        topic_id: UUID | None = None,
        max_bytes: int | None = None,
        max_wait_ms: int | None = None,
        leader_epoch: int | None = None,
        largest_message: int = LARGEST_MESSAGE,
    ) -> None:
        """Nothing is sent yet.

        `topic_id`: read from no other topic of that name (None: from the one that is there at the first fetch).
        `max_bytes`: how much to ask for at once (`max.partition.fetch.bytes` and `fetch.max.bytes` if None).
        `leader_epoch`: metadata with an older one than this is known to be out of date, and not believed.
        `largest_message`: up to which size to ask brokers before 0.10.1 for a message that does not fit `max_bytes`.
        """
        config = cluster.config
        self.tp = tp
        self.topic_id = topic_id
        self._cluster = cluster
        self._isolation = isolation_code(isolation_level)
        self._max_bytes = (
            min(config.max_partition_fetch_bytes, config.fetch_max_bytes) if max_bytes is None else max_bytes
        )
        self._largest_message = max(largest_message, self._max_bytes)
        self._max_wait_ms = config.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms
        self._oldest_epoch = _NOT_KNOWN if leader_epoch is None else leader_epoch
        self._asked: deque[_Asked] = deque()
        self._connection: BrokerConnection | None = None
        self._leader: Leader | None = None
        self._version = _NOT_KNOWN

    def __enter__(self) -> PartitionReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection and everything that was asked."""
        self._asked.clear()
        self._disconnect()

    def request(self, offset: int, *, last: bool = False) -> None:
        """Ask for records from `offset` on, without waiting.

        `last`: no later record is wanted than what is there now, so do not wait for more if there is none. Before the
        first answer, and while the broker throttles us, the request goes out with the next `response()`.
        """
        asked = _Asked(offset, last)
        self._asked.append(asked)
        if self._connection is None or self._connection.closed or self._connection.muted_for:
            return
        try:
            self._send_unsent(Deadline.after(self._request_timeout))
        except KafkaError as error:
            if not error.retriable:
                self.close()
                raise
            self._disconnect()  # response() connects again and sends again
            self._cluster.learn(error)

    def response(self) -> FetchedRecords:
        """The answer to the oldest request that has none yet.

        Raises OffsetOutOfRange (with where the log begins and ends), UnknownTopic if the topic is another one by now,
        AuthorizationFailed, MessageCutShort (of old brokers), or when the deadline has passed the last retriable error,
        naming the partition. After an error nothing is asked any more.
        """
        if not self._asked:
            raise RuntimeError("response() without request()")
        backoff = self._new_backoff()
        while True:
            try:
                fetched = self._try(backoff.deadline)
                if fetched is None:
                    # Throttled, or to be asked for more: the broker lives, so the deadline begins again after that.
                    backoff = self._new_backoff()
                    continue
                self._asked.popleft()
                return fetched
            except KafkaError as error:
                self._disconnect()
                self._cluster.learn(error)
                try:
                    backoff.pause(self._addressed(error))
                except KafkaError:
                    self.close()
                    raise

    @property
    def _request_timeout(self) -> float:
        return self._cluster.config.request_timeout_ms / 1000

    def _new_backoff(self) -> Backoff:
        config = self._cluster.config
        muted = 0.0 if self._connection is None else self._connection.muted_for
        return config.retry.start(Deadline.after(config.default_api_timeout_ms / 1000 + muted))

    def _try(self, deadline: Deadline) -> FetchedRecords | None:
        connection = self._connected(deadline)
        self._send_unsent(deadline)
        wait = deadline.within(self._request_timeout + self._max_wait_ms / 1000)
        response: FetchResponse = connection.receive(deadline=wait)
        if response.error_code:
            raise error_from_code(response.error_code, "Fetch", broker=connection.label)
        if not response.responses and response.throttle_time_ms > 0:
            # A broker over its quota answers at once, without any partition (KIP-219): to be asked again.
            self._ask_again(connection)
            return None
        fetched = self._read(response, self._asked[0], connection)
        if self._version < _FIRST_WITH_WHOLE_MESSAGES and (size := _size_if_cut(fetched.records)):
            self._raise_limit(size, fetched, connection)
            self._ask_again(connection)
            return None
        return fetched

    def _ask_again(self, connection: BrokerConnection) -> None:
        """The oldest request is to go out once more."""
        for asked in self._asked:
            asked.sent = asked is not self._asked[0]
        if connection.in_flight:
            self._disconnect()  # later answers would come before the one asked again

    def _raise_limit(self, size: int, fetched: FetchedRecords, connection: BrokerConnection) -> None:
        if size <= self._max_bytes:
            raise ProtocolFault(
                f"Fetch answer holds {len(fetched.records)} of a message's {size} bytes, though {self._max_bytes} were "
                "asked for",
                broker=connection.label,
            )
        if size > self._largest_message:
            raise MessageCutShort(
                f"the message from offset {fetched.fetch_offset} on has {size} bytes, and {self._largest_message} are "
                f"asked for at most; this broker (Fetch v{self._version}) sends no message above what it is asked for: "
                "read on after it, or set max.partition.fetch.bytes and fetch.max.bytes to as much as it has",
                offset=fetched.fetch_offset,
                size=size,
                broker=connection.label,
            )
        self._max_bytes = size

    def _connected(self, deadline: Deadline) -> BrokerConnection:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        leader = self._find_leader(deadline)
        connection = self._cluster.open_connection(leader.broker, deadline, max_frame=MAX_FETCH_FRAME)
        self._connection, self._leader = connection, leader
        self._version = connection.version_of(FetchRequest, topic_ids_known=self.topic_id is not None)
        return connection

    def _find_leader(self, deadline: Deadline) -> Leader:
        leader = self._cluster.leader(self.tp, deadline)
        if self._is_another_topic(leader):
            self._cluster.forget_metadata()  # maybe it is the cached one that is another
            leader = self._cluster.leader(self.tp, deadline)
            if self._is_another_topic(leader):
                raise UnknownTopic(
                    f"the topic was deleted and created again: its id is {leader.topic_id}, not {self.topic_id}",
                    code=ErrorCode.INCONSISTENT_TOPIC_ID,
                    retriable=False,
                )
        if _NOT_KNOWN < leader.epoch < self._oldest_epoch:
            raise LeaderNotAvailable(
                f"the cluster's metadata is behind: leader epoch {leader.epoch}, {self._oldest_epoch} was seen before"
            )
        self.topic_id = leader.topic_id
        self._oldest_epoch = max(self._oldest_epoch, leader.epoch)
        return leader

    def _is_another_topic(self, leader: Leader) -> bool:
        return None not in (self.topic_id, leader.topic_id) and self.topic_id != leader.topic_id

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        for asked in self._asked:
            asked.sent = False

    def _send_unsent(self, deadline: Deadline) -> None:
        assert self._connection is not None
        for asked in self._asked:
            if not asked.sent:
                self._connection.send(self._build(asked), self._version, deadline=deadline)
                asked.sent = True

    def _build(self, asked: _Asked) -> FetchRequest:
        assert self._leader is not None
        topic = FetchRequest.FetchTopic(
            partitions=[
                FetchRequest.FetchPartition(
                    partition=self.tp.partition,
                    current_leader_epoch=self._leader.epoch,
                    fetch_offset=asked.offset,
                    partition_max_bytes=self._max_bytes,
                )
            ]
        )
        if self._version >= _FIRST_WITH_TOPIC_IDS and self.topic_id is not None:
            topic.topic_id = self.topic_id
        else:
            topic.topic = self.tp.topic
        session_id, session_epoch = _SESSIONLESS
        return FetchRequest(
            max_wait_ms=min(self._max_wait_ms, LAST_MAX_WAIT_MS) if asked.last else self._max_wait_ms,
            min_bytes=1,  # what is there is wanted now; only for nothing at all is it worth to wait
            max_bytes=self._max_bytes,
            isolation_level=self._isolation,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[topic],
        )

    def _read(self, response: FetchResponse, asked: _Asked, connection: BrokerConnection) -> FetchedRecords:
        found = [
            partition
            for topic in response.responses
            for partition in topic.partitions
            if (topic.topic_id == self.topic_id if topic.topic_id != NO_ID else topic.topic == self.tp.topic)
            and partition.partition_index == self.tp.partition
        ]
        if len(found) != 1:
            raise ProtocolFault("Fetch answer lacks the partition asked for", broker=connection.label)
        partition = found[0]
        if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise self._out_of_range(asked.offset)
        if partition.error_code:
            raise error_from_code(partition.error_code, "Fetch", broker=connection.label)
        records = partition.records
        return FetchedRecords(
            records=memoryview(b"") if records is None else memoryview(records),
            aborted=[AbortedTransaction(a.producer_id, a.first_offset) for a in partition.aborted_transactions or ()],
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log_start_offset,
            fetch_offset=asked.offset,
            throttle_time_ms=response.throttle_time_ms,
        )

    def _out_of_range(self, offset: int) -> KafkaError:
        """The answer does not say what is in range: ask. A leader that has caught up meanwhile is asked again."""
        log_start = self._limit(EARLIEST)
        high_watermark = self._limit(LATEST)
        if log_start <= offset <= high_watermark:
            return BrokerError("Fetch: offset out of range, but in range by now", retriable=True)
        return OffsetOutOfRange(
            f"offset {offset} is outside of the log, which has {log_start} to {high_watermark}",
            offset=offset,
            log_start=log_start,
            high_watermark=high_watermark,
            code=ErrorCode.OFFSET_OUT_OF_RANGE,
        )

    def _limit(self, which: int) -> int:
        return list_offsets(self._cluster, {self.tp: which}, isolation_level="read_uncommitted")[self.tp].offset

    def _addressed(self, error: KafkaError) -> KafkaError:
        error.topic, error.partition = self.tp
        return error


def _size_if_cut(records: memoryview) -> int:
    """The size of the first message with its offset and length, if it is not there as a whole; 0 if it is, or none.

    Where even its length is cut off, more than was asked for is all that is known of it.
    """
    if not len(records):
        return 0
    if len(records) < _MESSAGE_HEAD.size:
        return 1024
    _, length = _MESSAGE_HEAD.unpack_from(records)
    size = _MESSAGE_HEAD.size + int(length)
    return size if size > len(records) else 0
