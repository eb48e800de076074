"""The state of a `ManyReader`: the fetch position of each partition, and a connection with its session for each
broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import NO_ID, Leader
from kseg.client.config import ClientConfig
from kseg.client.errors import KafkaError, ProtocolFault
from kseg.client.fetch.limit import FetchLimit
from kseg.client.fetch.messages import NOT_KNOWN, FetchedRecords, PartitionData, PartitionFetch
from kseg.client.fetch.replica import ReplicaSelection
from kseg.client.fetch.session import FetchSession, SessionPart
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection
from kseg.client.wire.connection import MAX_FETCH_FRAME

#: A full fetch asks for a new session, so a second rejection in a row is not expected.
_REFUSALS = 3
_NOTHING = FetchedRecords(memoryview(b""), [], NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, 0, 0)


@dataclass(slots=True)
class FetchPosition:
    """The next offset of a partition, and its failures. `not_before`: no try before this time (monotonic clock)."""

    tp: TopicPartition
    source: ReplicaSelection
    limit: FetchLimit
    offset: int
    last_epoch: int = NOT_KNOWN
    leader: Leader | None = None
    last: FetchedRecords = _NOTHING
    failures: int = 0
    failing_since: float = 0.0
    not_before: float = 0.0

    def restart(self, offset: int) -> None:
        """Read on at this offset. The last response stays known: a session leaves out what has not changed since."""
        self.offset, self.last_epoch = offset, NOT_KNOWN
        self.failures, self.not_before = 0, 0.0

    def node(self, deadline: Deadline) -> int:
        """The node to fetch from now. Raises as `ReplicaSelection.leader` does."""
        if self.leader is None:
            self.leader = self.source.leader(deadline)
        return self.known_node

    @property
    def known_node(self) -> int:
        """The node to fetch from, as far as it is known without a request; else NOT_KNOWN."""
        if self.leader is None:
            return NOT_KNOWN
        replica = self.source.replica
        return self.leader.broker.node_id if replica is None else replica

    def fetch(self) -> PartitionFetch:
        """Its part of a request; `node` has to be called before."""
        assert self.leader is not None
        return PartitionFetch(
            self.tp, self.offset, self.leader.epoch, self.limit.bytes, self.source.topic_id, self.last_epoch
        )

    def empty_result(self) -> FetchedRecords:
        """The result where a session's response leaves this partition out."""
        return replace(self.last, records=memoryview(b""), aborted=[], fetch_offset=self.offset, throttle_time_ms=0)

    def succeeded(self) -> None:
        self.failures = 0

    def failed(self, error: KafkaError, config: ClientConfig) -> bool:
        """Count a failure. Whether there is another try: not after a permanent error, nor when the time is over."""
        self.leader = None
        now = time.monotonic()
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        self.not_before = now + (0.0 if error.learnt else config.retry.pause_after(self.failures))
        return error.retriable and self.not_before - self.failing_since < config.default_api_timeout_ms / 1000


@dataclass(slots=True)
class BrokerFetcher:
    """One broker: its connection, its session, and the request in flight.

    `patience`: seconds to wait for the response from now on. `throttled_ms`: of responses whose records were not
    returned yet.
    """

    node_id: int
    session: FetchSession = field(default_factory=FetchSession)
    connection: BrokerConnection | None = None
    requested: dict[TopicPartition, PartitionFetch] = field(default_factory=dict)
    part: SessionPart = field(default_factory=lambda: SessionPart(0, 0, [], []))
    version: int = NOT_KNOWN
    patience: float = 0.0
    refusals: int = 0
    throttled_ms: int = 0

    @property
    def label(self) -> str:
        return str(self.node_id) if self.connection is None else self.connection.label

    @property
    def muted_for(self) -> float:
        return 0.0 if self.connection is None else self.connection.muted_for

    def send(
        self,
        cluster: Cluster,
        positions: list[FetchPosition],
        request: Callable[[BrokerFetcher, str], FetchRequest],
        deadline: Deadline,
    ) -> None:
        """Fetch all these partitions, over a connection that is opened if there is none."""
        if self.connection is None or not self.connection.usable:
            self.close()
            broker = cluster.broker(self.node_id, deadline)
            self.connection = cluster.open_connection(broker, deadline, max_frame=MAX_FETCH_FRAME)
        fetches = {position.tp: position.fetch() for position in positions}
        ids_known = all(fetch.topic_id is not None for fetch in fetches.values())
        self.version = self.connection.version_of(FetchRequest, topic_ids_known=ids_known)
        self.part = self.session.request(fetches, self.version)
        # One partition that stays with its leader keeps the others there too, for this request.
        racks = {position.source.rack for position in positions}
        rack = racks.pop() if len(racks) == 1 else ""
        self.connection.send(request(self, rack), self.version, deadline=deadline)
        self.requested = fetches

    def partitions_of(self, response: FetchResponse) -> dict[TopicPartition, PartitionData]:
        """The response's partitions by their names. Raises ProtocolFault for one that was not requested."""
        names = {fetch.topic_id: tp.topic for tp, fetch in self.requested.items() if fetch.topic_id is not None}
        found: dict[TopicPartition, PartitionData] = {}
        for topic in response.responses:
            name = topic.topic if topic.topic_id == NO_ID else names.get(topic.topic_id, "")
            for partition in topic.partitions:
                tp = TopicPartition(name, partition.partition_index)
                if tp not in self.requested or tp in found:
                    raise ProtocolFault(f"Fetch response has {tp}, which was not requested", broker=self.label)
                found[tp] = partition
        return found

    def session_rejected(self, error: KafkaError) -> bool:
        """The session was rejected, not a partition: the next request is a full one. False: too often in a row."""
        self.refusals += 1
        if self.refusals > _REFUSALS:
            return False
        self.session.on_error(int(error.code or 0))
        self.requested = {}
        return True

    def close(self) -> None:
        """Drop the connection; the next one begins with a full fetch."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        self.requested = {}
        self.session.on_disconnect()
