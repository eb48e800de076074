"""Handles of started drivers: values that a trigger or a run folder stores, to poll and stop the driver later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from kseg_airflow.drivers.kubernetes import KubernetesDriver
from kseg_airflow.drivers.livy import LivyDriver
from kseg_airflow.drivers.local import LocalDriver
from kseg_airflow.drivers.yarn import YarnDriver
from kseg_airflow.outcomes import Look, Outcome


class Handle(Protocol):
    """A driver that was started.

    Handles that support asyncio also have `alook` and `astop`, which the triggerer awaits.
    """

    @property
    def kind(self) -> str:
        """The kind of driver, by which `handle_of` selects the class."""

    def to_json(self) -> dict[str, Any]:
        """The values from which `handle_of` makes the handle again; they contain no secrets."""

    def poll(self) -> Outcome | None:
        """The driver's outcome; None while it runs. Raises OSError if the status cannot be read at the moment."""

    def look(self) -> Look:
        """The driver's outcome, or its progress while it runs; sends one request to a cluster. May raise OSError."""

    def log_lines(self, seen: int = 0) -> tuple[list[str], int]:
        """The lines of the driver's log after position `seen`, if they can be read from this machine, and the position
        after them. May raise OSError."""

    def stop(self, grace: float) -> bool:
        """Stop the driver. Returns whether it has ended. May raise OSError."""

    def stop_detached(self, grace: float) -> bool:
        """Like `stop`, for a caller that may be killed during the grace period: the driver is stopped nevertheless."""

    def is_owner(self, owner: str) -> bool:
        """Whether a name in the ledger (of a lease, of a run) is this driver's. May raise OSError."""

    def proven_dead(self, owner: str) -> bool:
        """Whether the owner of a lease was this driver, and has certainly ended. May raise OSError."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Not a driver, but a wait until a time: when the lease of a dead run has expired."""

    until: str
    kind: str = "pause"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def poll(self) -> Outcome | None:
        return Outcome(0) if datetime.now(UTC) >= datetime.fromisoformat(self.until) else None

    def look(self) -> Look:
        return Look(self.poll())

    def log_lines(self, seen: int = 0) -> tuple[list[str], int]:
        return [], seen

    def stop(self, grace: float) -> bool:
        return True

    def stop_detached(self, grace: float) -> bool:
        return True

    def is_owner(self, owner: str) -> bool:
        return False

    def proven_dead(self, owner: str) -> bool:
        return False


def handle_of(values: Mapping[str, Any]) -> Handle:
    """The inverse of `to_json`."""
    kinds: dict[str, Any] = {
        "process": LocalDriver,
        "pause": Pause,
        "yarn": YarnDriver,
        "kubernetes": KubernetesDriver,
        "livy": LivyDriver,
    }
    handle: Handle = kinds[values["kind"]](**values)
    return handle
