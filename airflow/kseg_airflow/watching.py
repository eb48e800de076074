"""A task that waits in a worker: it polls its driver, and shows the driver's lines as its own."""

from __future__ import annotations

import time
from typing import Any, Final

from kseg_airflow.drivers.handles import Handle
from kseg_airflow.drivers.local import LocalDriver
from kseg_airflow.drivers.submitted import Submitted
from kseg_airflow.outcomes import Outcome
from kseg_airflow.triggers import FAILED_LOOKS

_LOG_LINES_SHOWN: Final = 5_000
_SECONDS_BETWEEN_LOOKS: Final = 1.0


def watch(handle: Handle, poll_interval: float, log: Any) -> tuple[Outcome, int]:
    """Poll the driver until it has ended, and log its progress. Returns its end, and how far its log was shown.

    Raises:
        OSError: its status could not be read, many times in a row.
    """
    shown, failed = 0, 0
    said: str | None = None
    while True:
        try:
            (outcome, line), failed = handle.look(), 0
        except OSError as error:  # the status cannot be read at the moment
            outcome, line, failed = None, None, failed + 1
            log.warning("cannot get the driver's status: %s", error)
            if failed >= FAILED_LOOKS:
                raise
        if isinstance(handle, LocalDriver):
            lines, shown = handle.log_lines(shown)
            for text in lines:
                log.info("%s", text)
        elif outcome is None and line is not None and line != said:
            said = line
            log.info("kseg: %s", line)
        if outcome is not None:
            return outcome, shown
        time.sleep(poll_interval)


def outcome_so_far(handle: Handle, log: Any) -> Outcome | None:
    """The driver's outcome; None while it runs, or where one look does not show it: whoever follows it looks again."""
    try:
        return handle.poll()
    except OSError as error:
        log.warning("cannot get the driver's status: %s", error)
        return None


def wait_for_submission(driver: Submitted) -> None:
    """Wait until spark-submit has ended; that the cluster knows the driver is too early, since on Kubernetes what the
    driver's pod mounts is created after the pod."""
    while driver.submitter.poll() is None:
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def show_rest(handle: Handle, shown: int, log: Any) -> None:
    """Log the driver's lines that were not shown yet, the last ones where there are many."""
    try:
        lines, _ = handle.log_lines(shown)
    except OSError as error:
        log.warning("the driver's log cannot be read: %s", error)
        return
    if len(lines) > _LOG_LINES_SHOWN:
        log.info("%d lines left out; the driver: %s", len(lines) - _LOG_LINES_SHOWN, where(handle))
    for line in lines[-_LOG_LINES_SHOWN:]:
        log.info("%s", line)


def where(handle: Handle) -> str:
    """The place of a driver, for a log."""
    return ", ".join(f"{key} {value}" for key, value in handle.to_json().items() if key not in ("place", "began"))
