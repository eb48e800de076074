"""A network between drivers and brokers, store and registry that is slow, breaks connections and swallows bytes.

Drivers and their tasks reach all of them through a proxy (`harness/tcp_proxy.py`); producers and the oracle go past it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from fault_suite import drivers
from fault_suite.schedule import Action, Lane
from fault_suite.world import World
from tcp_proxy import TcpProxy, Trouble

ALLOWED = drivers.ALLOWED | {"try again"}

TROUBLES: dict[str, Callable[[random.Random], Trouble]] = {
    "latency": lambda choice: Trouble(latency=choice.uniform(0.05, 0.8)),
    "throttling": lambda choice: Trouble(rate=choice.choice([2_000, 20_000, 200_000])),
    "resets in the middle of a frame": lambda choice: Trouble(reset_after=choice.choice([1, 3, 50, 700, 9_000])),
    "connections refused": lambda _: Trouble(refused=True),
    "half-open connections": lambda _: Trouble(half_open=True),
    "black hole": lambda _: Trouble(silent=True),
    "black hole, then resets": lambda _: Trouble(silent=True),
}

PLACES = ("one broker", "all brokers", "store", "registry", "everything")

LANES = (
    Lane("scheduled", {"ingest": 1}, interrupted=0.15),
    Lane("others", {"backfill": 3, "repeat a backfill": 3, "maintain": 1}, interrupted=0.15),
    drivers.INTERVALS,
    drivers.DECODED,
    Lane("network", {f"{trouble}: {place}": 1 for trouble in TROUBLES for place in PLACES}, in_turn=True),
)


class Network:
    """brokers, store, registry: ports behind the proxy."""

    def __init__(self, proxy: TcpProxy, brokers: list[int], store: int, registry: int) -> None:
        self._proxy = proxy
        self._brokers, self._store, self._registry = brokers, store, registry

    @property
    def perform(self) -> dict[str, Any]:
        return {**drivers.PERFORM, **dict.fromkeys(LANES[-1].weights, self._hold)}

    def _hold(self, world: World, action: Action) -> None:
        """Trouble for some seconds, half of the times longer than a request waits; then it is well for a moment."""
        choice = world.choose(action)
        kind, _, place = action.what.partition(": ")
        self._proxy.hold(TROUBLES[kind](choice), self._ports(place, choice))
        world.over.wait(choice.choice([choice.uniform(1, 5), choice.uniform(5, 20)]))
        touched = self._proxy.touched
        self._proxy.heal(reset=kind.endswith("then resets"))
        if touched:
            world.injected(action.what)
        world.over.wait(choice.uniform(0, 3))

    def _ports(self, place: str, choice: random.Random) -> list[int]:
        ports = {
            "one broker": [choice.choice(self._brokers)],
            "all brokers": self._brokers,
            "store": [self._store],
            "registry": [self._registry],
        }
        return ports.get(place, [*self._brokers, self._store, self._registry])
