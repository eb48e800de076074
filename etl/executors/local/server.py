"""The process that forks the workers of the local executor.

    driver ──control──► server         one byte and a socket: fork a worker that serves this socket
    driver ◄──socket──► worker         see `etl.executors.local.worker`

It loads what tasks need before the first fork. It is started as a program of its own, never forked from the driver:
Arrow, numba and the driver's clients have threads, of which a fork copies locks but no threads. It ends with the
driver, which holds the other end of the control socket.

What a user's code prints goes to the driver's stderr: the driver's stdout is a command's result.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from typing import Final, NoReturn

from kseg.etl.executors.local.worker import serve

_MESSAGE: Final = 1
_STDOUT: Final = 1
_STDERR: Final = 2


def main(fileno: int, *, files: bool) -> NoReturn:
    """Fork a worker for each socket that the driver sends, until the driver closes the control socket or ends. Never
    returns: the process ends without the interpreter's finalization, for which the driver would wait.

    fileno: the control socket's file descriptor. files: tasks may read log files.
    """
    from kseg.etl.tasks.preload import preload

    control = socket.socket(fileno=fileno)
    control.set_inheritable(False)
    with contextlib.suppress(OSError):  # the driver may have no stderr
        os.dup2(_STDERR, _STDOUT)
    signal.signal(signal.SIGCHLD, lambda *_: _wait_for_workers(os.WNOHANG))
    with contextlib.suppress(Exception):  # a task gets the same error, and can report it
        preload(files=files)
    while True:
        message, received, _, _ = socket.recv_fds(control, _MESSAGE, 1)
        if not message:
            _wait_for_workers(0)
            for stream in filter(None, (sys.stdout, sys.stderr)):  # a driver without them has none to hand on
                stream.flush()
            os._exit(0)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            serve(socket.socket(fileno=received[0]))
        os.close(received[0])


def _wait_for_workers(options: int) -> None:
    """Wait for ended workers, so that their processor time counts as this process's, and thereby as the driver's: `time
    kseg ingest` shows it. The driver sees a worker's end by its socket.
    """
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options) != (0, 0):
            pass
