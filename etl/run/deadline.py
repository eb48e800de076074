"""The moment at which a command stops retrying and waiting: `run.deadline` after it opened the job.

Work is not cut off: a run that reads for hours goes on. What ends here is waiting: retries of a step, the wait for the
lease of a table, the contest with runs that fence this one. Each asks for what is left, so that several of them in a
row take no longer than one. What begins after the moment is tried once.
"""

from __future__ import annotations

import time
from datetime import timedelta


class RunDeadline:
    """after: how long from now on (`run.deadline` of the job file)."""

    def __init__(self, after: timedelta) -> None:
        self._ends = time.monotonic() + after.total_seconds()

    def left(self) -> timedelta:
        """The time until the moment; zero once it has passed."""
        return timedelta(seconds=max(0.0, self._ends - time.monotonic()))

    @property
    def passed(self) -> bool:
        """Whether nothing is tried again."""
        return not self.left()
