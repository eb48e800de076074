"""Servers that live in one directory, between `start` and `stop`; nothing of them outlives this process."""

from __future__ import annotations

import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

from kseg.jobs.broker.child import Child, end_all

Name = TypeVar("Name", bound=str | int)


class Server(ABC, Generic[Name]):
    """One process or several, which are known by name or by number.

    directory: where they keep everything; None takes a temporary one, which is deleted at stop. kind: for its name.
    """

    #: Seconds in which processes that were asked to end have to; then they are ended by force.
    stop_timeout: ClassVar[float] = 20.0
    #: Whether the others need the first process to the end, so that it is asked when they have gone.
    first_goes_last: ClassVar[bool] = True

    def __init__(self, directory: Path | None, kind: str) -> None:
        self._own_directory = directory is None
        self._directory = directory.absolute() if directory else None
        self._kind = kind
        self._processes: dict[Name, Child] = {}

    @property
    def directory(self) -> Path:
        if self._directory is None:
            raise RuntimeError("not started")
        return self._directory

    @property
    def pids(self) -> dict[Name, int]:
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
            self._leave(signal.SIGKILL)
            raise
        return self

    def stop(self) -> None:
        """Stop everything (SIGTERM), by force after 20 to 30 s; delete the directory if it is a temporary one."""
        self._leave(signal.SIGTERM)

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

    def _launch(
        self, name: Name, command: Sequence[str], env: Mapping[str, str] | None = None, *, log_file: Path | None = None
    ) -> None:
        """Start a process in its log file's folder, the directory's own ``NAME.log`` where none is given."""
        log_file = log_file or self.directory / f"{name}.log"
        self._processes[name] = Child(
            command, log_file=log_file, directory=log_file.parent, remove=self._own_directory, env=env
        )

    def _end(self, names: Iterable[Name], how: signal.Signals) -> None:
        """Ask these to end, all at once, and wait for them."""
        known = [name for name in names if name in self._processes]
        end_all([self._processes[name] for name in known], how, self.stop_timeout)
        for name in known:
            del self._processes[name]

    def _end_all(self, how: signal.Signals) -> None:
        if self.first_goes_last:
            self._end([*self._processes][1:], how)
        self._end([*self._processes], how)

    def _leave(self, how: signal.Signals) -> None:
        """End all that runs, and what is left of it."""
        self._end_all(how)
        if self._own_directory and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
