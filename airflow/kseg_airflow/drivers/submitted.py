"""Base class of drivers that spark-submit starts in a cluster."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from kseg_airflow.drivers.local import LocalDriver
from kseg_airflow.exit_codes import DONE, RETRIABLE
from kseg_airflow.outcomes import NOT_EXECUTABLE, NOT_FOUND, Look, Outcome

HTTP_TIMEOUT: Final = (5, 30)

#: What Spark's application master says of a Python driver. All other codes in such a text are Spark's (10: no session
#: in time, 11: too many executors failed, 13: no SparkContext, 15: an exception) or a container's (-100, 137): the
#: driver did not decide on them, so the same again may succeed.
_USERS_EXIT_CODE: Final = re.compile(r"User application exited with (?:status )?(\d{1,3})\b")


@dataclass(frozen=True, slots=True)
class Submitted:
    """submission: the handle of the spark-submit process."""

    submission: dict[str, Any]

    @property
    def submitter(self) -> LocalDriver:
        return LocalDriver(**self.submission)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def log_lines(self, seen: int = 0) -> tuple[list[str], int]:
        """The log lines of spark-submit."""
        return self.submitter.log_lines(seen)

    def look(self) -> Look:
        """The driver's outcome or its progress; neither while spark-submit is running. Raises OSError."""
        asked = self.ask()
        if asked is None:
            submitted = self.submitter.poll()
            if submitted is None:
                return Look()
            asked = self.ask()  # it may have been handed over between the two checks
            if asked is None:
                return Look(_not_submitted(submitted))
        outcome = self.outcome_of(*asked)
        return Look(outcome, None if outcome is not None else self.progress_of(*asked))

    def poll(self) -> Outcome | None:
        """The driver's outcome; None while the driver or spark-submit is running. Raises OSError."""
        return self.look().outcome

    def found(self) -> str | None:
        """The driver's id in the cluster; None while the cluster does not have it. Raises OSError."""
        asked = self.ask()
        return asked[0] if asked is not None else None

    def stop(self, grace: float) -> bool:
        """Kill the driver, and spark-submit if it is still running. Raises OSError."""
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
        """Kill the driver first, then stop spark-submit from a separate process. Raises OSError."""
        found = self.found()
        if found is not None:
            self.kill(found, grace)
        self.submitter.stop_detached(grace)
        return self.stop(grace)

    def proven_dead(self, owner: str) -> bool:
        """Whether this driver was the holder of a lease, and has ended. Raises OSError."""
        return self.is_owner(owner) and self.poll() is not None

    # What a cluster manager says

    def ask(self) -> tuple[str, Any] | None:
        """The driver's id and state in the cluster (state None: the cluster no longer has it), with one request.

        None while the cluster does not have the driver yet. Raises OSError if the cluster does not respond."""
        raise NotImplementedError

    def outcome_of(self, found: str, told: Any) -> Outcome | None:
        """The driver's outcome, from a response of `ask`; None while the driver runs."""
        raise NotImplementedError

    def progress_of(self, found: str, told: Any) -> str | None:
        """The driver's progress, from a response of `ask`, as a log line."""
        raise NotImplementedError

    def kill(self, found: str, grace: float) -> None:
        """Let the cluster kill this driver. Raises OSError if the cluster does not respond, or returns an error."""
        raise NotImplementedError

    def is_owner(self, owner: str) -> bool:
        """Whether a name in the ledger is this driver's name. Raises OSError."""
        raise NotImplementedError


def _not_submitted(submitted: Outcome) -> Outcome:
    """The outcome of a driver that spark-submit has not handed over. Its exit code 1, unlike a driver's, tells of a
    cluster that was not reached as well as of a wrong setting, so the next try may succeed."""
    code = submitted.exit_code
    if submitted.killed or code is None or code == DONE:
        return Outcome(None, detail="spark-submit has ended, and the cluster has no driver for it")
    if code in (NOT_FOUND, NOT_EXECUTABLE):
        what = "was not found" if code == NOT_FOUND else "cannot be executed"
        error = {"message": f"spark-submit {what}", "remedy": "check `spark-binary` of the Spark connection, and PATH"}
    else:
        error = {"message": f"spark-submit ended with exit code {code}, and the cluster has no driver for it"}
        code = RETRIABLE
    return Outcome(code, {"error": error, "exit_code": code})


def exit_code_told(told: str) -> int | None:
    """A failed driver's exit code from a text; None if the text has none, or only the 0 of another process."""
    found = _USERS_EXIT_CODE.findall(told)
    return int(found[-1]) or None if found else None
