"""The producer's connection to one broker: its requests in flight, and when to connect again."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import Broker, Leader
from kseg.client.errors import BrokerUnavailable, KafkaError, RequestTimedOut
from kseg.client.producer.batch import ProducerBatch
from kseg.client.protocol.messages.produce import ProduceRequest, ProduceResponse
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Deadline, RetryPolicy
from kseg.client.wire.broker import BrokerConnection
from kseg.client.wire.waiting import is_writable


@dataclass(slots=True)
class InFlightRequest:
    """A request that waits for its response."""

    batches: dict[TopicPartition, ProducerBatch]
    leaders: dict[TopicPartition, Leader]
    until: float


@dataclass(slots=True)
class ProduceConnection:
    """`not_before`: earliest time to reconnect, on the monotonic clock; `blocked`: the socket is not writable now."""

    broker: Broker
    connection: BrokerConnection | None = None
    in_flight: deque[InFlightRequest] = field(default_factory=deque)
    not_before: float = 0.0
    failures: int = 0
    blocked: bool = False

    def open(self, cluster: Cluster) -> BrokerConnection:
        """The connection, opened if there is none. If that fails, sets `not_before` and raises KafkaError."""
        if self.connection is not None and not self.connection.usable and not self.in_flight:
            self.close()
        if self.connection is None:
            config = cluster.config
            try:
                deadline = Deadline.after(config.connection_setup_timeout_ms / 1000)
                self.connection = cluster.open_connection(self.broker, deadline)
            except KafkaError:
                self.failed(config.retry)
                raise
            self.failures = 0
        return self.connection

    def failed(self, policy: RetryPolicy) -> None:
        """There is no connection, or it broke: sets `not_before`."""
        self.failures += 1
        self.not_before = time.monotonic() + policy.pause_after(self.failures)

    def accepts(self, limit: int) -> bool:
        """Whether a request may be sent now: fewer than `limit` are in flight, and the socket is writable."""
        if self.connection is None or self.connection.closed:
            return False
        if len(self.in_flight) >= limit or self.connection.muted_for > 0:
            return False
        return is_writable(self.connection)

    def send(self, request: ProduceRequest, version: int, sent: InFlightRequest) -> None:
        """Raises KafkaError; UnsupportedVersion leaves the connection as it is."""
        assert self.connection is not None
        self.connection.send(request, version, deadline=Deadline(sent.until))
        if request.acks:
            self.in_flight.append(sent)

    def answers(self, now: float) -> list[tuple[InFlightRequest, ProduceResponse]]:
        """The responses that have come. Raises KafkaError if the connection broke or the oldest one is overdue."""
        found: list[tuple[InFlightRequest, ProduceResponse]] = []
        if self.connection is None:
            return found
        while self.in_flight:
            try:
                response = self.connection.poll()
            except KafkaError:
                if found:
                    return found  # the next call finds it closed
                raise
            if response is None:
                break
            found.append((self.in_flight.popleft(), response))
        if self.in_flight and not found and now >= self.in_flight[0].until:
            self.connection.fail()
            raise RequestTimedOut("no response to Produce within request.timeout.ms", broker=self.connection.label)
        return found

    def close(self) -> list[InFlightRequest]:
        """Close the connection; returns the requests in flight, oldest first."""
        lost = list(self.in_flight)
        self.in_flight.clear()
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        return lost


def lost(link: ProduceConnection) -> BrokerUnavailable:
    """The error of requests whose connection was found closed."""
    return BrokerUnavailable("the connection broke before the response came", broker=str(link.broker.endpoint))
