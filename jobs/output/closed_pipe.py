"""Output whose reader has gone, as in `kseg topics | head -1`: no error, and nothing is written any more.

Python ignores SIGPIPE, which ends other programs there, because it would also end this one when a broker closes a
connection. A write to the pipe fails with EPIPE instead, once more when buffers are flushed at exit.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

EXIT_CODE: Final = 141
"""Of a command whose output was cut off: what a shell reports of a program that SIGPIPE (13) ended, 128 + 13."""


def has_no_reader(stream: IO[Any]) -> bool:
    """Whether the stream is a pipe that nobody reads any more."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(events & select.POLLERR for _, events in poll.poll(0))
    except (OSError, ValueError, AttributeError):  # no descriptor, as in a test or a notebook
        return False


def discard(*streams: IO[Any]) -> None:
    """What was written to those without a reader and not flushed, and all that will be written, goes nowhere."""
    for stream in streams:
        if has_no_reader(stream):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
            with suppress(OSError):
                stream.flush()


@contextmanager
def while_read(*streams: IO[Any]) -> Iterator[None]:
    """Around the last thing that a command prints: it ends quietly when the reader of one of the streams has gone.

    Raises BrokenPipeError: of another pipe or connection.
    """
    try:
        yield
    except BrokenPipeError:
        if not any(map(has_no_reader, streams)):
            raise
        discard(*streams)
