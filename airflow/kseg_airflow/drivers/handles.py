"""A driver that runs somewhere, as values that a trigger and a run folder can keep."""

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

    One that can be asked without a thread has `alook` and `astop` as well, which the triggerer awaits.
    """

    @property
    def kind(self) -> str:
        """Which kind of driver: `handle_of` reads it."""

    def to_json(self) -> dict[str, Any]:
        """What finds it again, without a secret in it."""

    def poll(self) -> Outcome | None:
        """How it ended; None while it runs. May raise OSError where the status cannot be read at the moment."""

    def look(self) -> Look:
        """How it ended, or how far it is; a cluster is asked once. May raise OSError."""

    def log_lines(self, seen: int = 0) -> tuple[list[str], int]:
        """What can be seen from here of what it wrote after `seen`, and where more begins. May raise OSError."""

    def stop(self, grace: float) -> bool:
        """Stop it. Returns whether it is gone. May raise OSError."""

    def stop_detached(self, grace: float) -> bool:
        """The same for a caller who may be killed before the grace is over: whatever is left to do then is done."""

    def is_owner(self, owner: str) -> bool:
        """Whether a name in the ledger (of a lease, of a run) is this driver's. May raise OSError."""

    def proven_dead(self, owner: str) -> bool:
        """Whether the holder of a lease was this driver, and is no more. May raise OSError."""


@dataclass(frozen=True, slots=True)
class Pause:
    """No driver but a wait for a time: until the lease of a dead run is over."""

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
