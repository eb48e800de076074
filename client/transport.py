"""The one file with sockets: a TCP stream with deadlines, and the one place where the system's errors get our names.

    OSError of connect, send, receive; a name that does not resolve; end of stream  -> BrokerUnavailable
    no progress until the deadline, once connected                                  -> RequestTimedOut

A server's name may resolve to several addresses, some of which may be dead: every one is tried in turn, as Java's
`client.dns.lookup=use_all_dns_ips` does (KIP-302).
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from client.errors import BrokerUnavailable, RequestTimedOut
from client.retry import Deadline

_AddressInfo = tuple[int, int, int, str, Any]


class Transport:
    """A connected stream. Every method takes the deadline that it may wait for."""

    __slots__ = ("_socket", "label")

    def __init__(self, connected: socket.socket, label: str) -> None:
        self._socket = connected
        self.label = label

    @classmethod
    def connect(
        cls,
        host: str,
        port: int,
        *,
        label: str,
        deadline: Deadline,
        address_timeout: float,
        receive_buffer: int = -1,
        send_buffer: int = -1,
    ) -> Transport:
        """Connect to the first of the host's addresses that answers, each within `address_timeout` seconds.

        `label` names the broker in errors. Raises BrokerUnavailable with every address and what was wrong with it.
        """
        failures: list[str] = []
        for family, kind, protocol, _, address in _resolve(host, port, label, deadline.within(address_timeout)):
            try:
                stream = socket.socket(family, kind, protocol)
            except OSError as error:  # a family that this machine does not speak
                failures.append(f"{address[0]}: {_words(error)}")
                continue
            try:
                for option, size in ((socket.SO_RCVBUF, receive_buffer), (socket.SO_SNDBUF, send_buffer)):
                    if size > 0:  # before connecting: the window's scale is agreed on then
                        stream.setsockopt(socket.SOL_SOCKET, option, size)
                stream.settimeout(_positive(deadline.within(address_timeout)))
                stream.connect(address)
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            except OSError as error:
                stream.close()
                failures.append(f"{address[0]}: {_words(error)}")
            except BaseException:
                stream.close()
                raise
            else:
                return cls(stream, label)
        raise BrokerUnavailable(f"cannot connect to {host}:{port}: {'; '.join(failures)}", broker=label)

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Hand all of `data` to the system."""
        try:
            self._socket.settimeout(_positive(deadline))
            self._socket.sendall(data)
        except TimeoutError as error:
            raise RequestTimedOut("the broker takes no more bytes", broker=self.label) from error
        except OSError as error:
            raise BrokerUnavailable(f"connection broke while sending: {_words(error)}", broker=self.label) from error

    def receive_into(self, target: memoryview, deadline: Deadline) -> int:
        """Wait for bytes, read at most `len(target)` of them to its front, and tell how many (at least one)."""
        try:
            self._socket.settimeout(_positive(deadline))
            count = self._socket.recv_into(target)
        except TimeoutError as error:
            raise RequestTimedOut("the broker did not answer in time", broker=self.label) from error
        except OSError as error:
            raise BrokerUnavailable(f"connection broke while receiving: {_words(error)}", broker=self.label) from error
        if count == 0:
            raise BrokerUnavailable("the broker closed the connection", broker=self.label)
        return count

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()


def _positive(deadline: Deadline) -> float:
    """Seconds left for a socket, for which 0 would mean "do not block at all"."""
    return max(deadline.remaining(), 0.001)


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return error.strerror or str(error) or type(error).__name__


def _resolve(host: str, port: int, label: str, deadline: Deadline) -> list[_AddressInfo]:
    """All stream addresses of a host, each once, in the resolver's order.

    The system's resolver knows no deadline, so a name is looked up in a thread that is left behind if it hangs.
    """
    try:
        return _lookup(host, port, socket.AI_NUMERICHOST)
    except OSError:
        pass  # a name, not an address
    found: list[_AddressInfo] = []
    failure: list[OSError] = []

    def look_up() -> None:
        try:
            found.extend(_lookup(host, port, 0))
        except OSError as error:
            failure.append(error)

    worker = threading.Thread(target=look_up, name=f"resolve-{host}", daemon=True)
    worker.start()
    worker.join(_positive(deadline))
    if found:
        return found
    why = _words(failure[0]) if failure else "no answer from the resolver in time"
    raise BrokerUnavailable(f"cannot resolve {host}: {why}", broker=label)


def _lookup(host: str, port: int, flags: int) -> list[_AddressInfo]:
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError as error:  # a label that is empty or too long for IDNA
        raise OSError(f"no valid host name: {error}") from error
    return [info for at, info in enumerate(answers) if info[4] not in [earlier[4] for earlier in answers[:at]]]
