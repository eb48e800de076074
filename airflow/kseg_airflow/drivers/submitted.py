"""Drivers that spark-submit hands over to a cluster: what they have in common before and after that."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from kseg_airflow.drivers.local import LocalDriver
from kseg_airflow.outcomes import Look, Outcome

HTTP_TIMEOUT: Final = (5, 30)

#: What Spark's application master says of a Python driver. All other codes in such a text are Spark's (10: no session
#: in time, 11: too many executors failed, 13: no SparkContext, 15: an exception) or a container's (-100, 137): the
#: driver did not decide on them, so the same again may succeed.
_USERS_EXIT_CODE: Final = re.compile(r"User application exited with (?:status )?(\d{1,3})\b")


@dataclass(frozen=True, slots=True)
class Submitted:
    """submission: the handle of spark-submit's own process."""

    submission: dict[str, Any]

    @property
    def submitter(self) -> LocalDriver:
        return LocalDriver(**self.submission)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def log_lines(self, seen: int = 0) -> tuple[list[str], int]:
        """spark-submit's."""
        return self.submitter.log_lines(seen)

    def look(self) -> Look:
        """How the driver ended, or how far it is; neither while spark-submit works. Raises OSError."""
        asked = self.ask()
        if asked is None:
            submitted = self.submitter.poll()
            if submitted is None:
                return Look()
            asked = self.ask()  # it may have been handed over between the two checks
            if asked is None:
                why = "spark-submit has ended, and the cluster has no driver for it"
                return Look(Outcome(submitted.exit_code or None, detail=why))
        outcome = self.outcome_of(*asked)
        return Look(outcome, None if outcome is not None else self.progress_of(*asked))

    def poll(self) -> Outcome | None:
        """How the driver ended; None while it runs, or spark-submit works. Raises OSError."""
        return self.look().outcome

    def found(self) -> str | None:
        """What the cluster calls the driver; None as long as it knows none. Raises OSError."""
        asked = self.ask()
        return asked[0] if asked is not None else None

    def stop(self, grace: float) -> bool:
        """Kill the driver, and spark-submit where it still works. Raises OSError."""
        self.submitter.stop(grace)
        found = self.found()
        if found is not None:
            self.kill(found, grace)
        deadline = time.monotonic() + grace
        while self.poll() is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(1)
        return True

    def stop_detached(self, grace: float) -> bool:
        """The same, the driver first: spark-submit is stopped by a process of its own. Raises OSError."""
        found = self.found()
        if found is not None:
            self.kill(found, grace)
        self.submitter.stop_detached(grace)
        return self.stop(grace)

    def proven_dead(self, owner: str) -> bool:
        """Whether the holder of a lease was this driver, and is no more. Raises OSError."""
        return self.is_owner(owner) and self.poll() is not None

    # What a cluster manager says

    def ask(self) -> tuple[str, Any] | None:
        """What the cluster calls the driver, and what it says of it (None: it knows it no longer), by one request; None
        as long as it knows none. Raises OSError where the cluster does not answer."""
        raise NotImplementedError

    def outcome_of(self, found: str, told: Any) -> Outcome | None:
        """How the driver ended, as `ask` was told; None while it runs."""
        raise NotImplementedError

    def progress_of(self, found: str, told: Any) -> str | None:
        """How far it is, as `ask` was told: a line for a log."""
        raise NotImplementedError

    def kill(self, found: str, grace: float) -> None:
        """Have the cluster kill that one. Raises OSError where it does not respond, or returns an error."""
        raise NotImplementedError

    def is_owner(self, owner: str) -> bool:
        """Whether a name in the ledger is the driver's. Raises OSError."""
        raise NotImplementedError


def exit_code_told(told: str) -> int | None:
    """A failed driver's own exit code from a text about it; None where it has none, or the 0 of something else."""
    found = _USERS_EXIT_CODE.findall(told)
    return int(found[-1]) or None if found else None
