"""A registry that outlives the command that started it: ``kseg registry start``, ``status``, ``stop``.

``registry.json`` in its directory says what was started.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from kseg.etl.spark.cache import cache_root
from kseg.jobs.broker.ports import is_free
from kseg.jobs.broker.started import began, end, live_process
from kseg.jobs.output.files import write_atomically
from kseg.jobs.registry.process import VERSION, EmbeddedRegistry, answers


@dataclass(frozen=True)
class RegistryState:
    """The process that was started. ``began`` is the process's creation time, in seconds since the epoch."""

    directory: str
    version: str
    url: str
    port: int
    pid: int
    began: float
    log_file: str

    def process(self) -> psutil.Process | None:
        """Its process; None when that has ended."""
        return live_process(self.pid, self.began)

    @property
    def answering(self) -> bool:
        return self.process() is not None and answers(self.port)


def default_directory() -> Path:
    """``registry`` in the cache."""
    return cache_root() / "registry"


def start(directory: Path, *, port: int | None = None) -> tuple[RegistryState, bool]:
    """Start a registry in a directory, or find the one that runs there; whether it was started now.

    port: None takes the one that it had before where that is free, else any.
    """
    former = read(directory)
    if former is not None and former.process() is not None:
        return former, False
    if port is None and former is not None and is_free(former.port):
        port = former.port
    registry = EmbeddedRegistry(directory, port=port, detached=True).start()
    pid = registry.pids["registry"]
    state = RegistryState(
        str(directory.absolute()), VERSION, registry.url, registry.port, pid, began(pid), str(registry.log_file)
    )
    write_atomically(_file(directory), json.dumps(asdict(state), indent=2) + "\n")
    return state, True


def read(directory: Path) -> RegistryState | None:
    """The process last started in a directory; None if there was none."""
    try:
        return RegistryState(**json.loads(_file(directory).read_text()))
    except FileNotFoundError:
        return None


def stop(directory: Path) -> bool:
    """Stop what runs in a directory; its schemas stay. Returns whether anything ran."""
    state = read(directory)
    process = state.process() if state is not None else None
    if process is None:
        return False
    end([process])
    return True


def _file(directory: Path) -> Path:
    return directory / "registry.json"
