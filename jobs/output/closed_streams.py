"""Output and errors of a process that was started without them (`>&-`, `2>&-`): they are /dev/null."""

from __future__ import annotations

import os
import sys
from typing import Final

_STREAMS: Final = ((1, "stdout"), (2, "stderr"))


def open_closed_streams() -> None:
    """Call it before any file is opened: that would be descriptor 1 or 2, and have what a library or the JVM prints."""
    for number, name in _STREAMS:
        if getattr(sys, name) is None:
            nowhere = _moved(os.open(os.devnull, os.O_WRONLY), number)
            setattr(sys, name, os.fdopen(nowhere, "w", encoding="utf-8", closefd=False))


def _moved(descriptor: int, number: int) -> int:
    """The descriptor under this number, which children inherit, as they do the streams; unless it is a file already."""
    if descriptor == number:
        os.set_inheritable(number, True)
        return number
    try:
        os.fstat(number)
    except OSError:
        os.dup2(descriptor, number)
        os.close(descriptor)
        return number
    return descriptor
