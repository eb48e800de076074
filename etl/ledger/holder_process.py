"""Detects that the process which holds a lease is dead.

An owner's name ends in a random part, the process' start in clock ticks since the machine's boot, and a hash of the
boot's id and the process' PID namespace:

    etl-7:4711:9a3e11d0.8734521.5c0ffee1

A process of the same boot and namespace can check the holder: it is dead if there is no process with its id, or this
process started at another time. About other holders (another host, another container, before a reboot) nothing is
known, and their leases have to expire. Only Linux has /proc; on other systems names end in the random part.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_MARKED: Final = re.compile(r":(\d+):[^:]*[0-9a-f]{8}\.(\d+)\.([0-9a-f]{8})$")
_STATE, _START = 0, 19  # fields 3 and 22 of /proc/PID/stat, counted behind the name; proc_pid_stat(5)


def process_mark() -> str:
    """``.START.PLACE`` of this process; "" if there is no /proc."""
    found, place = _state_and_start(os.getpid()), _place()
    return f".{found[1]}.{place}" if found is not None and place is not None else ""


def start_ticks(pid: int) -> int | None:
    """A process' start time in clock ticks since the machine's boot; None if it cannot be read."""
    found = _state_and_start(pid)
    return found[1] if found is not None else None


def known_dead(owner: str) -> bool:
    """Whether an owner was a process on this machine, in this PID namespace, and has ended."""
    marked = _MARKED.search(owner)
    if marked is None or marked[3] != _place():
        return False
    pid, started = int(marked[1]), int(marked[2])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # another user's
    found = _state_and_start(pid)
    return found is not None and (found[1] != started or found[0] in "ZX")


def _state_and_start(pid: int) -> tuple[str, int] | None:
    """State and start time; None if there is no such process or no /proc, or /proc hides other users' processes."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # a name may hold spaces and parentheses
    return fields[_STATE], int(fields[_START])


def _place() -> str | None:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii")
        namespace = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return None
    return hashlib.blake2s(f"{boot.strip()} {namespace}".encode(), digest_size=4).hexdigest()
