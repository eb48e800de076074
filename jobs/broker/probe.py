"""Ask a broker whether it is there, in one of Kafka's oldest requests.

The broker must not need the client that is tested against it, so these bytes are written by hand. A request is
``size int32, api key int16, api version int16, correlation id int32, client id nullable string``, then its body; an
answer ``size int32, correlation id int32``, then its body (https://kafka.apache.org/protocol, "Protocol Primitive
Types").

    Metadata v1 (key 3) body    topics: array, here empty = none asked for
    Metadata v1 answer          brokers: [node id int32, host string, port int32, rack nullable string],
                                controller id int32, topics: array
"""

from __future__ import annotations

import socket
import struct

_METADATA = 3
_VERSION = 1
_LIMIT = 1 << 20


def live_brokers(port: int, *, host: str = "127.0.0.1", timeout: float = 2.0) -> frozenset[int] | None:
    """Ids of the brokers that a broker knows to be alive; None when it does not answer (yet)."""
    request = struct.pack(">hhih", _METADATA, _VERSION, 1, -1) + struct.pack(">i", 0)
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _read(connection, 4))
            if not 8 <= size <= _LIMIT:
                return None
            return _broker_ids(_read(connection, size)[4:])
    except (OSError, EOFError, struct.error):
        return None


def _broker_ids(body: bytes) -> frozenset[int]:
    (count,) = struct.unpack_from(">i", body)
    position, ids = 4, set()
    for _ in range(count):
        node, length = struct.unpack_from(">ih", body, position)
        ids.add(node)
        position += 6 + length + 4
        (rack,) = struct.unpack_from(">h", body, position)
        position += 2 + max(rack, 0)
    return frozenset(ids)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
