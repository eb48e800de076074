"""Free loopback ports.

They are taken below the range from which the kernel gives ports to outgoing connections: a node that is stopped and
started again needs its own port back, which a client's connection could else have got meanwhile.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable

from kseg.jobs.broker.errors import StartFailed
from kseg.jobs.broker.properties import HOST

_RANGE = range(20_000, 32_000)
_TRIES = 3
_TAKEN = ("Address already in use", "java.net.BindException")


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """So many different ports that are free now. Another process can still be faster: a failed start picks others."""
    chosen: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise StartFailed(f"No {count} free ports on {HOST} in {_RANGE.start}-{_RANGE.stop}.", remedy="End other servers.")


def on_free_ports(start: Callable[[], None], clear: Callable[[], None]) -> None:
    """Call `start`, which takes free ports; if another program took one first, `clear` up and start on others.

    Raises StartFailed: for another reason, or again and again.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            start()
            return
        except StartFailed as failure:
            clear()
            if attempt == _TRIES or not any(text in failure.message for text in _TAKEN):
                raise
