"""The one file with sockets: a TCP stream with deadlines, in TLS or not. The system's errors become this client's:

    OSError of connect, send, receive; a name that does not resolve; end of stream  -> BrokerUnavailable
    no progress until the deadline, once connected                                  -> RequestTimedOut
    a certificate that does not hold, a refusal in TLS, a listener without TLS      -> AuthenticationFailed

A server's name may resolve to several addresses, some of which may be dead: every one is tried in turn, as Java's
`client.dns.lookup=use_all_dns_ips` does (KIP-302). An address may also accept connections without serving them, which
only a request shows: those that failed last are tried last.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from typing import TYPE_CHECKING, Any, Final

from kseg.client.errors import AuthenticationFailed, BrokerUnavailable, KafkaError, RequestTimedOut
from kseg.client.protocol.printable import printable
from kseg.client.retry import Deadline
from kseg.client.security.tlserrors import tls_error
from kseg.client.wire.failures import LastFailures, other_protocol

if TYPE_CHECKING:
    from kseg.client.security.tls import TlsConfig

_AddressInfo = tuple[int, int, int, str, Any]

#: What a name server has answered (NXDOMAIN, or no address), unlike EAI_AGAIN: it did not answer.
_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})

_HTTP_REQUEST: Final = b"HEAD / HTTP/1.0\r\n\r\n"
_HTTP: Final = b"HTTP/"

# ApiVersions v0, correlation id 0, no client id: what any broker answers, before anybody has logged in.
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 0, -1)


class Transport:
    """A connected stream. Every method takes the deadline that it may wait for."""

    __slots__ = ("_fresh", "_identified", "_last_failures", "_places", "_socket", "_tls", "label")

    def __init__(
        self,
        connected: socket.socket,
        label: str,
        last_failures: LastFailures,
        places: tuple[tuple[str, int], tuple[str, int]],
        *,
        identified: bool = False,
    ) -> None:
        """`places`: the host and the address that is connected, each with its port. Use `connect`."""
        self._last_failures = last_failures
        self._places = places
        self._socket = connected
        self._tls = isinstance(connected, ssl.SSLSocket)
        self._identified = identified
        self._fresh = True  # nothing has come yet
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
        tls: TlsConfig | None = None,
        last_failures: LastFailures | None = None,
    ) -> Transport:
        """Connect to the first of the host's addresses that answers, each within `address_timeout` seconds.

        `label` names the broker in errors. `tls`: how to encrypt, None for not at all; its handshake has
        `address_timeout` as well. `last_failures` orders the addresses; host and address count there as failed until
        `served` is called.

        Raises BrokerUnavailable with every address and what was wrong with it; AuthenticationFailed, ConfigError (files
        that cannot be used).
        """
        context = None if tls is None else tls.context()
        failures: list[str] = []
        reasons: set[str] = set()
        last = LastFailures() if last_failures is None else last_failures
        last.add((host, port))
        found = _resolve(host, port, label, deadline.within(address_timeout))
        for info in sorted(found, key=lambda info: last.at(info[4][0], port)):
            places = ((host, port), (info[4][0], port))
            last.add(*places)
            until = deadline.within(address_timeout)
            try:
                stream = _dial(info, until, receive_buffer, send_buffer)
            except OSError as error:
                failures.append(f"{info[4][0]}: {_words(error)}")
                reasons.add(_words(error).lower())
                continue
            if tls is None or context is None:
                return cls(stream, label, last, places)
            identified = tls.keystore is not None
            try:
                encrypted = _encrypt(stream, context, host, until, label, identified=identified)
                return cls(encrypted, label, last, places, identified=identified)
            except BrokerUnavailable as error:
                if _speaks_plaintext(info, deadline.within(min(address_timeout, 2.0))):
                    raise AuthenticationFailed(
                        "this is not a TLS listener: it responds in plain text; use its TLS port, or set "
                        "security.protocol to PLAINTEXT or SASL_PLAINTEXT",
                        broker=label,
                    ) from error
                _check_for_http(info, deadline.within(min(address_timeout, 2.0)), label)
                failures.append(f"{info[4][0]}: {error.message}")
                reasons.add(error.message)
        failed = BrokerUnavailable(f"cannot connect to {printable(host)}:{port}: {'; '.join(failures)}", broker=label)
        failed.reason = reasons.pop() if len(reasons) == 1 else None
        raise failed

    def speaks_http(self, deadline: Deadline) -> bool:
        """Whether the peer responds to a request of HTTP by HTTP. For nothing else, and nothing secret is sent."""
        head = memoryview(bytearray(len(_HTTP)))
        filled = 0
        try:
            self.send(_HTTP_REQUEST, deadline)
            while filled < len(head):
                filled += self.receive_into(head[filled:], deadline)
        except KafkaError:
            return False
        return head.tobytes() == _HTTP

    def served(self) -> None:
        """The broker answers here: its host and this address are not tried after others any more."""
        self._last_failures.discard(*self._places)

    def failed(self) -> None:
        """Other brokers are tried before this one, until a connection to it is served again.

        Its address was served, so the next connection goes there, too: other addresses may not even be reachable.
        """
        host, _ = self._places
        self._last_failures.add(host)

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Hand all of `data` to the system."""
        try:
            if self._tls:
                rest = memoryview(data)
                while rest:  # an SSLSocket's sendall has the whole time for each record
                    self._socket.settimeout(_positive(deadline))
                    rest = rest[self._socket.send(rest) :]
                    if rest and deadline.passed:
                        raise TimeoutError
            else:
                self._socket.settimeout(_positive(deadline))
                self._socket.sendall(data)
        except TimeoutError as error:
            raise RequestTimedOut("the broker does not accept more bytes", broker=self.label) from error
        except OSError as error:
            raise self._broken(error, "sending") from error

    def receive_into(self, target: memoryview, deadline: Deadline) -> int:
        """Wait for bytes, read at most `len(target)` of them to its front, and return how many (at least one)."""
        try:
            self._socket.settimeout(_positive(deadline))
            count = self._socket.recv_into(target)
        except TimeoutError as error:
            raise RequestTimedOut("the broker did not respond in time", broker=self.label) from error
        except OSError as error:
            raise self._broken(error, "receiving") from error
        if count == 0:
            raise BrokerUnavailable("the broker closed the connection" + self._guess(), broker=self.label)
        self._fresh = False
        return count

    def receive_now(self, target: memoryview) -> int:
        """Read what is here already, `len(target)` bytes at most; how many, 0 for none. Raises BrokerUnavailable."""
        try:
            self._socket.settimeout(0)
            count = self._socket.recv_into(target)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise self._broken(error, "receiving") from error
        if count == 0:
            raise BrokerUnavailable("the broker closed the connection" + self._guess(), broker=self.label)
        self._fresh = False
        return count

    @property
    def pending(self) -> bool:
        """Whether decrypted bytes are buffered, which polling the socket does not show: TLS decrypts whole records."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def fileno(self) -> int:
        """The socket's number, to wait for it together with others. -1 once it is closed."""
        return self._socket.fileno()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def _broken(self, error: OSError, doing: str) -> KafkaError:
        if isinstance(error, ssl.SSLError):
            return tls_error(error, self.label, identified=self._identified, accepted=not self._fresh)
        pending = self._alert() if self._tls and doing == "sending" else None
        if pending is not None:
            return pending
        return BrokerUnavailable(f"connection broke while {doing}: {_words(error)}{self._guess()}", broker=self.label)

    def _alert(self) -> KafkaError | None:
        """Why the peer has closed, if it said so: in TLS 1.3 it judges our certificate when we think we are done."""
        try:
            self._socket.settimeout(0.1)
            self._socket.recv(1)
        except ssl.SSLError as error:
            return tls_error(error, self.label, identified=self._identified, accepted=not self._fresh)
        except OSError:
            pass
        return None

    def _guess(self) -> str:
        if not (self._tls and self._fresh):
            return ""
        return " right after the TLS handshake; does it require a client certificate (ssl.keystore.*)?"


