"""Output to a closed pipe, as in `kseg topics | head -1`: this is not an error, and nothing more is written.

Python ignores SIGPIPE, which ends other programs in this case, because it would also end this process when a broker
closes a connection. Instead, writes to the pipe fail with EPIPE, and so does the flush of buffers at exit.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

EXIT_CODE: Final = 141
"""The exit code of a command whose output was cut off: 128 + 13, as a shell reports for a program that SIGPIPE (13)
ended."""


def has_no_reader(stream: IO[Any]) -> bool:
    """Whether the stream is a pipe whose reader has closed it."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(events & select.POLLERR for _, events in poll.poll(0))
    except (OSError, ValueError, AttributeError):  # no descriptor, as in a test or a notebook
        return False


def discard(*streams: IO[Any]) -> None:
    """Redirect the streams that have no reader to /dev/null, including what they have buffered."""
    for stream in streams:
        if has_no_reader(stream):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
            with suppress(OSError):
                stream.flush()


@contextmanager
def while_read(*streams: IO[Any]) -> Iterator[None]:
    """Around the last output of a command: it ends without an error if the reader of one of the streams has gone.

    Raises BrokenPipeError: of another pipe or connection.
    """
    try:
        yield
    except BrokenPipeError:
        if not any(map(has_no_reader, streams)):
            raise
        discard(*streams)
