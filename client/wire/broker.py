"""One connection to one broker: a transport, the sans-IO connection, and the negotiated versions.

The versions that a broker supports are requested once per connection, and apply only to this connection
(`client.wire.negotiation`); no other version is ever sent.

Requests are pipelined: `send` returns at once, `receive` returns the response to the oldest request. After any error in
between, the connection is closed, because a late response would be taken for that to another request.

After a throttled response (KIP-219), the next request to this broker waits for the time that the broker demands, on all
of our connections to it (`client.wire.throttle`). `client.fetch.partition_reader` checks `muted_for` before it sends,
so that it can decode meanwhile instead of sleeping.

The attribute `sent` of an error shows whether the broker may have executed the request: it was written completely, but
the response did not arrive.

Order on the wire: TLS, ApiVersions, SASL, then everything else. If a session expires, `send` authenticates again before
that (`client.security.authenticate`); responses to earlier requests that arrive meanwhile are kept for `receive`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from kseg.client.config import ClientConfig
from kseg.client.errors import BrokerUnavailable, KafkaError, RequestTimedOut, UnsupportedVersion
from kseg.client.protocol.api import api_of
from kseg.client.protocol.errors import UnsupportedVersionError
from kseg.client.protocol.schema import Request, Response
from kseg.client.protocol.versions import negotiate
from kseg.client.retry import Deadline
from kseg.client.security.authenticate import LOGIN_INTERVAL, NEVER, log_in, refuse_without_sasl
from kseg.client.wire.connection import MAX_FRAME, Connection
from kseg.client.wire.failures import LastFailures, other_protocol
from kseg.client.wire.negotiation import (
    BrokerVersions,
    SilentBrokers,
    assumed_versions,
    may_be_too_old,
    negotiate_versions,
)
from kseg.client.wire.throttle import Throttle
from kseg.client.wire.trace import Tap
from kseg.client.wire.transport import Transport

R = TypeVar("R", bound=Response)

#: After so long without a response to the first request, a server of another protocol may be listening.
_SILENCE_SECONDS: Final = 2.0

#: From this size on a request is named as a possible reason when the broker closes the connection.
LARGE_REQUEST: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker's host and port; `node_id` is None for a bootstrap server, whose id is not known yet."""

    host: str
    port: int
    node_id: int | None = None

    def __str__(self) -> str:
        address = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        return address if self.node_id is None else f"{self.node_id} ({address})"


