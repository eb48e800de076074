"""A Kafka cluster: finds the broker for a request, caches metadata, retries.

    bootstrap list -> any broker that answers -> metadata (brokers, leaders, controller)   client.cluster.bootstrap
                                              -> FindCoordinator (group, transaction)      client.cluster.coordinators
    which broker a request is sent to, and whether it is retried after a lost response     client.protocol.routing
    what an error code leads to                                                            client.protocol.error_policy
    connections                                                                            client.cluster.pool

`learn` updates metadata and coordinators after an error; `client.retry` decides whether and when to try again.
A `Cluster` is for one thread, and is not pickled: workers get the `ClientConfig` and make their own `Cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

from kseg.client.cluster.bootstrap import NEXT_BROKER, ask_anybody, nobody_answers
from kseg.client.cluster.coordinators import CoordinatorKey, find_coordinator
from kseg.client.cluster.metadata import Broker, ClusterMetadata, Leader, LeaderHint, MetadataCache, leader_in
from kseg.client.cluster.pool import ConnectionPool
from kseg.client.cluster.waiting import WaitNotice
from kseg.client.config import ClientConfig
from kseg.client.errors import BrokerUnavailable, KafkaError, LeaderNotAvailable, OutcomeUnknown, UnsupportedVersion
from kseg.client.protocol.api import api_of
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import Reaction
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.partition import TopicPartition
from kseg.client.protocol.schema import Request, Response
from kseg.client.retry import Backoff, Deadline
from kseg.client.wire.broker import BrokerConnection
from kseg.client.wire.connection import MAX_FRAME

R = TypeVar("R", bound=Response)
T = TypeVar("T")


_FIRST_WITH_CONTROLLER: Final = 1  # of Metadata


class Cluster:
    """A Kafka cluster. Connects at the first request; close it, or use it as a context manager.

    With `bootstrap.controllers` it is the quorum of KRaft controllers: "broker" then means controller, and requests for
    topics or coordinators are not possible.

    `beside`: another `Cluster` of the same brokers. The two share which brokers do not answer ApiVersions, but no
    connections.
    """

    def __init__(self, config: ClientConfig, *, beside: Cluster | None = None) -> None:
        self.config = config
        self._cache = MetadataCache(config.metadata_max_age_ms / 1000)
        self._pool: ConnectionPool = ConnectionPool(config, None if beside is None else beside._pool.silent)
        self._coordinators: dict[CoordinatorKey, Broker] = {}
        self._described_by: int | None = None

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection. The cluster can be used again afterwards; it then connects again."""
        self._pool.close()

    # -- public interface

    def metadata(self, topics: Collection[str] | None = None, *, refresh: bool = False) -> ClusterMetadata:
        """Brokers, and the requested topics (None: list all topics, internal ones too). Creates no topics.

        Metadata comes from the cache while it is younger than `metadata.max.age.ms` and no error contradicts it;
        `refresh` always requests it from the cluster. An unknown or unauthorized topic is included with its `error`; a
        partition without a leader has leader -1.
        """
        if refresh:
            self._cache.invalidate()
        return self.retry(lambda deadline: self.metadata_now(topics, deadline))

    def send(
        self,
        request: Request[R],
        *,
        leader_of: TopicPartition | None = None,
        coordinator: CoordinatorKey | None = None,
        broker: int | None = None,
        controller: bool = False,
        check: Callable[[R], None] | None = None,
        verify: Callable[[Deadline], R | None] | None = None,
        repeatable: bool | None = None,
    ) -> R:
        """Send a request to the broker that the arguments name (none: to any broker), and return the response.

        `check` raises the `KafkaError` for the response's error codes. Retriable errors, from `check` or from the
        connection, are retried until `default.api.timeout.ms` has passed.

        If the connection is lost after the request was written, or the broker itself has waited in vain
        (REQUEST_TIMED_OUT), the request's `ROUTE` says whether it may be sent again; `repeatable` overrides this. If it
        may not be sent again, `verify` finds out whether it was executed, and returns a response or None; without
        `verify`, OutcomeUnknown is raised.
        """
        return self.send_built(
            type(request),
            lambda _: request,
            leader_of=leader_of,
            coordinator=coordinator,
            broker=broker,
            controller=controller,
            check=check,
            verify=verify,
            repeatable=repeatable,
        )

    def send_built(
        self,
        kind: type[Request[R]],
        build: Callable[[int], Request[R]],
        *,
        leader_of: TopicPartition | None = None,
        coordinator: CoordinatorKey | None = None,
        broker: int | None = None,
        controller: bool = False,
        check: Callable[[R], None] | None = None,
        verify: Callable[[Deadline], R | None] | None = None,
        repeatable: bool | None = None,
        finalized_features: dict[str, int] | None = None,
        timeout: float | None = None,
    ) -> R:
        """`send` for a request that differs by version: `build` makes it from the negotiated one."""
        name = api_of(kind).name
        may_repeat = kind.ROUTE.safety.allowed if repeatable is None else repeatable
        in_doubt = False

        def attempt(deadline: Deadline) -> R:
            nonlocal in_doubt
            if in_doubt and verify is not None:
                found = verify(deadline)
                if found is not None:
                    return found
                in_doubt = False
            connection = self._route(leader_of, coordinator, broker, controller, deadline)
            version = connection.version_of(kind, finalized_features=finalized_features)
            try:
                response = connection.call(build(version), version, deadline=deadline)
                if check is not None:
                    check(response)
            except KafkaError as error:
                # The code comes from a broker to which the controller, or replicas, have not responded in time.
                lost = error.sent or error.code == ErrorCode.REQUEST_TIMED_OUT
                in_doubt = lost and not may_repeat
                if in_doubt and verify is None:
                    raise outcome_unknown(name, error) from error
                raise
            return response

        return self.retry(attempt, coordinator=coordinator, timeout=timeout)

    def send_now(
        self,
        kind: type[Request[R]],
        build: Callable[[int], Request[R]],
        deadline: Deadline,
        *,
        coordinator: CoordinatorKey | None = None,
        broker: int | None = None,
        controller: bool = False,
        repeatable: bool | None = None,
    ) -> R:
        """`send_built` for one try, for use inside `retry`: errors are raised at once; the response's error codes are
        not checked.

        Raises OutcomeUnknown if the response is lost and the request must not be sent again.
        """
        name = api_of(kind).name
        connection = self._route(None, coordinator, broker, controller, deadline)
        version = connection.version_of(kind)
        try:
            return connection.call(build(version), version, deadline=deadline)
        except KafkaError as error:
            if error.sent and not (kind.ROUTE.safety.allowed if repeatable is None else repeatable):
                raise outcome_unknown(name, error) from error
            raise

    def retry(
        self,
        attempt: Callable[[Deadline], T],
        *,
        coordinator: CoordinatorKey | None = None,
        timeout: float | None = None,
    ) -> T:
        """Call `attempt` by the retry policy, learning from each error before the next call.

        `timeout`: seconds for all tries together, `default.api.timeout.ms` if None.
        """
        seconds = self.config.default_api_timeout_ms / 1000 if timeout is None else timeout
        backoff = self.config.retry.start(Deadline.after(seconds))
        servers = self.config.bootstrap_servers or self.config.bootstrap_controllers
        with WaitNotice(servers, seconds, first=not self._cache.current.brokers) as notice:
            while True:
                try:
                    return attempt(backoff.deadline)
                except KafkaError as error:
                    self.learn(error, coordinator=coordinator)
                    notice.failed(error)
                    self._pause(backoff, error, diagnosed=timeout is None)

    def _pause(self, backoff: Backoff, error: KafkaError, *, diagnosed: bool) -> None:
        """Wait before the next try. diagnosed: if there is none, find out whether a later one can help: not for callers
        with little time, whose next call comes soon, such as a member's between two heartbeats."""
        try:
            backoff.pause(error)
        except KafkaError as last:
            if last.retriable and diagnosed:
                from kseg.client.cluster.diagnosis import diagnose

                diagnose(self, last)
            raise

    def learn(self, error: KafkaError, *, coordinator: CoordinatorKey | None = None) -> None:
        """Drop the cached metadata or coordinator that an error shows to be out of date."""
        if error.learnt:
            return
        lost = isinstance(error, NEXT_BROKER) and error.code is None
        if error.reaction is Reaction.REBOOTSTRAP:
            self._cache.forget()
            self._coordinators.clear()
            self._pool.forget()
        elif lost or error.reaction is Reaction.REFRESH or isinstance(error, LeaderNotAvailable):
            self._cache.invalidate()
        if coordinator is not None and (lost or error.reaction is Reaction.FIND_COORDINATOR):
            self._coordinators.pop(coordinator, None)

    def learn_leader(self, hint: LeaderHint) -> bool:
        """Use the new leader that a response names (KIP-951). False: it was known already."""
        return self._cache.take_leader(hint)

    def metadata_now(self, topics: Collection[str] | None, deadline: Deadline) -> ClusterMetadata:
        """`metadata` for one try, for use inside `retry`: errors are raised at once."""
        known = self._cache.find(topics)
        return self._cache.merge(self.ask_metadata_now(topics, deadline), topics) if known is None else known

    def ask_metadata_now(self, topics: Collection[str] | None, deadline: Deadline) -> ClusterMetadata:
        """`metadata` for one try: always requested from the cluster; the cached metadata is not updated.

        If a topic had an error in the last response, another broker is asked: that one's metadata may be out of date.
        """
        last = self._described_by if self._cache.has_error(topics) else None
        known = self._cache.current.brokers.values()
        found, self._described_by = ask_anybody(self._pool, self.config, known, topics, deadline, last=last)
        return found

    def forget_metadata(self) -> None:
        """After a change of topics by this client: the next call requests metadata again."""
        self._cache.invalidate()

    def leader(self, tp: TopicPartition, deadline: Deadline) -> Leader:
        """The partition's leader, for one try. Raises UnknownTopic, LeaderNotAvailable, AuthorizationFailed …"""
        return leader_in(self.metadata_now([tp.topic], deadline), tp)

    def coordinator(self, key: CoordinatorKey, deadline: Deadline) -> BrokerConnection:
        """The connection to a group's or transactional id's coordinator; one for all that this broker coordinates."""
        broker = self._coordinators.get(key)
        if broker is None:
            broker = self._coordinators[key] = find_coordinator(self.any_connection(deadline), key, deadline)
        return self.connection(broker, deadline, purpose="coordinator")

    def broker(self, node_id: int, deadline: Deadline) -> Broker:
        """A broker by its id, for one try. Raises BrokerUnavailable if the cluster does not list it (any more)."""
        found = self.metadata_now([], deadline).brokers.get(node_id)
        if found is None:
            raise BrokerUnavailable("the broker is not in the cluster's metadata", broker=str(node_id))
        return found

    def connection(self, broker: Broker, deadline: Deadline, *, purpose: str = "main") -> BrokerConnection:
        """The shared connection to a broker for one purpose, opened if there is none."""
        return self._pool.shared(broker, deadline, purpose)

    def open_connection(self, broker: Broker, deadline: Deadline, *, max_frame: int = MAX_FRAME) -> BrokerConnection:
        """A connection that the caller alone uses and closes (closing the cluster closes it too)."""
        return self._pool.own(broker, deadline, max_frame=max_frame)

    def any_connection(self, deadline: Deadline) -> BrokerConnection:
        """A connection to whichever broker answers, one that is open already if possible."""
        failures: list[KafkaError] = []
        for broker in self._pool.in_order(self.metadata_now([], deadline).brokers.values()):
            try:
                return self.connection(broker, deadline)
            except NEXT_BROKER as error:
                failures.append(error)
        raise nobody_answers(failures)

    def finalized_features(self) -> dict[str, int]:
        """The cluster's finalized features and their levels, such as `transaction.version` (KIP-584)."""
        return self.retry(lambda deadline: dict(self.any_connection(deadline).versions.finalized_features))

    # -- the broker for a request

    def _route(
        self,
        leader_of: TopicPartition | None,
        coordinator: CoordinatorKey | None,
        broker: int | None,
        controller: bool,
        deadline: Deadline,
    ) -> BrokerConnection:
        if leader_of is not None:
            return self.connection(self.leader(leader_of, deadline).broker, deadline)
        if coordinator is not None:
            return self.coordinator(coordinator, deadline)
        if broker is not None:
            return self.connection(self.broker(broker, deadline), deadline)
        if controller:
            return self.connection(self._controller(deadline), deadline)
        return self.any_connection(deadline)

    def _controller(self, deadline: Deadline) -> Broker:
        metadata = self.metadata_now([], deadline)
        broker = metadata.brokers.get(metadata.controller_id)
        if broker is None:
            asked = self.any_connection(deadline)
            if not asked.offers(MetadataRequest, _FIRST_WITH_CONTROLLER):
                raise UnsupportedVersion("brokers before 0.10 do not report the controller", broker=asked.label)
            raise BrokerUnavailable("the cluster has no controller now", code=ErrorCode.NOT_CONTROLLER)
        return broker


def outcome_unknown(api: str, lost: KafkaError, **address: Any) -> OutcomeUnknown:
    """The error for a request that may have been executed, and must not be sent again."""
    return OutcomeUnknown(
        f"{api} was sent and its response was lost ({lost.message}): it is unknown whether it was executed",
        **{"broker": lost.broker, **address},
    )
