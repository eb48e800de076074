"""Processes that outlive the command that started them, as a file remembers them.

A process id may have been reused by another program, so each has the time at which its process began.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

from kseg.jobs.broker.errors import LocalServerError

STOP_TIMEOUT = 30.0
_PAUSE = 0.05


def began(pid: int) -> float:
    """The time at which a process was created, in seconds since the epoch."""
    return psutil.Process(pid).create_time()


def live_process(pid: int, began: float) -> psutil.Process | None:
    """The process that was started; None when that has ended."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if abs(process.create_time() - began) < 1 and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def end(processes: Sequence[psutil.Process]) -> None:
    """Ask all to end (SIGTERM), by force after 30 s for all together. Raises LocalServerError for one that stays."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT
    for process in processes:
        if not _ends(process, deadline):
            with suppress(psutil.NoSuchProcess):
                process.kill()
            if not _ends(process, time.monotonic() + STOP_TIMEOUT):
                raise LocalServerError(
                    f"process {process.pid} has not ended {STOP_TIMEOUT:g} s after it was killed",
                    remedy="wait until the machine is less busy, and stop it again",
                )


def _ends(process: psutil.Process, deadline: float) -> bool:
    """Waits until it has ended. One that has ended, and that its parent has not asked for yet, keeps its process id."""
    while True:
        try:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE)
