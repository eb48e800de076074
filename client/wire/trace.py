"""Trace and count requests and responses on the wire. Of their bodies only the error codes are read.

    17:24:01.123 -> 1 (127.0.0.1:9092) Metadata v13 id=5 bytes=45
    17:24:01.125 <- 1 (127.0.0.1:9092) Metadata v13 id=5 bytes=310 ms=2.1
    17:24:01.204 <- 1 (127.0.0.1:9092) Heartbeat v4 id=6 bytes=16 ms=3.0 throttled_ms=20 error=ILLEGAL_GENERATION
    17:24:31.130 !! 1 (127.0.0.1:9092) Fetch v12 id=7 ms=30001.4 error=RequestTimedOut

`bytes` are those of a whole frame with its size in front, `ms` the time since the request was written. A line holds no
value of a message and no text of an error, so no secret: neither SASL's bytes nor a token's HMAC nor a password.

Lines go to the logger `client.wire.trace` at level DEBUG. `enable` sends them to stderr; where the environment variable
KSEG_TRACE is 1 that happens by itself, in Spark's workers too. Counting is always on: a request and its answer cost a
few microseconds. Tallies are kept for the whole process (`TRAFFIC`), by broker, API and version.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from functools import cache
from typing import IO, TYPE_CHECKING, Any, Final

from kseg.client.protocol.api import api_of
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.schema import Request, Struct

if TYPE_CHECKING:
    from kseg.client.wire.connection import Answer

LOGGER: Final = logging.getLogger("kseg.client.wire.trace")
# A level of its own: `--debug` turns on the client's other loggers, but not the trace.
LOGGER.setLevel(logging.WARNING)

VARIABLE: Final = "KSEG_TRACE"

_enabled: Final[list[logging.Handler]] = []


@dataclass(slots=True)
class Tally:
    """Traffic with one broker for one API and version.

    requests: those that have ended, by a response or without one: what is gained in any time has no more errors than
    requests. bytes_out: of those that were sent. throttled_ms: sum of the responses' throttle times. errors: responses
    with an error code anywhere in them, and requests whose connection broke before their response came.
    """

    requests: int = 0
    responses: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    throttled_ms: int = 0
    errors: int = 0


class Traffic:
    """Tallies by (broker, API, version). Safe to use from several threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._tallies: dict[tuple[str, str, int], Tally] = {}

    def tally(self, broker: str, api: str, version: int) -> Tally:
        """The one tally of these three, to be changed under `lock`."""
        with self.lock:
            return self._tallies.setdefault((broker, api, version), Tally())

    def snapshot(self) -> dict[tuple[str, str, int], Tally]:
        """A copy of all tallies."""
        with self.lock:
            return {key: replace(tally) for key, tally in self._tallies.items()}

    def reset(self) -> None:
        """Begin again, in a process that makes several runs. Connections that are open count on."""
        with self.lock:
            for tally in self._tallies.values():
                tally.requests = tally.responses = tally.bytes_out = tally.bytes_in = 0
                tally.throttled_ms = tally.errors = 0


TRAFFIC: Final = Traffic()


