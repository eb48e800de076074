"""Stops a command: by SIGTERM, as schedulers do it, or by SIGINT (Ctrl-C). It unwinds, once, and then ends.

    first signal            raises TerminatedError or KeyboardInterrupt in the main thread: leases are released,
                            processes that were started are stopped, and the outcome is recorded
    SIGTERM after that      changes nothing: schedulers send it to a process and then to its group, and a driver behind
                            Livy to itself when its parent has ended; SIGKILL remains for a process that does not end
    Ctrl-C after that       changes nothing within a second, since a wrapper that passes the terminal's signal on sends
                            it twice; then the process ends at once

SIGINT stays ignored where it was: a shell starts its background processes so.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from kseg.jobs.invocation.failures import TerminatedError

_SAME_KEY: Final = 1.0
"""Seconds in which a second SIGINT is the first one's echo."""


class Stop:
    """Whether a command was stopped. `error`: what it was stopped by; None for one that was not."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._since = 0.0
        self._too_late = False

    def too_late(self) -> None:
        """The work is over: from now on signals change nothing."""
        self._too_late = True

    def cause_of(self, error: BaseException) -> BaseException:
        """The error that ended the work: the stop, also if a call that it interrupted has raised another error."""
        return self.error or error

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.error is None and not self._too_late:
            self._since = time.monotonic()
            self.error = TerminatedError() if number == signal.SIGTERM else KeyboardInterrupt()
            raise self.error
        if number == signal.SIGINT and self.error is not None and time.monotonic() - self._since >= _SAME_KEY:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)

    def _hides(self, record: logging.LogRecord) -> bool:
        """Whether a log record is of a library whose call was interrupted, such as py4j: its traceback is no news."""
        return self.error is not None and record.exc_info is not None


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Around a command's work and the record of its outcome. In another thread than the main one it changes nothing."""
    stop = Stop()
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    handled = [signal.SIGTERM] if ignored else [signal.SIGTERM, signal.SIGINT]
    try:
        before = {number: signal.signal(number, stop._handle) for number in handled}
    except ValueError:
        yield stop
        return
    handlers = logging.getLogger().handlers[:]

    def shown(record: logging.LogRecord) -> bool:
        return not stop._hides(record)

    for handler in handlers:
        handler.addFilter(shown)
    try:
        yield stop
    finally:
        for handler in handlers:
            handler.removeFilter(shown)
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def leave_in_peace() -> None:
    """For a process that only has to exit: a scheduler's second signal would change its exit code."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
