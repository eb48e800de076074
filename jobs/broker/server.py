"""Servers that live in one directory, between `start` and `stop`; nothing of them outlives this process."""

from __future__ import annotations

import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from jobs.broker.child import Child, end_all

_STOP_TIMEOUT = 20.0


class Server(ABC):
    """One process or several, the first of which is the last to go.

    directory: where they keep everything; None takes a temporary one, which is deleted at stop. kind: for its name.
    """

    def __init__(self, directory: Path | None, kind: str) -> None:
        self._own_directory = directory is None
        self._directory = directory.absolute() if directory else None
        self._kind = kind
        self._processes: dict[str, Child] = {}

    @property
    def directory(self) -> Path:
        if self._directory is None:
            raise RuntimeError("not started")
        return self._directory

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by name, of those that run."""
        return {name: process.pid for name, process in self._processes.items() if process.running}

    def start(self) -> Self:
        """Start everything; returns when it is there for clients.

        Raises JavaMissing, JarsUnavailable, StartFailed (with the logs' last lines).
        """
        if self.pids:
            raise RuntimeError("already started")
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix=f"kseg-{self._kind}-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop everything, by force after 20 s; delete the directory if it is a temporary one."""
        first, *others = [*self._processes] or [""]
        self._end(others, signal.SIGTERM)
        self._end([first], signal.SIGTERM)
        if self._own_directory and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # For those that are servers

    @abstractmethod
    def _start(self) -> None:
        """Launch what there is to launch, and wait for it."""

    def _launch(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start a process in the directory; it writes to ``NAME.log``."""
        self._processes[name] = Child(
            command,
            log_file=self.directory / f"{name}.log",
            directory=self.directory,
            remove=self._own_directory,
            env=env,
        )

    def _end(self, names: Sequence[str], how: signal.Signals) -> None:
        end_all([self._processes[name] for name in names if name in self._processes], how, _STOP_TIMEOUT)
        for name in names:
            self._processes.pop(name, None)
