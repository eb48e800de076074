"""Output that follows a command's work: where it cannot be written, as on a full disk, it is done all the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

import click

from kseg.jobs.output.standard_streams import while_read


@contextmanager
def last_output(*streams: IO[Any] | None) -> Iterator[None]:
    """Around the printing of a result or an error. An OSError or UnicodeError is a line on stderr, and is not raised.

    streams: those that are written to; None for one that the process does not have. They are flushed: at exit it would
    be too late for their errors.
    """
    written = [stream for stream in streams if stream is not None]
    try:
        with while_read(*written):
            yield
            for stream in written:
                stream.flush()
    except (OSError, UnicodeError) as error:
        for stream in written:
            _drop_unwritable(stream)
        reason = getattr(error, "strerror", None) or error
        with suppress(OSError, UnicodeError):
            click.echo(f"kseg: the output could not be written: {reason}", err=True)


def _drop_unwritable(stream: IO[Any]) -> None:
    """Redirect a stream that cannot be flushed to /dev/null: the interpreter's own flush at exit would end with 120."""
    with suppress(OSError):
        stream.flush()
        return
    with suppress(OSError, ValueError):  # no descriptor, as in a test or a notebook
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
