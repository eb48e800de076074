"""Quotas, from the client's side: how long a broker asks us to send nothing (how much it was in all:
`client.wire.trace`).

In older versions of an API a broker waits first and answers then; in newer ones it answers at once and expects the
client to wait (KIP-219). A request's class says which ones these are (`CLIENT_WAITS`, read from Java's
`AbstractResponse.shouldClientThrottle`; a test asks the Java client for each API and version); a client that waits
after an older one would wait twice. What has to wait is every request to that broker, over whichever of our
connections: the quota is the client's, not the connection's.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from kseg.client.protocol.api import Api

#: The longest that one answer mutes a broker for. A quota is a rate over seconds: brokers ask for minutes at most.
LONGEST_SECONDS: Final = 600.0

LOG: Final = logging.getLogger(__name__)


class Throttle:
    """The throttle time that one broker has imposed on this client; shared by all connections to that broker."""

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def remaining(self) -> float:
        """Seconds for which nothing is to be sent to the broker."""
        return max(0.0, self._until - time.monotonic())

    def note(self, api: Api[Any], version: int, response: Any) -> None:
        """Apply the throttle time of a response, ten minutes at most. A shorter wait never shortens a longer one."""
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0 and api.request.CLIENT_WAITS.has(version):
            seconds = throttle_ms / 1000
            if seconds > LONGEST_SECONDS:
                LOG.warning(
                    "%s: the broker throttles this client for %.0f s; waiting %.0f s",
                    api.name,
                    seconds,
                    LONGEST_SECONDS,
                )
            self._until = max(self._until, time.monotonic() + min(seconds, LONGEST_SECONDS))

    def take_over(self, other: Throttle) -> None:
        """`other` turned out to be the same broker: a bootstrap server, whose id was not known at first."""
        self._until = max(self._until, other._until)
