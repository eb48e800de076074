"""Processes that are no children of ours: whether they live, and how they are stopped.

A process id is only a number that is used again, and another container has numbers of its own. So a process is named by
its id, the time when it began, and the place where that id means something: host, boot and process namespace. The time
is that since boot where the kernel has it (Linux: /proc/PID/stat, field 22): it does not change when the clock is set.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from functools import cache
from pathlib import Path
from typing import Final

import psutil

_CLOCK_SLACK: Final = 1.0  # seconds; the kernel counts in ticks since boot, and the wall clock may have been set
_SECONDS_BETWEEN_LOOKS: Final = 0.1


@cache
def here() -> str:
    """This place, in which a process id means one process."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{Path('/proc/self/ns/pid').readlink()}"
    return f"{socket.gethostname()}/{int(psutil.boot_time())}/"


def ticks_of(pid: int) -> int | None:
    """The start of a process, in clock ticks since boot; None where the kernel does not tell, or the process is
    gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None


def find(pid: int, began: float, ticks: int | None = None) -> psutil.Process | None:
    """The process of this id, if it is the one that began then; None where that has ended (a zombie has).

    began: seconds since 1970. ticks: as `ticks_of`; where it is given, it decides.
    """
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        same = abs(process.create_time() - began) < _CLOCK_SLACK if ticks is None else ticks_of(pid) == ticks
        if same and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def session_members(session: int) -> list[psutil.Process]:
    """All living processes of a session: a driver, its JVM, and what they have started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if os.getsid(process.pid) == session and _lives(process):
                found.append(process)
    return found


def stop_session(session: int, first: psutil.Process | None, grace: float) -> bool:
    """Stop a session's processes. Returns whether all of them are gone.

    first: who is asked before all others, since it knows how to end in order (release its lease, stop Spark).
    grace: seconds until force is used; at half of it all are asked.
    """
    began = time.monotonic()
    asked: dict[int, list[str]] = {}
    if first is not None:
        _signal([first], signal.SIGTERM)
    while members := session_members(session):
        waited = time.monotonic() - began
        if waited >= grace:
            break
        if first is None or waited >= grace / 2:
            # At each look: a shell that has been asked may start the driver only now. And what was asked between fork
            # and exec caught the signal with its parent's handler, which the program that it now is does not have.
            programs = {member: _arguments(member) for member in members}
            _signal([one for one, program in programs.items() if asked.get(one.pid) != program], signal.SIGTERM)
            asked.update((member.pid, program) for member, program in programs.items())
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    _signal(members, signal.SIGKILL)
    _, alive = psutil.wait_procs(members, timeout=5)
    return not any(_lives(process) for process in alive)


def _arguments(process: psutil.Process) -> list[str]:
    """By which a process is told from what it was before it executed another program; empty if it has ended."""
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def _lives(process: psutil.Process) -> bool:
    """Whether it has not ended: a zombie has, and it may go between two checks."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # psutil compares the creation time before it sends one
            process.send_signal(number)
