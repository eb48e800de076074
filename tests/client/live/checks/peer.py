"""One broker of one release, and what the checks need to ask it: a connection that says what it is told to say."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable
from typing import Any

from kseg.client import ClientConfig
from kseg.client.protocol.messages.fetch import FetchRequest
from kseg.client.protocol.messages.metadata import FindCoordinatorRequest, MetadataRequest
from kseg.client.protocol.messages.produce import InitProducerIdRequest, ProduceRequest
from kseg.client.protocol.registry import API_BY_NAME
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection, Endpoint
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set

#: AddPartitionsToTxn from 4 on is for brokers among themselves.
CLIENTS_END = {"AddPartitionsToTxn": 3}
NOW = int(time.time() * 1000)


class Peer:
    """`call` sends one request in one version over one connection, whatever the client would have chosen."""

    def __init__(self, kafka: Any, release: str) -> None:
        self.kafka = kafka
        self.release = release
        properties = {"bootstrap.servers": kafka.bootstrap_servers}
        if release.startswith("0.9"):  # all others tell what they speak, sooner or later
            properties |= {"broker.version.fallback": "0.9.0", "api.version.request.timeout.ms": "700"}
        self.config = ClientConfig.from_properties(properties, client_id="kseg-live")
        host, port = kafka.bootstrap_servers.split(":")
        self.endpoint = Endpoint(host, int(port))
        self._connection: BrokerConnection | None = None
        self._names = itertools.count(1)
        self.node_id = 1
        self.with_zookeeper = getattr(kafka.broker, "zookeeper_port", None) is not None

    @property
    def connection(self) -> BrokerConnection:
        if self._connection is None or self._connection.closed:
            self._connection = BrokerConnection.open(self.endpoint, self.config, deadline=Deadline.after(60))
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def call(self, request: Any, version: int) -> Any:
        return self.connection.call(request, version, deadline=Deadline.after(30))

    def versions(self, name: str) -> range:
        """Those that the broker and our definitions both have, of which a client may send."""
        api = API_BY_NAME[name]
        lowest, highest = self.connection.versions.ranges.get(api.key, (0, -1))
        top = min(highest, api.versions.highest, CLIENTS_END.get(name, highest))
        return range(max(lowest, api.versions.lowest), top + 1)

    def newest(self, name: str) -> int:
        return self.versions(name)[-1]

    def name(self, what: str) -> str:
        return f"{what}-{next(self._names)}-{uuid.uuid4().hex[:6]}"

    def eventually(self, attempt: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Until it no longer fails: for what a broker does in its own time."""
        until = time.monotonic() + seconds
        while True:
            try:
                return attempt()
            except AssertionError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    # -- what many checks begin with

    def topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name: str = self.kafka.topic(partitions, config)
        return name

    def topic_id(self, topic: str) -> Any:
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
        [found] = self.call(request, self.newest("Metadata")).topics
        return found.topic_id

    def produce(self, topic: str, records: bytes, version: int | None = None, **fields: Any) -> Any:
        """Append a ready record set to partition 0; gives the partition's part of the answer."""
        version = min(self.newest("Produce"), 11) if version is None else version
        data = ProduceRequest.TopicProduceData(
            partition_data=[ProduceRequest.PartitionProduceData(index=0, records=records)]
        )
        if version >= 13:
            data.topic_id = self.topic_id(topic)
        else:
            data.name = topic
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data], **fields)
        response = self.call(request, version)
        [found] = response.responses
        [entry] = found.partition_responses
        assert found.topic_id == data.topic_id if version >= 13 else found.name == topic
        assert entry.index == 0
        return entry

    def write(self, topic: str, values: list[bytes], *, compression: str = "none") -> int:
        """Append records in the newest format that the broker takes; gives the first one's offset."""
        rows = [Record(key=b"k", value=value, timestamp=NOW + at) for at, value in enumerate(values)]
        entry = self.produce(topic, self.encode(rows, self.newest("Produce"), compression=compression))
        assert entry.error_code == 0, entry
        offset: int = entry.base_offset
        return offset

    def encode(self, rows: list[Record], version: int, *, compression: str = "none") -> bytes:
        """A record set in the format of a Produce version."""
        if version >= 3:
            return encode_batch(rows, compression=compression)
        return encode_message_set(rows, magic=1 if version == 2 else 0, compression=compression)

    def fetch(self, topic: str, offset: int, version: int | None = None, **fields: Any) -> Any:
        """The partition's part of a Fetch answer about partition 0."""
        version = self.newest("Fetch") if version is None else version
        max_bytes = fields.pop("partition_max_bytes", 1 << 20)
        part = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
        data = FetchRequest.FetchTopic(partitions=[part])
        if version >= 13:
            data.topic_id = self.topic_id(topic)
        else:
            data.topic = topic
        fields = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 24, "session_epoch": -1, **fields}
        response = self.call(FetchRequest(topics=[data], **fields), version)
        assert response.error_code == 0, response
        [found] = response.responses
        [entry] = found.partitions
        assert found.topic_id == data.topic_id if version >= 13 else found.topic == topic
        assert entry.partition_index == 0
        return entry

    def rows(self, topic: str, records: bytes, start: int, end: int) -> list[dict[str, Any]]:
        """The rows of a record set, as the decoder of the jobs reads them."""
        decoder = RangeDecoder(topic, 0, start, end, isolation_level="read_uncommitted", engine="reference")
        batches = [*decoder.feed(records or b""), *decoder.finish()]
        return [row for batch in batches for row in batch.to_pylist()]

    def values(self, topic: str, start: int, end: int) -> list[bytes]:
        """The values that the newest Fetch gives for these offsets of partition 0."""
        return [row["value"] for row in self.rows(topic, self.fetch(topic, start).records, start, end)]

    def await_coordinator(self, key: str, kind: int = 0) -> None:
        """Until somebody coordinates a group or transactional id: its topic is made when it is first asked for."""
        version = min(self.newest("FindCoordinator"), 3)

        def found() -> None:
            request = FindCoordinatorRequest(key=key)
            if version >= 1:
                request.key_type = kind
            assert self.call(request, version).error_code == 0

        self.eventually(found)

    def producer_id(self, transactional_id: str | None, version: int | None = None) -> tuple[int, int]:
        """An initialized producer's id and epoch."""
        if transactional_id is not None:
            self.await_coordinator(transactional_id, 1)
        version = min(self.newest("InitProducerId"), 5) if version is None else version

        def asked() -> Any:
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=30_000)
            response = self.call(request, version)
            assert response.error_code == 0, response
            return response

        response = self.eventually(asked)
        return response.producer_id, response.producer_epoch
