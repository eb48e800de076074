"""The protocol of one connection, without a socket: the caller moves the bytes.

    out:  int32 size | int16 api key | int16 version | int32 correlation id | client id | … | request
    in:   int32 size | int32 correlation id | … | response                        (all numbers big-endian)

A broker answers the requests of one connection in the order in which they were sent, so a response belongs to the
oldest request that is still open; its correlation id has to say the same, else no later response on this connection can
be assigned to its request. https://kafka.apache.org/protocol#protocol_network

The owner of the socket calls `wanted()` for a buffer, reads the next bytes into it, and calls `received(n)`.
The record sets of a Fetch answer are views of its frame's buffer. A frame up to 16 MB gets one buffer of its size; the
buffer of a larger one grows with the bytes that arrive, since a size alone is no reason to believe in gigabytes.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from kseg.client.errors import ProtocolFault, RequestTooLarge, UnsupportedVersion
from kseg.client.protocol.api import Api, decode_response, encode_request
from kseg.client.protocol.errors import DecodeError, ProtocolError
from kseg.client.wire.failures import encrypted_listener, other_protocol

SIZE: Final = struct.Struct(">i")
CORRELATION_ID: Final = struct.Struct(">i")

#: Large enough for the metadata of any cluster, and it rejects what a TLS listener (0x15030300) or an HTTP server
#: ("HTTP") answers to a plaintext Kafka request, before anything is allocated.
MAX_FRAME: Final = 128 * 1024 * 1024
#: Fetch answers have the protocol's own limit alone: one batch may be larger than every limit that was asked for.
MAX_FETCH_FRAME: Final = 2**31 - 1
#: What a broker takes unless its `socket.request.max.bytes` says otherwise. Above it, it closes the connection.
MAX_REQUEST: Final = 100 * 1024 * 1024

_FIRST_BUFFER: Final = 16 * 1024 * 1024

# A TLS record's first bytes: what a TLS listener answers to a request in plain text (RFC 8446, 5.1).
_TLS_ALERT: Final = 0x15
_TLS_HANDSHAKE: Final = 0x16
_TLS_MAJOR: Final = 0x03

# How servers of other protocols begin their answer to bytes that they do not understand.
_OTHERS: Final = {
    b"HTTP": "HTTP",
    b"<!DO": "HTTP",  # without a header, as for a request line that names no version
    b"<htm": "HTTP",
    b"SSH-": "SSH",
    b"-ERR": "Redis' protocol",
    b"E\0\0\0": "PostgreSQL's protocol",
}

_MAX_CORRELATION_ID: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Open:
    """A request that waits for its answer."""

    correlation_id: int
    api: Api[Any]
    version: int
    size: int = 0

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version} ({self.size} bytes)"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, the request that it belongs to, and the bytes of its frame (with the four of its size)."""

    request: Open
    response: Any
    size: int


class Connection:
    """Frames and correlation ids of one connection. After a ProtocolFault it is of no use any more."""

    def __init__(self, client_id: str, *, max_frame: int = MAX_FRAME, broker: str | None = None) -> None:
        self.max_frame = max_frame
        self.last_correlation_id = -1
        self._client_id = client_id
        self._broker = broker
        self._open: deque[Open] = deque()
        self._next_correlation_id = 0
        self._size_buffer = bytearray(SIZE.size)
        self._frame: bytearray | None = None
        self._frame_bytes = 0  # of the whole frame; the buffer may be smaller yet
        self._target = memoryview(self._size_buffer)
        self._filled = 0
        self._answered = False  # nothing that is Kafka's has come yet

    @property
    def oldest(self) -> Open | None:
        """The request whose answer comes next."""
        return self._open[0] if self._open else None

    @property
    def open(self) -> int:
        """The number of requests that wait for a response."""
        return len(self._open)

    def request(self, api: Api[Any], version: int, request: Any) -> bytes:
        """Encodes the request and registers it as in flight, unless it gets no response.

        Raises UnsupportedVersion if a field of the request does not exist in this version, and RequestTooLarge. Nothing
        is registered then.
        """
        correlation_id = self._next_correlation_id
        try:
            body = encode_request(version, correlation_id, self._client_id, request)
        except ProtocolError as error:
            raise UnsupportedVersion(
                f"cannot be sent as {api.name} v{version}: {error}", broker=self._broker
            ) from error
        if len(body) > MAX_REQUEST:
            raise RequestTooLarge(
                f"{api.name} v{version} of {len(body)} bytes: brokers take {MAX_REQUEST} unless their "
                "socket.request.max.bytes says otherwise; send less at once",
                broker=self._broker,
            )
        self._next_correlation_id = 0 if correlation_id == _MAX_CORRELATION_ID else correlation_id + 1
        self.last_correlation_id = correlation_id
        if request.is_answered:
            self._open.append(Open(correlation_id, api, version, len(body)))
        return SIZE.pack(len(body)) + body

    def wanted(self) -> memoryview:
        """The buffer for the next bytes from the peer. Never empty, valid until the next call of `received`."""
        return self._target[self._filled :]

    def received(self, count: int) -> Answer | None:
        """`count` bytes were written to the front of `wanted()`. Gives an answer once a frame is complete.

        Raises ProtocolFault: a size that is none, a response without a request, one that does not decode.
        """
        self._filled += count
        if self._filled < len(self._target):
            return None
        if self._frame is None:
            self._frame_bytes, self._filled = self._frame_size(), 0
            self._use(bytearray(min(self._frame_bytes, _FIRST_BUFFER)))
            return None
        if self._filled < self._frame_bytes:
            larger = bytearray(min(self._frame_bytes, 2 * self._filled))
            larger[: self._filled] = self._frame
            self._use(larger)
            return None
        frame, self._frame, self._filled = self._frame, None, 0
        self._target = memoryview(self._size_buffer)
        return self._answer(frame)

    def _use(self, frame: bytearray) -> None:
        self._frame, self._target = frame, memoryview(frame)

    def _frame_size(self) -> int:
        (size,) = SIZE.unpack(self._size_buffer)
        if CORRELATION_ID.size <= size <= self.max_frame:
            return int(size)
        if self._size_buffer[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and self._size_buffer[1] == _TLS_MAJOR:
            raise encrypted_listener(self._broker)
        other = next((name for begins, name in _OTHERS.items() if self._size_buffer.startswith(begins)), None)
        if other is not None and not self._answered:
            raise other_protocol(other, self._broker)
        raise self._fault(
            f"frame of {size} bytes (first bytes {bytes(self._size_buffer)!r}), allowed are {CORRELATION_ID.size}.."
            f"{self.max_frame}: is this a PLAINTEXT listener of a Kafka broker?"
        )

    def _answer(self, frame: bytearray) -> Answer:
        (correlation_id,) = CORRELATION_ID.unpack_from(frame)
        if not self._open:
            raise self._fault(f"response {correlation_id}, and no request is open")
        oldest = self._open[0]
        if correlation_id != oldest.correlation_id:
            raise self._fault(
                f"response {correlation_id}, while {oldest.correlation_id} ({oldest.api.name} v{oldest.version}) is "
                "the oldest open request"
            )
        self._open.popleft()
        self._answered = True
        try:
            _, response = decode_response(oldest.api, oldest.version, memoryview(frame))
        except DecodeError as error:
            raise self._fault(f"response to {oldest.api.name} v{oldest.version} cannot be decoded: {error}") from error
        return Answer(oldest, response, SIZE.size + len(frame))

    def _fault(self, message: str) -> ProtocolFault:
        return ProtocolFault(message, broker=self._broker)
