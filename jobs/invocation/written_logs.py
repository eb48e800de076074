"""The log files that failed commands have written: which job and run each is of, and its error.

Each begins with lines that `error_log.write_log` writes:

    command: ingest
    job: orders
    run: 4be1f00c52-17-9a3e11d0
    error: TransformError: …
    (an empty line, then the tracebacks)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kseg.jobs.invocation.error_log import TIME_FORMAT, log_folder


@dataclass(frozen=True, slots=True)
class WrittenLog:
    """A log file. at: ISO 8601, UTC. job, run, error: None where they were not known."""

    path: str
    at: str
    command: str
    job: str | None
    run: str | None
    error: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def read(self) -> str:
        return Path(self.path).read_text(encoding="utf-8", errors="replace")


def written_logs() -> Iterator[WrittenLog]:
    """The newest first. Files of other programs are left out."""
    for path in sorted(log_folder().glob("*.log"), reverse=True):
        with suppress(OSError, ValueError):
            at = datetime.strptime(path.name.partition("-")[0], TIME_FORMAT).replace(tzinfo=UTC)
            head = _head(path)
            command = head.get("command") or path.name.split("-")[1]
            yield WrittenLog(str(path), at.isoformat(), command, head.get("job"), head.get("run"), head.get("error"))


def _head(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            name, colon, value = line.rstrip("\n").partition(": ")
            if not colon or name not in ("command", "job", "run", "error"):
                break
            found[name] = value
    return found