class Tap:
    """The trace of one connection: passes each request and response, in their order, to `TRAFFIC` and the logger."""

    __slots__ = ("_broker", "_open", "_tallies")

    def __init__(self) -> None:
        _enable_by_environment()
        self._broker = ""
        self._tallies: dict[tuple[int, int], tuple[str, Tally]] = {}
        self._open: deque[tuple[str, int, int, float, Tally]] = deque()

    def sent(self, broker: str, request: Request[Any], version: int, correlation_id: int, size: int) -> None:
        """A request was written in whole."""
        if broker != self._broker:  # a bootstrap server has turned out to be a broker
            self._broker = broker
            self._tallies.clear()
        known = self._tallies.get((request.KEY, version))
        if known is None:
            name = api_of(request).name
            known = self._tallies[request.KEY, version] = name, TRAFFIC.tally(broker, name, version)
        name, tally = known
        with TRAFFIC.lock:
            tally.requests += not request.is_answered
            tally.bytes_out += size
        if request.is_answered:
            self._open.append((name, version, correlation_id, time.monotonic(), tally))
        if LOGGER.isEnabledFor(logging.DEBUG):
            _log("->", broker, name, version, correlation_id, f"bytes={size}")

    def received(self, broker: str, answer: Answer) -> None:
        """An answer came in whole; it belongs to the oldest open request."""
        name, version, correlation_id, since, tally = self._open.popleft()
        throttled_ms = getattr(answer.response, "throttle_time_ms", 0)
        refused = holds_error(answer.response)
        with TRAFFIC.lock:
            tally.requests += 1
            tally.responses += 1
            tally.bytes_in += answer.size
            tally.throttled_ms += throttled_ms
            tally.errors += refused
        if LOGGER.isEnabledFor(logging.DEBUG):
            details = [f"bytes={answer.size}", f"ms={(time.monotonic() - since) * 1000:.1f}"]
            if throttled_ms:
                details.append(f"throttled_ms={throttled_ms}")
            errors = sorted({ErrorCode.of(code).name for _, code in error_codes(answer.response)})
            if errors:
                details.append(f"error={','.join(errors)}")
            _log("<-", broker, name, version, correlation_id, *details)

    def failed(self, broker: str, error: BaseException) -> None:
        """The connection is given up; the oldest open request (if there is one) is reported as the failed one."""
        if LOGGER.isEnabledFor(logging.DEBUG):
            details = f"error={type(error).__name__}"
            if self._open:
                name, version, correlation_id, since, _ = self._open[0]
                _log(
                    "!!", broker, name, version, correlation_id, f"ms={(time.monotonic() - since) * 1000:.1f}", details
                )
            else:
                LOGGER.debug("%s !! %s %s", _now(), broker, details)
        with TRAFFIC.lock:
            for *_, tally in self._open:
                tally.requests += 1
                tally.errors += 1
        self._open.clear()


def enable(stream: IO[str] | None = None) -> logging.Handler:
    """Send the lines to `stream` (None: stderr) from now on; `disable` with the returned handler ends that."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOGGER.addHandler(handler)
    _enabled.append(handler)
    LOGGER.propagate = False
    LOGGER.setLevel(logging.DEBUG)
    return handler


def disable(handler: logging.Handler) -> None:
    """Undo one `enable`."""
    LOGGER.removeHandler(handler)
    _enabled.remove(handler)
    if not _enabled:
        LOGGER.propagate = True
        LOGGER.setLevel(logging.WARNING)


def holds_error(message: Struct) -> bool:
    """Whether a message has an error code other than 0 anywhere. Skips fields that cannot have one."""
    own, nested = _places_of_errors(type(message))
    for name in own:
        if getattr(message, name):
            return True
    for name in nested:
        inner = getattr(message, name)
        if isinstance(inner, list):
            if any(map(holds_error, inner)):
                return True
        elif inner is not None and holds_error(inner):
            return True
    return False


@cache
def _places_of_errors(kind: type[Struct]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields of a message's class that have error codes, and its fields that may have structs with error codes."""
    own = tuple(field.name for field in kind.FIELDS if field.kind == "int16" and field.name.endswith("error_code"))
    nested = tuple(
        field.name
        for field in kind.FIELDS
        if isinstance(field.of, type) and issubclass(field.of, Struct) and any(_places_of_errors(field.of))
    )
    return own, nested


def error_codes(value: Any, path: str = "") -> list[tuple[str, int]]:
    """Every error code other than 0 in a message, with its path: (`topics[0].error_code`, 3)."""
    found: list[tuple[str, int]] = []
    if isinstance(value, Struct):
        for field in value.FIELDS:
            where = f"{path}.{field.name}" if path else field.name
            if field.kind == "int16":
                code = getattr(value, field.name)
                if code and field.name.endswith("error_code"):
                    found.append((where, code))
            elif field.kind == "struct" or isinstance(field.of, type):
                found += error_codes(getattr(value, field.name), where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += error_codes(item, f"{path}[{index}]")
    return found


def _log(direction: str, broker: str, name: str, version: int, correlation_id: int, *details: str) -> None:
    LOGGER.debug(
        "%s %s %s %s v%d id=%d %s", _now(), direction, broker, name, version, correlation_id, " ".join(details)
    )


def _now() -> str:
    now = time.time()
    return f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now * 1000) % 1000:03d}"


def _enable_by_environment() -> None:
    if not _enabled and os.environ.get(VARIABLE, "0") not in ("", "0"):
        enable(sys.stderr)
