"""The cluster as one thing to talk to: finds a broker for a request, keeps connections and metadata, tries again.

    bootstrap list -> any broker that answers -> metadata (brokers, leaders, controller)
                                              -> FindCoordinator (group, transaction)

    connections, by what they are for:
        main         metadata, offsets, administration
        coordinator  groups and transactions: a broker works on one request of a connection at a time, so a commit must
                     never stand behind a long poll
        fetch        one for each `PartitionReader`, its own (`open_connection`)

What is learnt from an error before the next try is in `learn`; whether and when there is one, in `client.retry`.
A cluster is for one thread. It is not pickled: workers get the `ClientConfig` and make their own.
"""

from __future__ import annotations

import random
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, Literal, TypeVar

from client.broker import BrokerConnection, Endpoint
from client.config import ClientConfig
from client.connection import MAX_FRAME
from client.errors import (
    BrokerUnavailable,
    KafkaError,
    LeaderNotAvailable,
    ProtocolFault,
    RebootstrapRequired,
    RequestTimedOut,
    error_from_code,
)
from client.metadata import (
    Broker,
    ClusterMetadata,
    Leader,
    MetadataCache,
    leader_in,
    metadata_request,
    read_metadata,
)
from client.negotiation import SilentBrokers
from client.partition import TopicPartition
from client.protocol import ErrorCode
from client.protocol.messages import FindCoordinatorRequest, MetadataRequest
from client.protocol.schema import Request, Response
from client.reaction_kinds import Reaction
from client.retry import Deadline
from client.throttle import Throttle

R = TypeVar("R", bound=Response)
T = TypeVar("T")

CoordinatorKey = tuple[Literal["group", "transaction"], str]
_KEY_TYPES: Final = {"group": 0, "transaction": 1}
_FIRST_WITH_KEY_TYPE: Final = 1
_FIRST_WITH_KEYS: Final = 4

#: Errors after which another broker may do what this one did not.
_NEXT_BROKER: Final = (BrokerUnavailable, RequestTimedOut, ProtocolFault)


