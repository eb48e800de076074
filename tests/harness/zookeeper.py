"""The few words of ZooKeeper's protocol that a Kafka before 4.0 needs from outside: create a node, read one.

Releases before 0.10.1 have no request that creates a topic; their tools write it to ZooKeeper, and so does this, which
spares a JVM for each topic. Every message is ``size int32`` and a body of big-endian numbers, strings and buffers as
``length int32, bytes``:

    connect  protocol version int32, last zxid int64, timeout ms int32, session int64, password buffer
    request  xid int32, type int32, then   create: path, data, [permissions int32, scheme, id], flags int32
                                           getData: path, watch bool
    answer   xid int32, zxid int64, error int32, then   create: path   getData: data, stat
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Final, Self

from kseg.jobs.broker.errors import LocalServerError
from kseg.jobs.broker.properties import HOST

_CREATE: Final = 1
_GET_DATA: Final = 4
_CLOSE: Final = -11
_ALL_PERMISSIONS: Final = 31
_NO_NODE: Final = -101
_NODE_EXISTS: Final = -110
_SESSION_MS: Final = 10_000


class ZooKeeper:
    """A session, open from `with` to its end."""

    def __init__(self, port: int, *, host: str = HOST, timeout: float = 10.0) -> None:
        self._stream = socket.create_connection((host, port), timeout=timeout)
        self._xid = 0
        try:
            self._exchange(struct.pack(">iqiq", 0, 0, _SESSION_MS, 0) + _buffer(bytes(16)))
        except BaseException:  # a server that starts closes connections
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._call(_CLOSE, b"")
        finally:
            self._stream.close()

    def create(self, path: str, data: bytes) -> bool:
        """Create a lasting node that anybody may change; False if there is one. Raises LocalServerError."""
        acl = struct.pack(">ii", 1, _ALL_PERMISSIONS) + _buffer(b"world") + _buffer(b"anyone")
        error, _ = self._call(_CREATE, _buffer(path.encode()) + _buffer(data) + acl + struct.pack(">i", 0))
        if error not in (0, _NODE_EXISTS):
            raise LocalServerError(f"ZooKeeper did not create {path}: error {error}.")
        return error == 0

    def get(self, path: str) -> bytes | None:
        """A node's data; None if there is no such node. Raises LocalServerError."""
        error, body = self._call(_GET_DATA, _buffer(path.encode()) + b"\0")
        if error == _NO_NODE:
            return None
        if error:
            raise LocalServerError(f"ZooKeeper did not tell {path}: error {error}.")
        (length,) = struct.unpack_from(">i", body)
        return body[4 : 4 + max(length, 0)]

    def _call(self, kind: int, body: bytes) -> tuple[int, bytes]:
        self._xid += 1
        answer = self._exchange(struct.pack(">ii", self._xid, kind) + body)
        _, _, error = struct.unpack_from(">iqi", answer)
        return int(error), answer[16:]

    def _exchange(self, message: bytes) -> bytes:
        self._stream.sendall(struct.pack(">i", len(message)) + message)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._stream.recv(size - len(data))
            if not part:
                raise LocalServerError("ZooKeeper closed the connection.")
            data += part
        return bytes(data)


def _buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
