"""Processes that outlive the command that started them, as a file remembers them.

A process id may have been reused by another program, so each has the time at which its process began.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

STOP_TIMEOUT = 30.0


def began(pid: int) -> float:
    """When a process was created, in seconds since the epoch."""
    return psutil.Process(pid).create_time()


def live_process(pid: int, began: float) -> psutil.Process | None:
    """The process that was started; None when that has ended."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if abs(process.create_time() - began) < 1 and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def end(processes: Sequence[psutil.Process]) -> None:
    """Ask all to end (SIGTERM), by force after 30 s for all together."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except psutil.TimeoutExpired:
            with suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait(STOP_TIMEOUT)
