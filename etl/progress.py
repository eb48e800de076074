"""What a run tells about its progress while it works, without knowing who listens.

The command line shows it as a bar or as plain lines; an orchestrator may count it; `NULL_PROGRESS` drops it. Calls come
from the driver only, and cost nothing worth measuring, so callers need not throttle them.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

Unit = Literal["rows", "bytes", "tasks", "partitions"]


@runtime_checkable
class Progress(Protocol):
    """Listener of one run. Phases follow each other; a total and advances belong to the phase they come in."""

    def phase(self, name: str) -> None:
        """A new phase begins (`plan`, `land`, `account`, `commit` …); the one before is over."""

    def total(self, amount: int, unit: Unit = "rows") -> None:
        """How much this phase has to do; may be told again when it turns out otherwise."""

    def advance(self, amount: int = 1) -> None:
        """So much more of the total is done."""

    def message(self, text: str) -> None:
        """One line worth a person's eye (a run taken up, a lost range recorded)."""


class NullProgress:
    """Nobody listens."""

    def phase(self, name: str) -> None:
        pass

    def total(self, amount: int, unit: Unit = "rows") -> None:
        pass

    def advance(self, amount: int = 1) -> None:
        pass

    def message(self, text: str) -> None:
        pass


NULL_PROGRESS = NullProgress()
