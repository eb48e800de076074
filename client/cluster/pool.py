"""The connections of one cluster, by broker and by what they are for; one throttle for all that go to one broker.

main         metadata, offsets, administration
coordinator  groups and transactions: a broker works on one request of a connection at a time, so a commit must
             never wait behind a long poll
own          for one user alone, such as a `PartitionReader`
"""

from __future__ import annotations

import random
import weakref
from collections import defaultdict
from collections.abc import Collection

from kseg.client.cluster.metadata import Broker, ClusterMetadata
from kseg.client.config import ClientConfig
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection, Endpoint
from kseg.client.wire.connection import MAX_FRAME
from kseg.client.wire.failures import LastFailures
from kseg.client.wire.negotiation import SilentBrokers
from kseg.client.wire.throttle import Throttle


class ConnectionPool:
    """Opens connections, keeps them, and closes them all at once. After `close` it can be used again."""

    def __init__(self, config: ClientConfig, silent: SilentBrokers | None = None) -> None:
        self.silent = SilentBrokers() if silent is None else silent
        self._config = config
        self._shared: dict[tuple[int, str], BrokerConnection] = {}
        self._own: weakref.WeakSet[BrokerConnection] = weakref.WeakSet()
        self._last_failures = LastFailures()
        self._throttles: defaultdict[int, Throttle] = defaultdict(Throttle)

    def close(self) -> None:
        """Close every connection."""
        for connection in self._own:
            connection.close()
        self.forget()

    def forget(self) -> None:
        """Close the shared ones: their brokers are not the cluster's any more."""
        for connection in self._shared.values():
            connection.close()
        self._shared.clear()

    def shared(self, broker: Broker, deadline: Deadline, purpose: str) -> BrokerConnection:
        """The connection to a broker for one purpose, opened if there is none that can be used."""
        known = self._usable(broker, purpose)
        if known is not None:
            return known
        self._drop(broker, purpose)
        opened = self._shared[broker.node_id, purpose] = self._open(broker, deadline, MAX_FRAME)
        return opened

    def own(self, broker: Broker, deadline: Deadline, *, max_frame: int) -> BrokerConnection:
        """A connection that the caller alone uses and closes."""
        opened = self._open(broker, deadline, max_frame)
        self._own.add(opened)
        return opened

    def bootstrap(self, host: str, port: int, deadline: Deadline) -> BrokerConnection:
        """A connection to a server from the list, to be given to `adopt` or closed."""
        return BrokerConnection.open(
            Endpoint(host, port),
            self._config,
            deadline=deadline,
            silent=self.silent,
            last_failures=self._last_failures,
        )

    def adopt(self, bootstrap: BrokerConnection, metadata: ClusterMetadata) -> None:
        """A bootstrap connection to the very address at which a broker is advertised goes on as that broker's."""
        at = (bootstrap.endpoint.host, bootstrap.endpoint.port)
        broker = next((b for b in metadata.brokers.values() if (b.host, b.port) == at), None)
        if broker is None or self._usable(broker, "main") is not None:
            bootstrap.close()
        else:
            self._drop(broker, "main")
            bootstrap.rename(broker.endpoint, self._throttles[broker.node_id])
            self._shared[broker.node_id, "main"] = bootstrap

    def in_order(self, brokers: Collection[Broker], *, last: int | None = None) -> list[Broker]:
        """In random order, so that many workers do not all ask the same one; those with an open connection first.

        Brokers that throttle this client come after those that do not. Brokers that failed and have served no
        connection since come last, in the order of their failures. last: the id of a broker that comes after the others
        that have not failed.
        """

        def rank(broker: Broker) -> tuple[bool, bool, bool]:
            throttled = self._throttles[broker.node_id].remaining > 0
            return broker.node_id == last, throttled, self._usable(broker, "main") is None

        order = random.sample(list(brokers), len(brokers))
        order.sort(key=rank)
        return sorted(order, key=self.last_failure)

    def last_failure(self, server: Broker | tuple[str, int]) -> float:
        """The last failure of a broker or bootstrap server: monotonic time in seconds, 0.0 if it has not failed since
        it was served."""
        return self._last_failures.at(*((server.host, server.port) if isinstance(server, Broker) else server))

    def _usable(self, broker: Broker, purpose: str) -> BrokerConnection | None:
        known = self._shared.get((broker.node_id, purpose))
        # Only an interrupted call leaves open requests; no caller waits for their responses.
        usable = known is not None and known.usable and not known.in_flight and known.endpoint == broker.endpoint
        return known if usable else None

    def _drop(self, broker: Broker, purpose: str) -> None:
        known = self._shared.pop((broker.node_id, purpose), None)
        if known is not None:
            known.close()

    def _open(self, broker: Broker, deadline: Deadline, max_frame: int) -> BrokerConnection:
        return BrokerConnection.open(
            broker.endpoint,
            self._config,
            deadline=deadline,
            max_frame=max_frame,
            throttle=self._throttles[broker.node_id],
            silent=self.silent,
            last_failures=self._last_failures,
        )
