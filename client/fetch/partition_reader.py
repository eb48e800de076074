"""Reading one partition: Fetch (1) as a pipelined long poll over a connection of its own.

    reader.request(start)
    while ...:
        fetched = reader.response()
        reader.request(next_offset(fetched.records))    # before decoding: the broker works while we do
        decode(fetched)

An answer without records is an ordinary one: nothing came within `max_wait_ms`. What an answer means:
`client.fetch.messages`.

Handled without the caller: no leader, another leader, a fenced or unknown leader epoch,
a broken connection, a replica that fails or is behind (`client.fetch.replica`): every open request is sent again to
the present leader or replica, until `default.api.timeout.ms` has passed.

Fetch sessions (KIP-227) are not used: they save work where one request names many partitions, ours name one, and they
forbid to pipeline (`client.fetch.many_reader` is the reader for many).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import NO_ID, Leader
from kseg.client.cluster.retry import Backoff, Deadline
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
    """Internal: the oldest request is to be sent once more. `reason`: the error if that goes on too long."""

    def __init__(self, reason: KafkaError | None) -> None:
        super().__init__(reason)
        self.reason = reason
        if reason is not None:
            reason.learnt = True  # the first time there is nothing to wait for


class PartitionReader:
    """Fetches from one partition's leader, or the replica that it prefers. Close it, or use it as a context manager."""

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
        `leader_epoch`: metadata with an older one than this is out of date, and not used.
        `largest_message`: up to which size to ask brokers before 0.10.1 for a message that does not fit `max_bytes`.
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
        """Drop the connection and everything that was asked."""
        self._requested.clear()
        self._disconnect()

    @property
    def topic_id(self) -> UUID | None:
        """The topic's id, once it is known."""
        return self._source.topic_id

    @property
    def replica(self) -> int | None:
        """The id of the broker that is fetched from instead of the leader; None: the leader is."""
        return self._at_replica

    def request(self, offset: int, *, last: bool = False, last_epoch: int = NOT_KNOWN) -> None:
        """Ask for records from `offset` on, without waiting.

        `last`: no later record is wanted than what is there now, so do not wait for more if there is none.
        `last_epoch`: the leader epoch of the record before `offset`; brokers from 2.7 on check with it whether the log
        was truncated since (LogTruncated). Before the first answer, and while the broker throttles us, the request
        goes out with the next `response()`.
        """
        requested = _Requested(offset, last, last_epoch)
        self._requested.append(requested)
        if self._connection is None or self._connection.closed or self._connection.muted_for:
            return
        if self._at_replica != self._source.replica:
            return  # the replica's time is over
        try:
            self._send_unsent(Deadline.after(self._request_timeout))
        except KafkaError as error:
            if not error.retriable:
                self.close()
                raise
            self._lost(error)  # response() connects again and sends again

    def request_whole(self, fetched: FetchedRecords) -> None:
        """Ask again from where an answer began that has no whole batch, for as much as its first one has.

        Raises ProtocolFault where that had been asked for, MessageCutShort where it is too large.
        """
        try:
            self._limit.raised_to_whole(fetched.records, fetched.fetch_offset, str(fetched.broker))
        except KafkaError as error:
            self.close()
            raise self._addressed(error) from None
        self.request(fetched.fetch_offset)

    def response(self) -> FetchedRecords:
        """The answer to the oldest request that has none yet.

        Raises OffsetOutOfRange (with where the log begins and ends), LogTruncated, MessageCutShort (of old brokers),
        UnknownTopic if the topic is another one by now, AuthorizationFailed, or when the deadline has passed the last
        retriable error, naming the partition. After an error nothing is asked any more.
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
                # What the broker asks us to wait is not taken from the tries' time, up to a limit. All else is: a
                # leader and a replica that send us to one another would be asked without end.
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
        """Raises KafkaError, and _AskAgain where the oldest request is to be sent once more."""
        connection = self._connected(deadline)
        self._send_unsent(deadline)
        wait = deadline.within(self._request_timeout + self._max_wait_ms / 1000)
        response: FetchResponse = connection.receive(deadline=wait)
        if response.error_code:
            raise error_from_code(response.error_code, "Fetch", broker=connection.label)
        if not response.responses and response.throttle_time_ms > 0:
            # A broker over its quota answers at once, without any partition (KIP-219): to be asked again.
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
            raise _AskAgain(None)  # for more, which has an end
        self._throttled_ms = 0
        return fetched

    def _ask_again(self, connection: BrokerConnection) -> None:
        """The oldest request is to go out once more."""
        for requested in self._requested:
            requested.sent = requested is not self._requested[0]
        if connection.in_flight:
            self._disconnect()  # later answers would come before the one asked again

    def _connected(self, deadline: Deadline) -> BrokerConnection:
        if self._connection is not None and self._at_replica != self._source.replica:
            self._disconnect()  # the replica's time is over
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
        """Drop all responses in flight; the next try goes where the error points to."""
        self._disconnect()
        if self._at_replica is not None:
            self._source.back_to_leader()
            self._at_replica = None
            error.learnt = error.retriable  # it is the replica's, and says nothing about the leader
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
            min_bytes=1,  # what is there is wanted now; only for nothing at all is it worth to wait
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
