"""The server process as its driver starts it."""

from __future__ import annotations

import socket
import subprocess
import sys

from kseg.etl.executors.local import server_process

NO_STDOUT = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


def test_a_server_without_stdout_ends_without_a_word() -> None:
    mine, its = socket.socketpair()
    with its:
        program = ["-u", "-c", server_process._START, str(its.fileno()), "brokers", *server_process.search_path()]
        server = subprocess.Popen(
            [sys.executable, "-c", NO_STDOUT, *program], pass_fds=[its.fileno()], stderr=subprocess.PIPE
        )
    mine.close()
    _, words = server.communicate()
    assert (words, server.returncode) == (b"", 0)
