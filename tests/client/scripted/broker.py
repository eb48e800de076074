"""A scripted broker on a real socket: it does what a live one cannot be made to do.

It speaks through the same definitions as the client (which are tested against Kafka's own), and what it is not told
otherwise it answers in a plain way. Loaded by the conftest, which hands it out as fixtures.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.connection import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kseg.client.protocol.messages.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kseg.client.protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kseg.client.protocol.registry import API_BY_KEY, decode_request, encode_response

CLOSE = object()
SILENT = object()
_LARGEST_REQUEST = 100 * 1024 * 1024  # socket.request.max.bytes
_HANDSHAKE_V0 = struct.pack(">hh", 17, 0)
TOPIC_ID = UUID(int=7)


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
    one API are used up one after the other, the last one stays. A handler may block: it holds up its connection alone,
    as a real broker's long poll does.

    `tokens` plays SASL in bare frames, after a SaslHandshake v0, or from the first frame on where the connection's
    number is in `tokens_first`: a generator that receives tokens and yields answers. What it returns is the last one,
    SILENT if nothing is said.
    """

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.ranges = {api.key: (api.versions.lowest, api.versions.highest) for api in API_BY_KEY.values()}
        self.features: dict[str, int] = {}
        self.node_id = 1
        self.topics: dict[str, MetadataResponse.MetadataResponseTopic] = {}
        self.brokers: list[tuple[int, str, int]] | None = None
        self.tokens: Callable[[], Generator[Any, bytes, Any]] | None = None
        self.tokens_first: set[int] = set()
        self.racks: dict[int, str] = {}
        self.controller_id: int | None = None
        self.coordinators: dict[str, int] = {}
        self.connections = 0
        self._handlers: dict[type, list[Callable[[Seen], Any]]] = {
            ApiVersionsRequest: [self.api_versions],
            MetadataRequest: [self.metadata],
            FindCoordinatorRequest: [self.find_coordinator],
            AddPartitionsToTxnRequest: [self.add_partitions],
            SaslHandshakeRequest: [lambda seen: SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)],
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
            controller_id=self.node_id if self.controller_id is None else self.controller_id,
            brokers=[
                MetadataResponse.MetadataResponseBroker(
                    node_id=node_id, host=host, port=port, rack=self.racks.get(node_id)
                )
                for node_id, host, port in self._listed
            ],
            topics=[
                self.topics.get(name) or MetadataResponse.MetadataResponseTopic(name=name, error_code=unknown)
                for name in names
            ],
        )

    def find_coordinator(self, seen: Seen) -> FindCoordinatorResponse:
        def found(key: str) -> tuple[int, str, int]:
            wanted = self.coordinators.get(key, self.node_id)
            return next((at for at in self._listed if at[0] == wanted), (self.node_id, self.host, self.port))

        if seen.version < 4:
            node_id, host, port = found(seen.request.key)
            return FindCoordinatorResponse(node_id=node_id, host=host, port=port)
        return FindCoordinatorResponse(
            coordinators=[
                FindCoordinatorResponse.Coordinator(key=key, node_id=node_id, host=host, port=port)
                for key in seen.request.coordinator_keys
                for node_id, host, port in [found(key)]
            ]
        )

    def add_partitions(self, seen: Seen) -> AddPartitionsToTxnResponse:
        answer = AddPartitionsToTxnResponse
        return answer(
            results_by_topic_v3_and_below=[
                answer.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        answer.AddPartitionsToTxnPartitionResult(partition_index=number) for number in topic.partitions
                    ],
                )
                for topic in seen.request.v3_and_below_topics
            ]
        )

    @property
    def _listed(self) -> list[tuple[int, str, int]]:
        return self.brokers or [(self.node_id, self.host, self.port)]

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
                with contextlib.suppress(OSError):  # its client has closed it already
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
        bare = self._begin_tokens() if number in self.tokens_first else None
        with stream, stream.makefile("rb") as incoming:
            try:
                while size := incoming.read(4):
                    (length,) = struct.unpack(">i", size)
                    if not 0 <= length <= _LARGEST_REQUEST:
                        break  # as a real broker does, for example with a request of HTTP
                    frame = incoming.read(length)
                    if bare is not None:
                        answer, bare = self._token(bare, frame)
                    else:
                        answer = self._answer(frame, number)
                        if self.tokens and frame[:4] == _HANDSHAKE_V0:
                            bare = self._begin_tokens()
                    if answer is CLOSE:
                        break
                    if answer is not SILENT:
                        stream.sendall(answer)
            except (OSError, struct.error):
                pass
            with self._lock:
                self._open.discard(stream)

    def _begin_tokens(self) -> Generator[Any, bytes, Any]:
        assert self.tokens is not None
        script = self.tokens()
        next(script)
        return script

    def _token(self, script: Generator[Any, bytes, Any], token: bytes) -> tuple[Any, Any]:
        try:
            answer, left = script.send(token), script
        except StopIteration as end:
            answer, left = end.value, None
        return framed(answer) if isinstance(answer, bytes) else answer, left

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
        if not seen.request.is_answered:
            return CLOSE if answer is CLOSE else SILENT
        if answer is CLOSE or answer is SILENT or isinstance(answer, bytes):
            return answer
        return framed(encode_response(version, correlation_id, answer))


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame
