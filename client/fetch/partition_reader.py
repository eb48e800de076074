"""Reads one partition with Fetch (1): pipelined long polls on a separate connection.

    reader.request(start)
    while ...:
        fetched = reader.response()
        reader.request(next_offset(fetched.records))    # before decoding: the broker works while we do
        decode(fetched)

A response without records is normal: no record arrived within `max_wait_ms`. `client.fetch.messages` interprets the
responses.

The reader handles these errors itself: a missing or changed leader, a fenced or unknown leader epoch, a broken
connection, and a replica that fails or lags (`client.fetch.replica`). It sends all open requests again to the current
leader or replica, until `default.api.timeout.ms` has passed.

Fetch sessions (KIP-227) are not used. They save work only if a request has many partitions, and do not allow pipelined
requests. `client.fetch.many_reader` reads many partitions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import NO_ID, Leader
from kseg.client.errors import KafkaError, LeaderNotAvailable, ProtocolFault, RequestTimedOut, error_from_code
from kseg.client.fetch.limit import LARGEST_MESSAGE, FetchLimit
from kseg.client.fetch.messages import (
    LAST_MAX_WAIT_MS,
    NOT_KNOWN,
    FetchedRecords,
    PartitionData,
    PartitionFetch,
    error_of,
    records_of,
    topics_of,
)
from kseg.client.fetch.replica import ReplicaSelection
from kseg.client.offsets import IsolationLevel, isolation_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Backoff, Deadline
from kseg.client.wire.broker import BrokerConnection
from kseg.client.wire.connection import MAX_FETCH_FRAME
from kseg.client.wire.throttle import LONGEST_SECONDS

_SESSIONLESS: Final = (0, -1)


@dataclass(slots=True)
class _Requested:
    offset: int
    last: bool
    last_epoch: int
    sent: bool = False


class _AskAgain(Exception):
    """Internal: the oldest request must be sent again. `reason`: the error to raise when the deadline has passed."""

    def __init__(self, reason: KafkaError | None) -> None:
        super().__init__(reason)
        self.reason = reason
        if reason is not None:
            reason.learnt = True  # no pause before the first repetition


class PartitionReader:
    """Fetches from a partition's leader, or from the leader's preferred replica. Close it, or use it in `with`."""

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
        """Sends nothing yet.

        `topic_id`: read only from the topic with this id (None: the topic that has this name at the first fetch).
        `max_bytes`: bytes for each request (None: the smaller of `max.partition.fetch.bytes` and `fetch.max.bytes`).
        `leader_epoch`: metadata with an older leader epoch is out of date, and not used.
        `largest_message`: for brokers before 0.10.1, the largest size to request if a message exceeds `max_bytes`.
        """
        config = cluster.config
        self.tp = tp
        self._cluster = cluster
        self._source = ReplicaSelection(cluster, tp, topic_id=topic_id, leader_epoch=leader_epoch)
        self._isolation = isolation_code(isolation_level)
        most = min(config.max_partition_fetch_bytes, config.fetch_max_bytes) if max_bytes is None else max_bytes
        self._limit = FetchLimit(most, largest_message)
        self._max_wait_ms = config.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms
        self._requested: deque[_Requested] = deque()
        self._connection: BrokerConnection | None = None
        self._leader: Leader | None = None
        self._at_replica: int | None = None
        self._version = NOT_KNOWN
        self._throttled_ms = 0

    def __enter__(self) -> PartitionReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and drop all open requests."""
        self._requested.clear()
        self._disconnect()

    @property
    def topic_id(self) -> UUID | None:
        """The topic's id; None until it is known."""
        return self._source.topic_id

    @property
    def replica(self) -> int | None:
        """Id of the replica that is read instead of the leader; None if the leader is read."""
        return self._at_replica

    def request(self, offset: int, *, last: bool = False, last_epoch: int = NOT_KNOWN) -> None:
        """Request records from `offset` on, without waiting for the response.

        `last`: only records that exist now are needed, so the broker need not wait for new records.
        `last_epoch`: the leader epoch of the record before `offset`. Brokers from 2.7 on use it to detect that the log
        was truncated (LogTruncated).

        Before the first response, and while the broker throttles this client, the request is sent by the next
        `response()`.
        """
        requested = _Requested(offset, last, last_epoch)
        self._requested.append(requested)
        if self._connection is None or self._connection.closed or self._connection.muted_for:
            return
        if self._at_replica != self._source.replica:
            return  # the selected replica has changed: response() connects to it
        try:
            self._send_unsent(Deadline.after(self._request_timeout))
        except KafkaError as error:
            if not error.retriable:
                self.close()
                raise
            self._lost(error)  # response() connects again and sends again

    def request_whole(self, fetched: FetchedRecords) -> None:
        """Repeat the request of a response without a complete batch, with the size of its first batch as limit.

        Raises ProtocolFault if this size had been requested already, MessageCutShort if it is too large.
        """
        try:
            self._limit.raised_to_whole(fetched.records, fetched.fetch_offset, str(fetched.broker))
        except KafkaError as error:
            self.close()
            raise self._addressed(error) from None
        self.request(fetched.fetch_offset)

    def leave_replica(self) -> None:
        """Fetch from the leader, because the replica has fewer records than are wanted; nothing if there is none.

        Requests that are open are sent again, to the leader.
        """
        self._source.leave()

    def response(self) -> FetchedRecords:
        """The response to the oldest open request.

        Raises OffsetOutOfRange (with the log's start and end), LogTruncated, MessageCutShort (old brokers only),
        UnknownTopic if the topic was deleted or recreated, AuthorizationFailed, or the last retriable error when the
        deadline has passed. Errors name the partition. After an error there are no open requests.
        """
        if not self._requested:
            raise RuntimeError("response() without request()")
        backoff, granted = self._new_backoff(), 0.0
        while True:
            try:
                fetched = self._try(backoff.deadline)
                self._requested.popleft()
                return fetched
            except _AskAgain as again:
                if again.reason is None:
                    continue
                # Throttle time does not count towards the deadline, up to a limit. All other time does: otherwise a
                # leader and a replica that redirect to each other would be asked endlessly.
                muted = min(self._muted, LONGEST_SECONDS - granted)
                backoff.extend(muted)
                granted += muted
                failure = again.reason
            except KafkaError as error:
                self._lost(error)
                failure = error
            try:
                backoff.pause(self._addressed(failure))
            except KafkaError:
                self.close()
                raise

    @property
    def _request_timeout(self) -> float:
        return self._cluster.config.request_timeout_ms / 1000

    def _new_backoff(self) -> Backoff:
        config = self._cluster.config
        return config.retry.start(Deadline.after(config.default_api_timeout_ms / 1000 + self._muted))

    @property
    def _muted(self) -> float:
        return 0.0 if self._connection is None else self._connection.muted_for

    def _try(self, deadline: Deadline) -> FetchedRecords:
        """Receive one response. Raises KafkaError, and _AskAgain if the oldest request must be sent again."""
        connection = self._connected(deadline)
        self._send_unsent(deadline)
        wait = deadline.within(self._request_timeout + self._max_wait_ms / 1000)
        response: FetchResponse = connection.receive(deadline=wait)
        if response.error_code:
            raise error_from_code(response.error_code, "Fetch", broker=connection.label)
        if not response.responses and response.throttle_time_ms > 0:
            # If a quota is exceeded, the broker responds at once, without partitions (KIP-219): send the request again.
            self._throttled_ms += response.throttle_time_ms
            self._ask_again(connection)
            raise _AskAgain(
                RequestTimedOut(
                    f"the broker throttles this client, so far for {self._throttled_ms} ms, and sends no records",
                    code=ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                    broker=connection.label,
                )
            )
        partition = self._own_part(response, connection)
        fetch = self._ask(self._requested[0])
        error = error_of(self._cluster, fetch, response, partition, at_leader=self._at_replica is None)
        if error is not None:
            error.broker = connection.label
            raise error
        if partition.preferred_read_replica >= 0 and self._at_replica is None:
            self._source.prefer(partition.preferred_read_replica)
            self._disconnect()
            raise _AskAgain(
                LeaderNotAvailable(
                    f"the leader prefers replica {partition.preferred_read_replica}, which does not serve",
                    broker=connection.label,
                )
            )
        throttled_ms = self._throttled_ms + response.throttle_time_ms
        broker = NOT_KNOWN if connection.endpoint.node_id is None else connection.endpoint.node_id
        fetched = records_of(partition, fetch.offset, throttled_ms, broker, self._version)
        if self._limit.raised_for(fetched.records, fetch.offset, self._version, connection.label):
            self._ask_again(connection)
            raise _AskAgain(None)  # with a larger limit, which cannot grow endlessly
        self._throttled_ms = 0
        return fetched

    def _ask_again(self, connection: BrokerConnection) -> None:
        """Mark the oldest request as not sent, so that it is sent again."""
        for requested in self._requested:
            requested.sent = requested is not self._requested[0]
        if connection.in_flight:
            self._disconnect()  # responses to later requests would arrive before the repeated one

    def _connected(self, deadline: Deadline) -> BrokerConnection:
        if self._connection is not None and self._at_replica != self._source.replica:
            self._disconnect()  # the selected replica has changed
        if self._connection is not None and not self._connection.closed:
            return self._connection
        leader = self._source.leader(deadline)
        self._at_replica = self._source.replica
        broker = leader.broker if self._at_replica is None else self._cluster.broker(self._at_replica, deadline)
        connection = self._cluster.open_connection(broker, deadline, max_frame=MAX_FETCH_FRAME)
        self._connection, self._leader = connection, leader
        self._version = connection.version_of(FetchRequest, topic_ids_known=self.topic_id is not None)
        return connection

    def _lost(self, error: KafkaError) -> None:
        """Drop all responses in flight; the next try uses the leader or replica that follows from the error."""
        self._disconnect()
        if self._at_replica is not None:
            self._source.back_to_leader()
            self._at_replica = None
            error.learnt = error.retriable  # an error of the replica means nothing for the leader
        self._cluster.learn(error)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        for requested in self._requested:
            requested.sent = False

    def _send_unsent(self, deadline: Deadline) -> None:
        assert self._connection is not None
        for requested in self._requested:
            if not requested.sent:
                self._connection.send(self._build(requested), self._version, deadline=deadline)
                requested.sent = True

    def _ask(self, requested: _Requested) -> PartitionFetch:
        assert self._leader is not None
        return PartitionFetch(
            self.tp, requested.offset, self._leader.epoch, self._limit.bytes, self.topic_id, requested.last_epoch
        )

    def _build(self, requested: _Requested) -> FetchRequest:
        session_id, session_epoch = _SESSIONLESS
        return FetchRequest(
            max_wait_ms=min(self._max_wait_ms, LAST_MAX_WAIT_MS) if requested.last else self._max_wait_ms,
            min_bytes=1,  # return existing records at once; wait only if there are none
            max_bytes=self._limit.bytes,
            isolation_level=self._isolation,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=topics_of([self._ask(requested)], self._version),
            rack_id=self._source.rack,
        )

    def _own_part(self, response: FetchResponse, connection: BrokerConnection) -> PartitionData:
        found = [
            partition
            for topic in response.responses
            for partition in topic.partitions
            if (topic.topic_id == self.topic_id if topic.topic_id != NO_ID else topic.topic == self.tp.topic)
            and partition.partition_index == self.tp.partition
        ]
        if len(found) != 1:
            raise ProtocolFault("Fetch response lacks the requested partition", broker=connection.label)
        return found[0]

    def _addressed(self, error: KafkaError) -> KafkaError:
        error.topic, error.partition = self.tp
        return error