class BrokerConnection:
    """A connection with negotiated versions. Created by `open`."""

    def __init__(
        self,
        endpoint: Endpoint,
        config: ClientConfig,
        transport: Transport,
        connection: Connection,
        throttle: Throttle | None = None,
        silent: SilentBrokers | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.label = str(endpoint)
        self.versions = BrokerVersions({}, {})
        self.closed = False
        self.throttle = throttle or Throttle()
        self._silent = SilentBrokers() if silent is None else silent
        self._config = config
        self._transport = transport
        self._connection = connection
        self._last_used = time.monotonic()
        self._login_ends = NEVER
        self._logged_in = 0.0
        self._early: deque[Any] = deque()
        self._served = False
        self._tap = Tap()

    @classmethod
    def open(
        cls,
        endpoint: Endpoint,
        config: ClientConfig,
        *,
        deadline: Deadline,
        max_frame: int = MAX_FRAME,
        throttle: Throttle | None = None,
        silent: SilentBrokers | None = None,
        last_failures: LastFailures | None = None,
    ) -> BrokerConnection:
        """Connect, request the broker's versions, and authenticate.

        `throttle`: shared by all connections to this broker; a new one if None. `silent`: brokers that are known not to
        answer ApiVersions; with `broker.version.fallback` they get no further ApiVersions, and new ones are added here.
        `last_failures`: see `Transport.connect`; the connection's failures are added later, too.

        Raises BrokerUnavailable, RequestTimedOut, ProtocolFault, AuthenticationFailed; ConfigError for a store's file.
        """
        connection = cls._connect(endpoint, config, deadline, throttle, silent, last_failures)
        try:
            if not connection._negotiate(deadline):
                connection.close()
                connection = cls._connect(endpoint, config, deadline, throttle, connection._silent, last_failures)
                connection._assume_versions()
                connection._silent.add(endpoint.host, endpoint.port)
            connection._log_in(deadline)
        except BaseException as error:
            if isinstance(error, KafkaError):
                error.sent = False  # what the caller wants to send was not sent
            connection.close()
            raise
        connection._transport.served()
        connection._connection.max_frame = max_frame
        return connection

    @classmethod
    def _connect(
        cls,
        endpoint: Endpoint,
        config: ClientConfig,
        deadline: Deadline,
        throttle: Throttle | None,
        silent: SilentBrokers | None,
        last_failures: LastFailures | None = None,
    ) -> BrokerConnection:
        label = str(endpoint)
        try:
            transport = Transport.connect(
                endpoint.host,
                endpoint.port,
                label=label,
                deadline=deadline,
                address_timeout=config.connection_setup_timeout_ms / 1000,
                receive_buffer=config.receive_buffer_bytes,
                send_buffer=config.send_buffer_bytes,
                tls=config.security.tls,
                last_failures=last_failures,
            )
        except BrokerUnavailable as error:
            if endpoint.node_id is not None:
                error.advertised = ((endpoint.host, endpoint.port),)
            raise
        # The small limit applies until the peer has shown that it speaks the Kafka protocol.
        return cls(endpoint, config, transport, Connection(config.client_id, broker=label), throttle, silent)

    def _negotiate(self, deadline: Deadline) -> bool:
        """Request the broker's versions; False if it seems too old for ApiVersions (then close this connection)."""
        if self._config.broker_version_fallback is None:
            self.versions = negotiate_versions(_FirstContact(self), deadline)
            return True
        at = (self.endpoint.host, self.endpoint.port)
        if self._silent.has(*at):
            self._assume_versions()
            return True
        began = time.monotonic()
        longest = self._config.api_version_request_timeout_ms / 1000 - self._silent.waited(*at)
        try:
            self.versions = negotiate_versions(self, deadline.within(max(0.0, longest)))
        except KafkaError as error:
            if not may_be_too_old(error):
                raise
            self._silent.wait(*at, time.monotonic() - began)
            if deadline.passed:
                raise  # too early to know; the next connection waits for what is missing
            return False
        self._silent.discard(*at)
        return True

    def _call_first(self, request: Request[R], version: int, deadline: Deadline) -> R:
        """`call` for the first request. While there is no response, it is found out whether a web server listens."""
        until = deadline.within(self._config.request_timeout_ms / 1000)
        self.send(request, version, deadline=until)
        answer = self.receive_by(deadline=until.within(_SILENCE_SECONDS))
        if answer is None:
            if not until.passed and self._silent.first_probe(self.endpoint.host, self.endpoint.port):
                self._check_for_http(until.within(_SILENCE_SECONDS))
            answer = self.receive(deadline=until)
        return cast(R, answer)

    def _check_for_http(self, deadline: Deadline) -> None:
        """Raises ProtocolFault if HTTP is spoken here: some servers wait for the end of a line for ever."""
        try:
            other = self._connect(self.endpoint, self._config, deadline, None, self._silent)
        except KafkaError:
            return
        with other:
            if other._transport.speaks_http(deadline):
                raise other_protocol("HTTP", self.label)

    def _assume_versions(self) -> None:
        assert self._config.broker_version_fallback is not None
        self.versions = assumed_versions(self._config.broker_version_fallback)

    def __enter__(self) -> BrokerConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True
        self._transport.close()

    def fail(self) -> None:
        """Close it, and try other brokers before this one: for a response that `poll` has not found in time.

        After other errors the connection does this itself.
        """
        self._transport.failed()
        self.close()

    def rename(self, endpoint: Endpoint, throttle: Throttle) -> None:
        """Set the broker that listens here, when metadata has shown it; `throttle` is that broker's."""
        throttle.take_over(self.throttle)
        self.throttle = throttle
        self.endpoint = endpoint
        self.label = self._transport.label = str(endpoint)

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for a response."""
        return self._connection.open + len(self._early)

    @property
    def usable(self) -> bool:
        """Whether the connection may be used: open, and not idle for so long that the broker may soon close it."""
        idle = self._config.connections_max_idle_ms
        return not self.closed and (idle < 0 or (time.monotonic() - self._last_used) * 1000 < idle)

    @property
    def muted_for(self) -> float:
        """Seconds for which nothing may be sent to this broker after a throttled response."""
        return self.throttle.remaining

    def offers(self, request: type[Request[Any]], version: int = 0) -> bool:
        """Whether the broker has this API at this version or a later one."""
        found = self.versions.ranges.get(request.KEY)
        return found is not None and found[1] >= version

    def version_of(
        self,
        request: type[Request[Any]],
        *,
        topic_ids_known: bool = False,
        finalized_features: dict[str, int] | None = None,
        transactional: bool = True,
    ) -> int:
        """The version to send; see `client.protocol.versions` for what it depends on.

        `finalized_features` overrides that of the broker: a transaction keeps those it began with.
        Raises UnsupportedVersion.
        """
        features = self.versions.finalized_features if finalized_features is None else finalized_features
        try:
            return negotiate(
                api_of(request),
                self.versions.ranges,
                finalized_features=features,
                topic_ids_known=topic_ids_known,
                transactional=transactional,
            )
        except UnsupportedVersionError as error:
            raise UnsupportedVersion(str(error), broker=self.label) from error

    def send(self, request: Request[Any], version: int, *, deadline: Deadline) -> None:
        """Send without waiting for the response; waits as long as the broker throttles this client.

        A Produce with acks=0 has no response: do not call `receive` for it. Raises UnsupportedVersion for a version
        that the broker does not support.
        """
        self._require_open()
        if time.monotonic() >= self._login_ends:
            self._log_in_again(deadline)
        api = api_of(request)
        if not self.versions.has(api.key, version):
            raise UnsupportedVersion(f"{api.name} v{version} is not supported by this broker", broker=self.label)
        self._wait_until_unmuted(deadline)
        data = self._connection.request(api, version, request)
        try:
            self._transport.send(data, deadline)
        except BaseException as error:
            _add_size(error, f"{api.name} v{version} ({len(data)} bytes)", len(data))
            self._tap.failed(self.label, error)
            self.fail()
            raise
        self._tap.sent(self.label, request, version, self._connection.last_correlation_id, len(data))
        self._last_used = time.monotonic()

    def receive(self, *, deadline: Deadline) -> Any:
        """The response to the oldest pending request. Any error closes the connection."""
        if self._early:
            return self._early.popleft()
        return self._receive(deadline)

    def receive_by(self, *, deadline: Deadline) -> Any | None:
        """`receive` for a response that may take minutes (JoinGroup): None if it is not there yet; call it again."""
        return self._early.popleft() if self._early else self._receive(deadline, patient=True)

    def poll(self) -> Any | None:
        """The response to the oldest pending request if it has fully arrived, else None. Never waits. See `receive`."""
        return self._early.popleft() if self._early else self._read(self._transport.receive_now)

    @property
    def has_answer(self) -> bool:
        """Whether `poll` can return a response that was already read from the socket."""
        return bool(self._early) or self._transport.pending

    def fileno(self) -> int:
        """The descriptor to wait for, together with others, until there is something to `poll`."""
        return self._transport.fileno()

    def _receive(self, deadline: Deadline, *, patient: bool = False) -> Any:
        return self._read(lambda target: self._transport.receive_into(target, deadline), patient=patient)

    def _read(self, read: Callable[[memoryview], int], *, patient: bool = False) -> Any:
        """`read` returns how many bytes it read; 0: nothing at the moment."""
        self._require_open()
        connection = self._connection
        try:
            answer = None
            while answer is None:
                count = read(connection.wanted())
                if count == 0:
                    return None
                answer = connection.received(count)
        except BaseException as error:
            if patient and isinstance(error, RequestTimedOut):
                return None  # the connection keeps the received part of the response
            if isinstance(error, KafkaError):
                error.sent = True
            if connection.oldest is not None:
                _add_size(error, str(connection.oldest), connection.oldest.size)
            self._tap.failed(self.label, error)
            if self.versions.assumed:
                self._silent.discard(self.endpoint.host, self.endpoint.port)
            self.fail()
            if isinstance(error, BrokerUnavailable) and self._may_want_sasl:
                refuse_without_sasl(self._ask_for_sasl, self._config.security.protocol, self.label, error)
            raise
        self._last_used = time.monotonic()
        self._served = self._served or answer.request.api.name != "ApiVersions"
        self._tap.received(self.label, answer)
        self.throttle.note(answer.request.api, answer.request.version, answer.response)
        return answer.response

    def call(self, request: Request[R], version: int, *, deadline: Deadline) -> R:
        """Send one request and wait for its response, for `request.timeout.ms` at most.

        A Produce with acks 0 has no response: returns None after the request is written.
        """
        self._require_open()
        if self.in_flight:
            raise RuntimeError("call() between send() and receive() would take another request's response")
        self._wait_until_unmuted(deadline)
        until = deadline.within(self._config.request_timeout_ms / 1000)
        self.send(request, version, deadline=until)
        return cast(R, self.receive(deadline=until) if request.is_answered else None)

    def _log_in(self, deadline: Deadline) -> None:
        sasl = self._config.security.sasl
        if sasl is not None:
            self._login_ends = NEVER  # requests of the authentication must not start another one
            self._login_ends = log_in(sasl, self, self._transport, host=self.endpoint.host, deadline=deadline)
            self._logged_in = time.monotonic()

    @property
    def _may_want_sasl(self) -> bool:
        """Whether a bootstrap server, without a login, has answered ApiVersions and nothing else yet."""
        unknown = self.endpoint.node_id is None and self._config.security.sasl is None
        return unknown and bool(self.versions.ranges) and not self._served

    def _ask_for_sasl(self, request: Request[Any], deadline: Deadline) -> Any:
        with self._connect(self.endpoint, self._config, deadline, None, self._silent) as other:
            other.versions, other._served = self.versions, True
            return other.call(request, 0, deadline=deadline)

    def _log_in_again(self, deadline: Deadline) -> None:
        """Authenticate again (KIP-368). The broker does this after all earlier requests, so their responses come first.

        The broker accepts one authentication a second, by the time at which it reads the handshake: a second after the
        end of the last one is never too early. If a session is shorter, the next request waits.
        """
        answers = list(self._early)
        self._early.clear()
        try:
            while self._connection.open:
                answers.append(self._receive(deadline))
            time.sleep(min(max(0.0, self._logged_in + LOGIN_INTERVAL - time.monotonic()), deadline.remaining()))
            self._log_in(deadline)
        except BaseException as error:
            self.close()
            if isinstance(error, KafkaError):
                error.sent = False  # not the request that is about to be sent
            raise
        self._early.extend(answers)

    def _wait_until_unmuted(self, deadline: Deadline) -> None:
        pause = self.muted_for
        if pause > deadline.remaining():
            raise RequestTimedOut(f"the broker throttles this client for {pause:.1f} s more", broker=self.label)
        if pause:
            time.sleep(pause)

    def _require_open(self) -> None:
        if self.closed:
            raise BrokerUnavailable("the connection is closed", broker=self.label)


class _FirstContact:
    """A connection whose peer has not shown yet that it is a broker, as negotiation needs it."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.label = connection.label
        self._connection = connection

    def call(self, request: Request[R], version: int, *, deadline: Deadline) -> R:
        return self._connection._call_first(request, version, deadline)


def _add_size(error: BaseException, request: str, size: int) -> None:
    """Add to the error which request was pending when the connection broke; a large request may be the reason."""
    if not isinstance(error, BrokerUnavailable):
        return
    error.message += f", while {request} was in flight"
    if size >= LARGE_REQUEST:
        error.message += (
            "; a broker closes the connection if a request is larger than its socket.request.max.bytes: "
            "send less at once, or raise that setting"
        )
