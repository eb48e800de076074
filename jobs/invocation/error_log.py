"""The log files of failed commands: tracebacks of every error in the chain, with Spark's and the workers' own.

    ~/.cache/kseg/logs/20260101T080000-ingest-4711.log        ($KSEG_LOGS, $KSEG_CACHE/logs; else a temporary file)

A person sees the error, its address and what to do; all else is here. The newest `KEPT` files are kept, readable by
their owner alone: they may quote records. Secrets are redacted. Other programs may log to the same folder: their files
are left alone.

Each begins with lines that say its job, run and error, which `kseg logs` reads:

    command: ingest
    job: orders
    run: 4be1f00c52-17-9a3e11d0
    error: TransformError: …
    (an empty line, then the tracebacks)
"""

from __future__ import annotations

import os
import re
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kseg.etl.spark.cache import cache_root
from kseg.etl.spark.home import expand_home
from kseg.jobs.output.redaction import REDACTOR

KEPT: Final = 50
TIME_FORMAT: Final = "%Y%m%dT%H%M%S"
_NAME: Final = re.compile(r"\d{8}T\d{6}-.+-\d+\.log")
_BEGINNING: Final = b"command: "
_SPARKS: Final = ("pyspark", "py4j")


def full_trace(error: BaseException) -> str:
    """The tracebacks of an error and of all that it came from, also where it hides its context; redacted."""
    from kseg.etl.tasks.error_transport import without_packed

    parts = ("".join(traceback.format_exception(each, chain=False)) for each in _chain(error))
    return REDACTOR.clean(without_packed("\nthen:\n\n".join(parts)))  # type: ignore[no-any-return]


def has_more(error: BaseException) -> bool:
    """Whether the chain has what is not shown: a worker's traceback, a step's, or an exception of Spark's."""
    from kseg.etl.source.errors import PythonStepError
    from kseg.etl.tasks.error_transport import IN_WORKER

    return any(
        isinstance(each, PythonStepError)
        or type(each).__module__.partition(".")[0] in _SPARKS
        or any(note.startswith(IN_WORKER) for note in getattr(each, "__notes__", ()))
        for each in _chain(error)
    )


def log_folder() -> Path:
    """``$KSEG_LOGS``, else the folder ``logs`` of the cache; not created here.

    Raises OSError, RuntimeError: there is no such place, as the home of an unknown user (``~nobody``).
    """
    given = os.environ.get("KSEG_LOGS")
    return expand_home(given) if given else cache_root() / "logs"


def write_log(command: str, trace: str, **head: str | None) -> Path | None:
    """The file that the trace is in now; None where none can be written.

    head: `job`, `run` and `error`, which begin the file (`written_logs`).
    """
    name = f"{datetime.now(UTC):{TIME_FORMAT}}-{command or 'kseg'}-{os.getpid()}.log"
    known = {"command": command or "kseg", **head}
    lines = [f"{name}: {' '.join(value.split())}" for name, value in known.items() if value]
    trace = REDACTOR.clean("\n".join(lines)) + "\n\n" + trace
    with suppress(OSError, RuntimeError):  # nothing that fails here may hide the error itself
        folder = log_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        _write(number, trace)
        _forget_old(folder, name)
        return folder / name
    with suppress(OSError):
        number, path = tempfile.mkstemp(prefix="kseg-", suffix=f"-{name}")
        _write(number, trace)
        return Path(path)
    return None


def _write(number: int, trace: str) -> None:
    with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(trace)


def _forget_old(folder: Path, new: str) -> None:
    """new: the name of the file just written, which stays also where the clock was set back."""
    own = sorted(path for path in folder.glob("*.log") if path.name != new and _is_own(path))
    for path in own[: -(KEPT - 1)]:  # the names begin with the time
        with suppress(OSError):  # another command removes it, too
            path.unlink()


def _is_own(path: Path) -> bool:
    """Whether `write_log` wrote this file, by its name and its first line."""
    with suppress(OSError):
        if _NAME.fullmatch(path.name) and path.is_file():
            with path.open("rb") as file:
                return file.read(len(_BEGINNING)) == _BEGINNING
    return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """All that led to the error, the first of them first."""
    found: dict[int, BaseException] = {}
    left = [error]
    while left:
        each = left.pop()
        if id(each) in found:
            continue
        found[id(each)] = each
        left += [linked for linked in (each.__context__, each.__cause__) if linked is not None]
    yield from reversed(found.values())


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
