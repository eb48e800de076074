"""Which brokers and addresses failed last, so that the others are tried before them.

Java's client does this in two places: `leastLoadedNode` leaves out brokers in reconnect backoff, and after a connection
that was not established, whatever the reason, the next one goes to the next address of the broker's name (KIP-302).
"""

from __future__ import annotations

import time


class LastFailures:
    """When each (host, port) last failed, until a connection there is served again: it is negotiated and logged in.

    The host is a broker's, as advertised or configured, or one of the addresses that it resolves to.
    """

    def __init__(self) -> None:
        self._at: dict[tuple[str, int], float] = {}

    def add(self, *places: tuple[str, int]) -> None:
        self._at.update(dict.fromkeys(places, time.monotonic()))

    def discard(self, *places: tuple[str, int]) -> None:
        for place in places:
            self._at.pop(place, None)

    def at(self, host: str, port: int) -> float:
        """Monotonic time of the last failure in seconds, 0.0 if there is none: the lowest is to be tried first."""
        return self._at.get((host, port), 0.0)
