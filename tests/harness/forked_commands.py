"""A folder for PATH whose `kseg` is forked from a process that has everything imported (`nursery.py`).

A command that reads or writes rows works on the tests' JVM. To start Python, its imports and a JVM anew are nine tenths
of what a page's commands cost; all else of a command is as it is in a shell: arguments, folder, environment, what it
prints, and how it ends.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from children import Children

SHIM = Path(__file__).with_name("kseg_shim.py")
#: Commands that start Spark. Any other one has no JVM, and would start its own.
IN_SPARK = ("ingest", "backfill", "redrive", "verify", "repair", "recover", "maintain")


class ForkedCommands:
    """`path` is the folder for PATH."""

    def __init__(self, children: Children, folder: Path) -> None:
        self.path = folder / "bin"
        self._children = children
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(folder / "commands"))
        self._socket.listen()
        self.path.mkdir()
        program = self.path / "kseg"
        words = [sys.executable, "-I", "-S", str(SHIM), str(folder / "commands")]
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
        threading.Thread(target=self._serve, name="commands", daemon=True).start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                channel, _ = self._socket.accept()
            except OSError:  # it was closed
                return
            threading.Thread(target=self._answer, args=(channel,), daemon=True).start()

    def _answer(self, channel: socket.socket) -> None:
        with channel:
            data, files, _, _ = socket.recv_fds(channel, 1 << 18, 3)
            request: dict[str, Any] = json.loads(data)
            if request["arguments"] and request["arguments"][0] in IN_SPARK:
                request["environment"] |= self._children.gateway
            try:
                code = self._children.command(**request, files=files)
            finally:
                for file in files:
                    os.close(file)
            channel.send(str(code).encode())