def _dial(info: _AddressInfo, until: Deadline, receive_buffer: int = -1, send_buffer: int = -1) -> socket.socket:
    family, kind, protocol, _, address = info
    stream = socket.socket(family, kind, protocol)  # fails for a family that this machine does not speak
    try:
        for option, size in ((socket.SO_RCVBUF, receive_buffer), (socket.SO_SNDBUF, send_buffer)):
            if size > 0:  # before connecting: the window's scale is agreed on then
                stream.setsockopt(socket.SOL_SOCKET, option, size)
        stream.settimeout(_positive(until))
        stream.connect(address)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        stream.close()
        raise
    return stream


def _encrypt(
    stream: socket.socket, context: ssl.SSLContext, host: str, until: Deadline, label: str, *, identified: bool
) -> ssl.SSLSocket:
    """The stream after its TLS handshake; SNI and the certificate's check go by the name that was dialled."""
    try:
        # A name with a final dot is the same host, but no certificate has it.
        encrypted = context.wrap_socket(stream, server_hostname=host.rstrip("."), do_handshake_on_connect=False)
    except BaseException:
        stream.close()
        raise
    try:
        encrypted.settimeout(_positive(until))
        encrypted.do_handshake()
    except BaseException as error:
        encrypted.close()
        if isinstance(error, ssl.SSLError) and not isinstance(error, TimeoutError):
            raise tls_error(error, label, identified=identified, host=host) from error
        if isinstance(error, OSError):
            what = "did not respond in time" if isinstance(error, TimeoutError) else f"broke: {_words(error)}"
            raise BrokerUnavailable(f"the TLS handshake {what}", broker=label) from error
        raise
    return encrypted


