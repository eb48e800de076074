"""A wall clock that is wrong, in one process: a small library before libc's, compiled when it is first asked for.

    LD_PRELOAD=library()      of a process whose clock may be moved, or the clocks of its forks
    move(3600)                in the process: its clock is an hour ahead from now on

Monotonic clocks stay as they are: they have no hour that could be wrong.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

static long ahead = 0;

void move_clock(long seconds) { ahead = seconds; }

int clock_gettime(clockid_t clock, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *) = 0;
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, at);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += ahead;
  return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
  struct timespec now;
  int failed = clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
"""


def library(folder: Path) -> Path | None:
    """The library, compiled into a folder; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    made = folder / "clock.so"
    if not made.exists():
        source = folder / "clock.c"
        source.write_text(SOURCE)
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"], check=True)
    return made


def environment(folder: Path) -> dict[str, str]:
    """Variables of a process whose clock may be moved."""
    made = library(folder)
    if made is None:
        return {}
    return {"LD_PRELOAD": ":".join(filter(None, [str(made), os.environ.get("LD_PRELOAD")]))}


def move(seconds: int) -> bool:
    """Move this process's wall clock by so much; False where it has no such library."""
    try:
        ctypes.CDLL(None).move_clock(ctypes.c_long(seconds))
    except AttributeError:
        return False
    return True
