"""The interface through which a run reports its progress to listeners.

The command line shows it as bars or as plain lines; an orchestrator may count it; a recorder keeps it for reports;
`NULL_PROGRESS` drops it. Calls come from the driver only, and are so cheap that callers need not throttle them.

The driver learns of the progress of a task only when the task ends, because Spark then sends its accumulators, in local
mode and on clusters. This needs no connection from workers to the driver besides Spark's own. So a progress bar
advances task by task; the size of a task is limited by `source.max_records_per_task`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from kseg.etl.telemetry.events import RunEvent

Unit = Literal["rows", "offsets", "bytes", "tasks", "partitions"]


@runtime_checkable
class Progress(Protocol):
    """Listener of one run. Phases follow each other; a total and advances belong to the phase they come in."""

    def phase(self, name: str) -> None:
        """A new phase begins (`plan`, `land`, `account`, `commit` …); the one before is over."""

    def total(self, amount: int, unit: Unit = "rows") -> None:
        """The amount of work in this phase; may be called again with a corrected amount."""

    def advance(self, amount: int = 1) -> None:
        """This much more of the total is done. May be called from a thread."""

    def message(self, text: str) -> None:
        """One line for the user (an unfinished run is continued, a lost range is recorded)."""

    def event(self, event: RunEvent) -> None:
        """Something has happened: see `etl.telemetry.events`. May be called from a thread."""


class NullProgress:
    """A listener that ignores everything. Other listeners override the methods that they need."""

    def phase(self, name: str) -> None:
        pass

    def total(self, amount: int, unit: Unit = "rows") -> None:
        pass

    def advance(self, amount: int = 1) -> None:
        pass

    def message(self, text: str) -> None:
        pass

    def event(self, event: RunEvent) -> None:
        pass


NULL_PROGRESS = NullProgress()


class Listeners:
    """Several listeners as one; each call goes to all of them, in their order."""

    def __init__(self, listeners: Sequence[Progress]) -> None:
        self._listeners = tuple(listeners)

    def phase(self, name: str) -> None:
        for listener in self._listeners:
            listener.phase(name)

    def total(self, amount: int, unit: Unit = "rows") -> None:
        for listener in self._listeners:
            listener.total(amount, unit)

    def advance(self, amount: int = 1) -> None:
        for listener in self._listeners:
            listener.advance(amount)

    def message(self, text: str) -> None:
        for listener in self._listeners:
            listener.message(text)

    def event(self, event: RunEvent) -> None:
        for listener in self._listeners:
            listener.event(event)
