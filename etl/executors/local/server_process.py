"""The server process of the local executor, seen from the driver.

This module imports nothing that tasks need: the driver starts the process first, and loads modules while it does.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_FORK: Final = b"f"
_END_SECONDS: Final = 5.0
_START: Final = (
    "import sys; number, files, *sys.path = sys.argv[1:]; "
    "from kseg.etl.executors.local.server import main; main(int(number), files=files == 'files')"
)
"""The server's program: it finds modules where the driver does, and not first in the working folder, as `-m` would."""


class ServerProcess:
    """A running process that forks workers, see `etl.executors.local.server`. files: tasks may read log files."""

    def __init__(self, *, files: bool = True) -> None:
        self._forked = False
        self._control, other = socket.socketpair()
        with other:
            # Unbuffered: what a step has printed is not lost when its process is ended.
            source = "files" if files else "brokers"
            command = [sys.executable, "-u", "-c", _START, str(other.fileno()), source, *search_path()]
            # In a session of its own: Ctrl-C in a terminal is the driver's, which then ends the workers.
            self._process = subprocess.Popen(
                command, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )

    def fork(self) -> Connection:
        """Another worker. Raises ConnectionError: the server has ended."""
        from multiprocessing.connection import Connection

        mine, its = socket.socketpair()
        with mine, its:
            socket.send_fds(self._control, [_FORK], [its.fileno()])
            self._forked = True
            return Connection(mine.detach())

    def close(self) -> None:
        """End the process, and wait until it has ended."""
        if not self._forked:  # it has no workers to wait for, and may still load what nobody will use
            self._process.kill()
        self._control.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def search_path() -> list[str]:
    """The driver's module search path. The driver ignores other entries than text itself."""
    return [entry for entry in sys.path if isinstance(entry, str)]