class Cluster:
    """A Kafka cluster. Connects when it is first needed; close it, or use it as a context manager."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._cache = MetadataCache(config.metadata_max_age_ms / 1000)
        self._connections: dict[tuple[int, str], BrokerConnection] = {}
        self._own: weakref.WeakSet[BrokerConnection] = weakref.WeakSet()
        self._coordinators: dict[CoordinatorKey, Broker] = {}
        self._silent = SilentBrokers()
        self._throttles: defaultdict[int, Throttle] = defaultdict(Throttle)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection. The cluster can be used again afterwards; it then connects anew."""
        for connection in [*self._connections.values(), *self._own]:
            connection.close()
        self._connections.clear()

    # -- what the rest of the package and its users call

    def metadata(self, topics: Collection[str] | None = None, *, refresh: bool = False) -> ClusterMetadata:
        """Brokers, and the topics asked for (None: all, internal ones too), never creating one.

        Answered from the cache while it is younger than `metadata.max.age.ms` and nothing contradicted it; `refresh`
        asks the cluster in any case. A topic that is unknown or not allowed is there with its `error`; a partition
        without a leader has leader -1.
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
    ) -> R:
        """Send to whom the request belongs (nobody named: any broker) and give the answer.

        `check` raises the `KafkaError` that the answer's error codes stand for. Errors that are retriable, whether
        from there or from the connection, are tried again until `default.api.timeout.ms` has passed.
        """
        return self.send_built(
            type(request),
            lambda _: request,
            leader_of=leader_of,
            coordinator=coordinator,
            broker=broker,
            controller=controller,
            check=check,
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
        finalized_features: dict[str, int] | None = None,
        timeout: float | None = None,
    ) -> R:
        """`send` for a request that looks different by version: `build` makes it from the negotiated one."""

        def attempt(deadline: Deadline) -> R:
            response = self.send_now(
                kind,
                build,
                deadline,
                leader_of=leader_of,
                coordinator=coordinator,
                broker=broker,
                controller=controller,
                finalized_features=finalized_features,
            )
            if check is not None:
                check(response)
            return response

        return self.retry(attempt, coordinator=coordinator, timeout=timeout)

    def send_now(
        self,
        kind: type[Request[R]],
        build: Callable[[int], Request[R]],
        deadline: Deadline,
        *,
        leader_of: TopicPartition | None = None,
        coordinator: CoordinatorKey | None = None,
        broker: int | None = None,
        controller: bool = False,
        finalized_features: dict[str, int] | None = None,
    ) -> R:
        """`send_built` for one try: errors come at once, the answer's own are not looked at. For use inside `retry`."""
        if leader_of is not None:
            connection = self.connection(self.leader(leader_of, deadline).broker, deadline)
        elif coordinator is not None:
            connection = self.coordinator(coordinator, deadline)
        elif broker is not None:
            connection = self.connection(self._broker(broker, deadline), deadline)
        elif controller:
            connection = self.connection(self._controller(deadline), deadline)
        else:
            connection = self.any_connection(deadline)
        version = connection.version_of(kind, finalized_features=finalized_features)
        return connection.call(build(version), version, deadline=deadline)

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
        while True:
            try:
                return attempt(backoff.deadline)
            except KafkaError as error:
                self.learn(error, coordinator=coordinator)
                backoff.pause(error)

    def learn(self, error: KafkaError, *, coordinator: CoordinatorKey | None = None) -> None:
        """Take from an error what it says about the cluster: what was believed and is wrong is forgotten."""
        lost = isinstance(error, _NEXT_BROKER) and error.code is None
        if error.reaction is Reaction.REBOOTSTRAP:
            self._rebootstrap()
        elif lost or error.reaction is Reaction.REFRESH or isinstance(error, LeaderNotAvailable):
            self._cache.invalidate()
        if coordinator is not None and (lost or error.reaction is Reaction.FIND_COORDINATOR):
            self._coordinators.pop(coordinator, None)

    def metadata_now(self, topics: Collection[str] | None, deadline: Deadline) -> ClusterMetadata:
        """`metadata` for one try: errors come at once. For use inside `retry`."""
        known = self._cache.find(topics)
        if known is not None:
            return known
        failures: list[KafkaError] = []
        for connection in self._askable(deadline, failures):
            try:
                answer = self._ask_metadata(connection, topics, deadline)
            except KafkaError as error:
                if connection.endpoint.node_id is None:
                    connection.close()
                if isinstance(error, RebootstrapRequired) or not isinstance(error, _NEXT_BROKER):
                    raise
                failures.append(error)
                continue
            if connection.endpoint.node_id is None:
                self._adopt_or_close(connection, answer)
            return self._cache.merge(answer, topics)
        raise _nobody_answers(failures)

    def forget_metadata(self) -> None:
        """Ask the cluster again before anything about its topics is believed: we have just changed them."""
        self._cache.invalidate()

    def leader(self, tp: TopicPartition, deadline: Deadline) -> Leader:
        """Who leads the partition, for one try. Raises UnknownTopic, LeaderNotAvailable, AuthorizationFailed …"""
        return leader_in(self.metadata_now([tp.topic], deadline), tp)

    def coordinator(self, key: CoordinatorKey, deadline: Deadline) -> BrokerConnection:
        """The connection to a group's or transactional id's coordinator; one for all that this broker coordinates."""
        broker = self._coordinators.get(key)
        if broker is None:
            broker = self._coordinators[key] = self._find_coordinator(key, deadline)
        return self.connection(broker, deadline, purpose="coordinator")

    def connection(self, broker: Broker, deadline: Deadline, *, purpose: str = "main") -> BrokerConnection:
        """The shared connection to a broker for one purpose, opened if there is none."""
        key = (broker.node_id, purpose)
        known = self._connections.pop(key, None)
        if known is not None:
            # Open requests are left behind only by an interrupted call; their answers are nobody's.
            if known.usable and not known.in_flight and known.endpoint == broker.endpoint:
                self._connections[key] = known
                return known
            known.close()
        opened = BrokerConnection.open(
            broker.endpoint,
            self.config,
            deadline=deadline,
            throttle=self._throttles[broker.node_id],
            silent=self._silent,
        )
        self._connections[key] = opened
        return opened

    def open_connection(self, broker: Broker, deadline: Deadline, *, max_frame: int = MAX_FRAME) -> BrokerConnection:
        """A connection that the caller alone uses and closes (closing the cluster closes it too)."""
        throttle = self._throttles[broker.node_id]
        opened = BrokerConnection.open(
            broker.endpoint,
            self.config,
            deadline=deadline,
            max_frame=max_frame,
            throttle=throttle,
            silent=self._silent,
        )
        self._own.add(opened)
        return opened

    def any_connection(self, deadline: Deadline) -> BrokerConnection:
        """A connection to whichever broker answers, one that is open already if possible."""
        brokers = self._shuffled(self.metadata_now([], deadline).brokers.values())
        failures: list[KafkaError] = []
        for broker in brokers:
            try:
                return self.connection(broker, deadline)
            except _NEXT_BROKER as error:
                failures.append(error)
        raise _nobody_answers(failures)

    def finalized_features(self) -> dict[str, int]:
        """The cluster's finalized features and their levels, such as `transaction.version` (KIP-584)."""
        return self.retry(lambda deadline: dict(self.any_connection(deadline).versions.finalized_features))

    # -- metadata and bootstrap

    def _ask_metadata(
        self, connection: BrokerConnection, topics: Collection[str] | None, deadline: Deadline
    ) -> ClusterMetadata:
        version = connection.version_of(MetadataRequest)
        response = connection.call(metadata_request(version, topics), version, deadline=deadline)
        if response.error_code:
            raise error_from_code(response.error_code, "Metadata", broker=connection.label)
        answer = read_metadata(response, topics)
        if not answer.brokers:
            raise BrokerUnavailable("the broker lists no brokers yet", broker=connection.label)
        return answer

    def _askable(self, deadline: Deadline, failures: list[KafkaError]) -> Iterator[BrokerConnection]:
        """Connections to ask for metadata: known brokers first, then the bootstrap servers, each tried once."""
        brokers = self._shuffled(self._cache.current.brokers.values())
        for broker in brokers:
            try:
                yield self.connection(broker, deadline)
            except _NEXT_BROKER as error:
                failures.append(error)
        if brokers and self.config.metadata_recovery_strategy == "none":
            return
        for host, port in random.sample(self.config.bootstrap_servers, len(self.config.bootstrap_servers)):
            try:
                yield BrokerConnection.open(Endpoint(host, port), self.config, deadline=deadline, silent=self._silent)
            except _NEXT_BROKER as error:
                failures.append(error)

    def _adopt_or_close(self, bootstrap: BrokerConnection, metadata: ClusterMetadata) -> None:
        """A bootstrap connection to the very address at which a broker is advertised goes on as that broker's."""
        at = (bootstrap.endpoint.host, bootstrap.endpoint.port)
        broker = next((b for b in metadata.brokers.values() if (b.host, b.port) == at), None)
        if broker is None or (broker.node_id, "main") in self._connections:
            bootstrap.close()
        else:
            bootstrap.rename(broker.endpoint, self._throttles[broker.node_id])
            self._connections[broker.node_id, "main"] = bootstrap

    def _shuffled(self, brokers: Collection[Broker]) -> list[Broker]:
        """In random order, so that many workers do not all ask the same one; those with an open connection first."""
        order = random.sample(list(brokers), len(brokers))
        return sorted(order, key=lambda broker: (broker.node_id, "main") not in self._connections)

    def _rebootstrap(self) -> None:
        self._cache.forget()
        self._coordinators.clear()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- who is asked for what

    def _broker(self, node_id: int, deadline: Deadline) -> Broker:
        broker = self.metadata_now([], deadline).brokers.get(node_id)
        if broker is None:
            raise BrokerUnavailable("the cluster does not list this broker", broker=str(node_id))
        return broker

    def _controller(self, deadline: Deadline) -> Broker:
        metadata = self.metadata_now([], deadline)
        broker = metadata.brokers.get(metadata.controller_id)
        if broker is None:
            raise BrokerUnavailable("the cluster has no controller now", code=ErrorCode.NOT_CONTROLLER)
        return broker

    def _find_coordinator(self, key: CoordinatorKey, deadline: Deadline) -> Broker:
        kind, name = key
        connection = self.any_connection(deadline)
        version = connection.version_of(FindCoordinatorRequest)
        request = FindCoordinatorRequest()
        if version >= _FIRST_WITH_KEY_TYPE:
            request.key_type = _KEY_TYPES[kind]
        if version >= _FIRST_WITH_KEYS:
            request.coordinator_keys = [name]
        else:
            request.key = name
        response = connection.call(request, version, deadline=deadline)
        found: Any = response
        if version >= _FIRST_WITH_KEYS:
            found = next((entry for entry in response.coordinators if entry.key == name), None)
            if found is None:
                raise ProtocolFault("FindCoordinator answer lacks the key asked for", broker=connection.label)
        address = {"group": name} if kind == "group" else {"transactional_id": name}
        if found.error_code:
            raise error_from_code(found.error_code, "FindCoordinator", detail=found.error_message, **address)
        return Broker(found.node_id, found.host, found.port)


def _nobody_answers(failures: list[KafkaError]) -> KafkaError:
    """One error for several: the only one itself, a fault that trying again cannot mend, or all in one text."""
    if len(failures) == 1 or (failures and not any(failure.retriable for failure in failures)):
        return failures[0]
    return BrokerUnavailable("no broker answers: " + "; ".join(str(failure) for failure in failures))
