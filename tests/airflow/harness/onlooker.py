"""Who looks for a secret wherever somebody could see it: command lines, environments, files."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import psutil


class Onlooker:
    """Somebody who types `ps eww` all the time.

    every: seconds between two looks. seen: the command lines; found: those of processes that show the secret.
    """

    def __init__(self, secret: str, every: float = 0.2) -> None:
        self._secret = secret
        self._every = every
        self._over = threading.Event()
        self.seen: set[str] = set()
        self.found: set[str] = set()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._over.wait(self._every):
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    line = " ".join(process.cmdline())
                    self.seen.add(line)
                    if self._secret in line or self._secret in str(process.environ()):
                        self.found.add(line)

    def __enter__(self) -> Onlooker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)


def content(path: Path) -> bytes:
    """What a file of the running Airflow's holds; nothing if it is no more."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