def _speaks_plaintext(info: _AddressInfo, until: Deadline) -> bool:
    """Whether a peer that broke off a TLS handshake answers a Kafka request in plain text. Nothing secret is sent."""
    try:
        with _dial(info, until) as stream:
            stream.sendall(_API_VERSIONS)
            head = b""
            while len(head) < 8:
                stream.settimeout(_positive(until))
                part = stream.recv(8 - len(head))
                if not part:
                    return False
                head += part
    except OSError:
        return False
    size, correlation_id = struct.unpack(">ii", head)
    return bool(correlation_id == 0 and 0 < size < 1 << 20)


def _check_for_http(info: _AddressInfo, until: Deadline, label: str) -> None:
    """Raises ProtocolFault if a peer that does not encrypt speaks HTTP."""
    try:
        stream = _dial(info, until)
    except OSError:
        return
    place = (label, info[4][1])
    transport = Transport(stream, label, LastFailures(), (place, place))
    try:
        if transport.speaks_http(until):
            raise other_protocol("HTTP", label)
    finally:
        transport.close()


def _positive(deadline: Deadline) -> float:
    """Seconds left for a socket, for which 0 would mean "do not block at all"."""
    return max(deadline.remaining(), 0.001)


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return error.strerror or str(error) or type(error).__name__


def _resolve(host: str, port: int, label: str, deadline: Deadline) -> list[_AddressInfo]:
    """All stream addresses of a host, each once, in the resolver's order.

    The system's resolver has no deadline, so a name is resolved in a thread that is left behind if it hangs.
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
    why = _words(failure[0]) if failure else "the name was not resolved in time"
    failed = BrokerUnavailable(f"cannot resolve {printable(host)}: {why}", broker=label)
    if failure and isinstance(failure[0], socket.gaierror) and failure[0].errno in _NO_SUCH_NAME:
        failed.unknown_hosts = frozenset({host})
    raise failed


def name_exists(host: str, deadline: Deadline) -> bool:
    """Whether a host's name may exist: False only if a name server has answered that it does not."""
    try:
        _resolve(host, 0, host, deadline)
    except BrokerUnavailable as error:
        return host not in error.unknown_hosts
    return True


def _lookup(host: str, port: int, flags: int) -> list[_AddressInfo]:
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError as error:  # a label that is empty or too long for IDNA
        raise OSError(f"not a valid host name: {error}") from error
    return [info for at, info in enumerate(answers) if info[4] not in [earlier[4] for earlier in answers[:at]]]
