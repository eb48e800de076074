"""Checks whether a broker is available, with one of Kafka's oldest requests.

Starting a broker must not depend on the client that is tested with this broker, so this module encodes its request
itself. A request is ``size int32, api key int16, api version int16, correlation id int32, client id nullable string``,
then its body; a response is ``size int32, correlation id int32``, then its body (https://kafka.apache.org/protocol,
"Protocol Primitive Types").

    Metadata (key 3) body    topics: array; v1: empty = no topics, v0: empty = all topics
    Metadata response        brokers: [node id int32, host string, port int32, v1: rack nullable string],
                             v1: controller id int32,
                             topics: [error int16, name string, v1: is internal bool,
                                      partitions: [error int16, index int32, leader int32, replicas int32s, isr int32s]]

Brokers before 0.10 support only version 0.
"""

from __future__ import annotations

import socket
import struct

_METADATA = 3
_LIMIT = 1 << 22


def live_brokers(port: int, *, version: int = 1) -> frozenset[int] | None:
    """Ids of the live brokers in a broker's metadata; None if the broker does not respond (yet)."""
    try:
        return frozenset(_brokers(_Body(_ask(port, version)), version))
    except (OSError, EOFError, struct.error):
        return None


def partition_leaders(port: int, topic: str) -> dict[int, int]:
    """Leaders by partition, without partitions that have no leader; {} if the topic or a response is missing."""
    try:
        body = _Body(_ask(port, 0))
        _brokers(body, 0)
        for _ in range(body.int32()):
            body.skip(2)
            name, found = body.string(), {}
            for _ in range(body.int32()):
                body.skip(2)
                partition, leader = body.int32(), body.int32()
                body.skip(4 * body.int32())
                body.skip(4 * body.int32())
                if leader >= 0:
                    found[partition] = leader
            if name == topic:
                return found
    except (OSError, EOFError, struct.error):
        pass
    return {}


class _Body:
    """Reads the fields of a response one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int32(self) -> int:
        (value,) = struct.unpack_from(">i", self._data, self._at)
        self._at += 4
        return int(value)

    def string(self) -> str:
        (length,) = struct.unpack_from(">h", self._data, self._at)
        self._at += 2 + max(length, 0)
        return self._data[self._at - max(length, 0) : self._at].decode()

    def skip(self, count: int) -> None:
        self._at += count


def _ask(port: int, version: int) -> bytes:
    request = struct.pack(">hhih", _METADATA, version, 1, -1) + struct.pack(">i", 0)
    with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _read(connection, 4))
        if not 8 <= size <= _LIMIT:
            raise EOFError
        return _read(connection, size)[4:]


def _brokers(body: _Body, version: int) -> list[int]:
    ids = []
    for _ in range(body.int32()):
        ids.append(body.int32())
        body.string()
        body.skip(4)
        if version > 0:
            body.string()
    return ids


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
