"""Filters stderr of a JVM that we start: it leaves out one line of Java's.

Spark's launcher adds a module that Java calls an incubator, and Java prints "WARNING: Using incubator modules" for each
of these before anything else runs; there is no switch for that (JEP 11). So the JVM is started with a pipe as its
stderr, whose lines a thread hands on for as long as the JVM lives. All other lines are handed on as they come.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_UNWANTED: Final = b"WARNING: Using incubator modules"
STDERR: Final = 2


@contextmanager
def without_incubator_warning() -> Iterator[None]:
    """Around the start of a JVM: processes that start meanwhile inherit the pipe. This process gets its stderr back."""
    if sys.stderr is not None:
        sys.stderr.flush()
    ours = os.dup(STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, STDERR)
    os.close(writing)
    threading.Thread(target=_hand_on, args=(reading, ours), name="jvm-stderr", daemon=True).start()
    try:
        yield
    finally:
        if sys.stderr is not None:
            sys.stderr.flush()
        os.dup2(ours, STDERR)


def _hand_on(reading: int, target: int) -> None:
    """Until the last process that has the pipe ends."""
    with open(reading, "rb", buffering=0) as source, open(target, "wb", buffering=0) as out:
        begun = b""
        while chunk := source.read(65_536):
            *lines, begun = (begun + chunk).split(b"\n")
            for line in lines:
                if not line.startswith(_UNWANTED):
                    out.write(line + b"\n")
            if begun and not _UNWANTED.startswith(begun[: len(_UNWANTED)]):
                out.write(begun)  # a line without an end, such as a progress bar's
                begun = b""
        out.write(begun)
