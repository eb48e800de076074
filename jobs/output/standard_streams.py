"""Standard streams that are not as Python expects them: closed, without a reader, or of a small encoding.

A reader that closes its pipe, as in `kseg topics | head -1`, is not an error, and nothing more is written. Python
ignores SIGPIPE, which ends other programs in this case, because it would also end this process when a broker closes a
connection. Instead, writes to the pipe fail with EPIPE, and so does the flush of buffers at exit.

Streams that the process was started without (`>&-`, `2>&-`) are /dev/null. Characters that a stream's encoding does not
have, as `–` in latin-1, are written as escapes.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
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


_ERRORS: Final = "kseg-escape"


def escape_unencodable(*streams: IO[Any] | None) -> None:
    """From now on these streams write what they cannot encode as JSON's escapes (`\\u2013`).

    Python's own `backslashreplace` also writes `\\xfc`, which is no JSON: `kseg peek --json` prints to stdout as it is.
    streams: None for one that the process does not have; one that a test or a notebook has replaced stays as it is.
    """
    codecs.register_error(_ERRORS, _escaped)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    import json

    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
