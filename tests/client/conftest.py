"""What the client's tests share: a cluster on the real broker, and a scripted broker on a real socket.

The scripted one does what a live broker cannot be made to do. It speaks through the same definitions as the client
(which are tested against Kafka's own), and everything that it is not told otherwise it answers in a plain way.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import pytest

from client import ClientConfig, Cluster
from client.protocol import ErrorCode
from client.protocol.api import API_BY_KEY, decode_request, encode_response
from client.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

CLOSE = object()
SILENT = object()
TOPIC_ID = UUID(int=7)


class Broker(Protocol):
    """The real broker, as far as these tests need it."""

    bootstrap_servers: str

    def topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> str: ...


@dataclass(frozen=True)
class Seen:
    """A request that arrived: over which connection (numbered from 0), how, and what."""

    connection: int
    client_id: str | None
    version: int
    correlation_id: int
    request: Any


class FakeBroker:
    """Broker 1 of a cluster of its own. `on` scripts an API; `seen` is what arrived.

    A handler gets a `Seen` and gives a response, raw bytes to send as they are, CLOSE, or SILENT. Several handlers for
    one API are used up one after the other, the last one stays.
    """

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.ranges = {api.key: (api.versions.lowest, api.versions.highest) for api in API_BY_KEY.values()}
        self.features: dict[str, int] = {}
        self.node_id = 1
        self.topics: dict[str, MetadataResponse.MetadataResponseTopic] = {}
        self.brokers: list[tuple[int, str, int]] | None = None
        self.connections = 0
        self._handlers: dict[type, list[Callable[[Seen], Any]]] = {
            ApiVersionsRequest: [self.api_versions],
            MetadataRequest: [self.metadata],
            FindCoordinatorRequest: [self.find_coordinator],
        }
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()[:2]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    def on(self, request: type, *handlers: Callable[[Seen], Any]) -> None:
        self._handlers[request] = list(handlers)

    def requests(self, kind: type) -> list[Seen]:
        return [seen for seen in self.seen if isinstance(seen.request, kind)]

    def add_topic(self, name: str, leaders: list[int], *, epoch: int = 0, topic_id: UUID = TOPIC_ID) -> None:
        self.topics[name] = MetadataResponse.MetadataResponseTopic(
            name=name,
            topic_id=topic_id,
            partitions=[
                MetadataResponse.MetadataResponsePartition(
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=epoch,
                    replica_nodes=[leader],
                    isr_nodes=[leader],
                    error_code=0 if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                )
                for index, leader in enumerate(leaders)
            ],
        )

    # -- the plain answers

    def api_versions(self, seen: Seen) -> ApiVersionsResponse | bytes:
        lowest, highest = self.ranges[ApiVersionsRequest.KEY]
        response = ApiVersionsResponse(
            api_keys=[
                ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.ranges.items()
            ]
        )
        if not lowest <= seen.version <= highest:
            response.error_code = ErrorCode.UNSUPPORTED_VERSION
            return framed(encode_response(0, seen.correlation_id, response))
        if seen.version >= 3 and self.features:
            response.finalized_features_epoch = 1
            response.finalized_features = [
                ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in self.features.items()
            ]
        return response

    def metadata(self, seen: Seen) -> MetadataResponse:
        asked = seen.request.topics
        everything = asked is None or (seen.version == 0 and not asked)
        names = list(self.topics) if everything else [topic.name for topic in asked]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponse(
            cluster_id="fake",
            controller_id=self.node_id,
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=node_id, host=host, port=port)
                for node_id, host, port in self.brokers or [(self.node_id, self.host, self.port)]
            ],
            topics=[
                self.topics.get(name) or MetadataResponse.MetadataResponseTopic(name=name, error_code=unknown)
                for name in names
            ],
        )

    def find_coordinator(self, seen: Seen) -> FindCoordinatorResponse:
        if seen.version < 4:
            return FindCoordinatorResponse(node_id=self.node_id, host=self.host, port=self.port)
        return FindCoordinatorResponse(
            coordinators=[
                FindCoordinatorResponse.Coordinator(key=key, node_id=self.node_id, host=self.host, port=self.port)
                for key in seen.request.coordinator_keys
            ]
        )

    # -- sockets

    def stop(self) -> None:
        """Listen no more, and close every connection, as a broker that goes away."""
        # A blocked accept does not notice that its socket is closed, but that it is shut down.
        for opened in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()
        for thread in self._threads:
            thread.join(5)

    def drop_connections(self) -> None:
        """Close every connection and go on listening."""
        with self._lock:
            for opened in self._open:
                opened.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(stream)
            thread = threading.Thread(target=self._serve, args=(stream, self.connections), daemon=True)
            self.connections += 1
            self._threads.append(thread)
            thread.start()

    def _serve(self, stream: socket.socket, number: int) -> None:
        with stream, stream.makefile("rb") as incoming:
            try:
                while size := incoming.read(4):
                    answer = self._answer(incoming.read(struct.unpack(">i", size)[0]), number)
                    if answer is CLOSE:
                        break
                    if answer is not SILENT:
                        stream.sendall(answer)
            except (OSError, struct.error):
                pass
            with self._lock:
                self._open.discard(stream)

    def _answer(self, frame: bytes, number: int) -> Any:
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        lowest, highest = self.ranges[key]
        if key == ApiVersionsRequest.KEY and not lowest <= version <= highest:
            seen = Seen(number, None, version, correlation_id, ApiVersionsRequest())
        else:
            header, request = decode_request(frame)
            seen = Seen(number, header.client_id, version, correlation_id, request)
        self.seen.append(seen)
        with self._lock:
            handlers = self._handlers[type(seen.request)]
            handler = handlers[0] if len(handlers) == 1 else handlers.pop(0)
        answer = handler(seen)
        if answer is CLOSE or answer is SILENT or isinstance(answer, bytes):
            return answer
        return framed(encode_response(version, correlation_id, answer))


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


@dataclass(frozen=True)
class FakeTools:
    """Conftest modules are not importable from tests: what these need of it comes through a fixture."""

    start: Callable[[], FakeBroker]
    CLOSE: object = CLOSE
    SILENT: object = SILENT
    TOPIC_ID: UUID = TOPIC_ID
    framed: Callable[[bytes], bytes] = framed


@pytest.fixture
def fakes() -> Iterator[FakeTools]:
    """Starts scripted brokers (`fakes.start()`), and stops them all."""
    started: list[FakeBroker] = []

    def start() -> FakeBroker:
        started.append(FakeBroker())
        return started[-1]

    yield FakeTools(start)
    for broker in started:
        broker.stop()


@pytest.fixture
def fake(fakes: FakeTools) -> FakeBroker:
    """One scripted broker."""
    return fakes.start()


@pytest.fixture
def connect() -> Iterator[Callable[..., Cluster]]:
    """`connect(bootstrap_servers, **properties)` gives a cluster; underscores in names stand for dots."""
    clusters: list[Cluster] = []

    def make(bootstrap_servers: str, client_id: str = "kseg-tests", **properties: object) -> Cluster:
        given = {name.replace("_", "."): str(value) for name, value in properties.items()}
        config = ClientConfig.from_properties({"bootstrap.servers": bootstrap_servers} | given, client_id=client_id)
        clusters.append(Cluster(config))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture
def cluster(kafka: Broker, connect: Callable[..., Cluster]) -> Cluster:
    """A cluster on the real broker."""
    return connect(kafka.bootstrap_servers)
