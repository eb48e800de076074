"""Joining a classic group, step by step: JoinGroup, then SyncGroup. A response may be awaited over several calls.

    advance ─► find the coordinator ─► JoinGroup ─► SyncGroup ─► a new generation
               └ again after a retriable error, with a pause

The coordinator responds to JoinGroup when all members have joined, which may take minutes. A broker processes one
request per connection at a time, so the join has its own connection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.coordinators import CoordinatorKey
from kseg.client.cluster.metadata import Broker
from kseg.client.errors import KafkaError, RequestTimedOut
from kseg.client.membership.background import now
from kseg.client.membership.classic_session import ClassicSession, Generation
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import Reaction
from kseg.client.protocol.messages.groups import JoinGroupRequest, SyncGroupRequest
from kseg.client.retry import Backoff, Deadline
from kseg.client.wire.broker import BrokerConnection

#: How many seconds after the rebalance timeout a response to JoinGroup is still awaited.
_JOIN_GRACE: Final = 5.0


class JoinProgress(Enum):
    """The progress of a join."""

    DONE = "the member is in a new generation"
    WAITING = "an answer, or the end of a pause, is waited for"
    AGAIN = "the coordinator wants another JoinGroup"


class ClassicJoin:
    """Brings a session into its next generation, one step per call.

    `on_generation` is called with the generation as soon as it is known, because it needs heartbeats from then on.
    """

    def __init__(
        self, cluster: Cluster, session: ClassicSession, on_generation: Callable[[Generation], None] | None = None
    ) -> None:
        self._cluster = cluster
        self._session = session
        self._on_generation = on_generation
        self._key: CoordinatorKey = ("group", session.group)
        self._connection: BrokerConnection | None = None
        self._waiting_for: type[JoinGroupRequest | SyncGroupRequest] | None = None
        self._give_up_at = 0.0
        self._not_before = 0.0
        self._backoff = self._new_backoff()

    @property
    def under_way(self) -> bool:
        """Whether a response is awaited."""
        return self._waiting_for is not None

    @property
    def pause(self) -> float:
        """Seconds until the next attempt."""
        return max(0.0, self._not_before - now())

    def advance(self, reason: str, deadline: Deadline, prepare: Callable[[], None] = lambda: None) -> JoinProgress:
        """Send the next request, if none is in flight, and wait for the response until the deadline (check at least
        once).

        `prepare` is called before a JoinGroup is sent; its retriable errors are retried like any other. Raises errors
        that are not retriable.
        """
        if self.pause:
            return JoinProgress.WAITING
        try:
            if self._waiting_for is None:
                prepare()
                self._send_join(reason)
            progress = self._receive(deadline)
        except KafkaError as error:
            self.abandon()
            self._cluster.learn(error, coordinator=self._key)
            self._backoff.pause(error)
            return JoinProgress.WAITING
        if progress is JoinProgress.DONE:
            self._backoff = self._new_backoff()
        return progress

    def abandon(self) -> None:
        """Stop waiting for a response, and close the connection."""
        self._waiting_for = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send_join(self, reason: str) -> None:
        within = Deadline.after(self._cluster.config.request_timeout_ms / 1000)
        endpoint = self._cluster.coordinator(self._key, within).endpoint
        if self._connection is None or not self._connection.usable or self._connection.endpoint != endpoint:
            self.abandon()
            assert endpoint.node_id is not None
            broker = Broker(endpoint.node_id, endpoint.host, endpoint.port)
            self._connection = self._cluster.open_connection(broker, within)
        version = self._connection.version_of(JoinGroupRequest)
        self._send(self._session.join_request(version, reason), version)

    def _send(self, request: JoinGroupRequest | SyncGroupRequest, version: int) -> None:
        assert self._connection is not None
        longest = self._cluster.config.request_timeout_ms / 1000
        self._connection.send(request, version, deadline=Deadline.after(longest))
        self._waiting_for = type(request)
        # The coordinator responds when all members have joined, or after the longest rebalance timeout of any.
        self._give_up_at = now() + max(longest, self._session.settings.rebalance_timeout / 1000 + _JOIN_GRACE)

    def _receive(self, deadline: Deadline) -> JoinProgress:
        while True:
            assert self._connection is not None
            answer = self._connection.receive_by(deadline=deadline)
            if answer is None:
                if now() > self._give_up_at:
                    raise RequestTimedOut("the coordinator does not respond to the member", group=self._session.group)
                return JoinProgress.WAITING
            asked, self._waiting_for = self._waiting_for, None
            if asked is SyncGroupRequest:
                return self._after(self._session.synced(answer), JoinProgress.DONE)
            error = self._session.joined(answer)
            if error is not None:
                if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
                    error.retriable = True  # retry the same request after a pause
                    raise error
                return self._after(error, JoinProgress.AGAIN)
            if self._on_generation is not None:
                self._on_generation(self._session.generation)
            version = self._connection.version_of(SyncGroupRequest)
            self._send(self._session.sync_request(version), version)

    @staticmethod
    def _after(error: KafkaError | None, progress: JoinProgress) -> JoinProgress:
        if error is None:
            return progress
        if error.reaction in (Reaction.REJOIN, Reaction.JOIN_AFRESH):
            return JoinProgress.AGAIN
        raise error

    def _new_backoff(self) -> Backoff:
        def postpone(seconds: float) -> None:
            self._not_before = now() + seconds

        return self._cluster.config.retry.start(Deadline(math.inf), sleep=postpone)
