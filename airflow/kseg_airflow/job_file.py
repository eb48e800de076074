"""A folder of job files as a DAG file reads it: what their `airflow:` sections say, with PyYAML alone.

`kseg check` and every run of `kseg` check the whole of a job file. A DAG file is read again and again, and for each
task; so this module looks only at what a DAG is made from, the name and the section itself, and calls nothing.
docs/configuration.md has the section's keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # a build without libyaml: ten times slower
    from yaml import SafeLoader  # type: ignore[assignment]

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DAG_ID = re.compile(r"[\w.-]{1,250}", re.ASCII)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")

#: Schedules without data intervals.
NO_INTERVALS = ("@once", "@continuous")


class JobFileFault(ValueError):
    """Why no DAG can be made of a job file: the file, the key, and what is wrong there."""

    def __init__(self, file: Path, place: str, reason: str) -> None:
        super().__init__(file, place, reason)
        self.file, self.place, self.reason = file, place, reason

    def __str__(self) -> str:
        return f"{self.file}: {self.place}: {self.reason}" if self.place else f"{self.file}: {self.reason}"


class JobFileFaults(Exception):
    """All faults of a folder's job files, a line each. The DAGs of the other files are not touched by it."""

    def __init__(self, faults: list[JobFileFault]) -> None:
        super().__init__(faults)
        self.faults = faults

    def __str__(self) -> str:
        lines = [f"{len(self.faults)} job file(s) without a DAG; `kseg check FILE` tells all faults of a file:"]
        return "\n  ".join([*lines, *map(str, self.faults)])


@dataclass(frozen=True, slots=True)
class Execution:
    """`airflow.execution`: where a task's driver lives, and through which connections."""

    submit: str = "local"
    deferrable: bool = True
    spark_conn_id: str | None = None
    kafka_conn_id: str | None = None


@dataclass(frozen=True, slots=True)
class JobFile:
    """What a DAG needs of a job file. Paths are absolute, or URLs.

    schedule: a cron expression, a preset, a time between runs, or the paths of tables.
    """

    path: Path
    name: str
    dag_id: str = ""
    description: str | None = None
    schedule: str | timedelta | tuple[str, ...] | None = None
    timezone: str = "UTC"
    start_date: datetime | None = None
    end_date: datetime | None = None
    catchup: bool = False
    max_active_runs: int = 1
    mode: str = "ingest"
    owner: str | None = None
    tags: tuple[str, ...] = ()
    retries: int = 2
    retry_delay: timedelta = timedelta(minutes=5)
    pool: str | None = None
    pool_slots: int = 1
    priority_weight: int = 1
    queue: str | None = None
    deadline: timedelta | None = None
    execution: Execution = field(default_factory=Execution)
    verify: bool = False


def read_job_files(folder: Path | str) -> tuple[list[JobFile], list[JobFileFault]]:
    """All job files (`*.yaml`) of a folder: the ones that a DAG can be made of, and why of the others none can.

    Of two files with the same DAG id the first one by name counts. A folder that is not there is a fault of its own.
    """
    folder = Path(folder).absolute()
    if not folder.is_dir():
        return [], [JobFileFault(folder, "", "is no folder")]
    files: list[JobFile] = []
    faults: list[JobFileFault] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            file = read_job_file(path)
            twin = next((other for other in files if other.dag_id == file.dag_id), None)
            if twin is not None:
                raise JobFileFault(path, "airflow.dag_id", f"{file.dag_id} is the DAG of {twin.path.name}")
        except JobFileFault as fault:
            if os.path.lexists(path):  # else it was removed since the folder was listed
                faults.append(fault)
        else:
            files.append(file)
    return files, faults


def read_job_file(path: Path) -> JobFile:
    """One job file. Raises JobFileFault for the first thing that is wrong."""
    try:
        document = read_document(path)
    except (OSError, UnicodeDecodeError) as error:
        raise JobFileFault(path, "", f"cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise JobFileFault(path, "", f"is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise JobFileFault(path, "", "is not a mapping")
    return _Reader(path, document).job_file()


def read_document(path: str | os.PathLike[str]) -> Any:
    """A YAML file's values, which nobody may change: a file that has not changed is not parsed again.

    Raises OSError, UnicodeDecodeError, yaml.YAMLError.
    """
    told = Path(path).stat()
    return _parsed(os.fspath(path), told.st_mtime_ns, told.st_size)


@lru_cache(maxsize=2000)
def _parsed(path: str, _changed: int, _size: int) -> Any:
    return yaml.load(Path(path).read_text(encoding="utf-8"), Loader=SafeLoader)


@dataclass(frozen=True, slots=True)
class _Reader:
    path: Path
    document: dict[Any, Any]

    def job_file(self) -> JobFile:
        name = self.document.get("name")
        if not isinstance(name, str) or not name:
            raise self._fault("name", "is missing" if name is None else f"{name!r} is not text")
        section = self._mapping("airflow", self.document.get("airflow"))
        values = {key: self._value(f"airflow.{key}", key, value) for key, value in section.items() if value is not None}
        file = JobFile(self.path, name, **{"dag_id": name, **values})
        if not _DAG_ID.fullmatch(file.dag_id):
            raise self._fault("airflow.dag_id", f"{file.dag_id!r} is no DAG id")
        if file.mode == "interval" and (
            isinstance(file.schedule, tuple) or file.schedule is None or file.schedule in NO_INTERVALS
        ):
            raise self._fault("airflow.schedule", "gives runs no data interval, and mode is interval")
        if file.catchup and file.start_date is None:
            raise self._fault("airflow.catchup", "has no beginning: add start_date")
        return file

    def _fault(self, place: str, reason: str) -> JobFileFault:
        return JobFileFault(self.path, place, reason)

    def _value(self, place: str, key: Any, value: Any) -> Any:
        read = _KEYS.get(key)
        if read is None:
            raise self._fault(place, f"is no key of this section: {', '.join(_KEYS)}")
        try:
            return read(self, value)
        except (ValueError, OverflowError) as error:
            if isinstance(error, JobFileFault):
                raise
            raise self._fault(place, f"{value!r} {error}") from None

    def _mapping(self, place: str, value: Any) -> dict[Any, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._fault(place, "is not a mapping")
        return value

    def _place(self, text: str) -> str:
        """A table's path as `kseg` spells it: absolute, or a URL."""
        if text.startswith("file://"):
            text = text.removeprefix("file://").removeprefix("localhost")
        return text.rstrip("/") if _URL.match(text) else os.path.normpath(self.path.parent / text)


def _text(_: _Reader, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("is not text")
    return value


def _flag(_: _Reader, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is not true or false")
    return value


def _whole(least: int) -> Callable[[_Reader, Any], int]:
    def read(_: _Reader, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"is not a whole number from {least} on")
        return value

    return read


def _one_of(*words: str) -> Callable[[_Reader, Any], str]:
    def read(_: _Reader, value: Any) -> str:
        if value not in words:
            raise ValueError(f"is not {' or '.join(words)}")
        return str(value)

    return read


def _texts(reader: _Reader, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("is not a list")
    return tuple(_text(reader, item) for item in value)


def _instant(_: _Reader, value: Any) -> datetime:
    """YAML reads some times by itself; one with a zone it turns into UTC, or keeps."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("is not a time with a zone, as in 2026-01-01T00:00:00Z")
    return value.astimezone(UTC)


def _duration(_: _Reader, value: Any) -> timedelta:
    compact = value.replace(" ", "") if isinstance(value, str) else ""
    parts = _DURATION.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise ValueError("is no time with a unit, as in 30s, 2m or 1h30m")
    return timedelta(**{_UNITS[unit]: float(number) for number, unit in parts})


def _schedule(reader: _Reader, value: Any) -> str | timedelta | tuple[str, ...]:
    if isinstance(value, dict):
        if list(value) != ["assets"]:
            raise ValueError("is not {assets: [path of a table]}")
        return tuple(reader._place(path) for path in _texts(reader, value["assets"]))
    text = _text(reader, value)
    if text.startswith("@") or len(text.split()) == 5:
        return text  # Airflow reads it, and tells what is wrong with it
    return _duration(reader, text)


def _execution(reader: _Reader, value: Any) -> Execution:
    keys: dict[str, Callable[[_Reader, Any], Any]] = {
        "submit": _one_of("local", "spark-submit", "livy"),
        "deferrable": _flag,
        "spark_conn_id": _text,
        "kafka_conn_id": _text,
    }
    given = {key: item for key, item in reader._mapping("airflow.execution", value).items() if item is not None}
    if unknown := set(given) - set(keys):
        raise ValueError(f"has {', '.join(sorted(map(str, unknown)))}, which is no key of it: {', '.join(keys)}")
    return Execution(**{key: keys[key](reader, item) for key, item in given.items()})


#: The section's keys, and how each is read.
_KEYS: dict[str, Callable[[_Reader, Any], Any]] = {
    "dag_id": _text,
    "description": _text,
    "schedule": _schedule,
    "timezone": _text,
    "start_date": _instant,
    "end_date": _instant,
    "catchup": _flag,
    "max_active_runs": _whole(1),
    "mode": _one_of("ingest", "interval"),
    "owner": _text,
    "tags": _texts,
    "retries": _whole(0),
    "retry_delay": _duration,
    "pool": _text,
    "pool_slots": _whole(1),
    "priority_weight": _whole(-(2**31)),
    "queue": _text,
    "deadline": _duration,
    "execution": _execution,
    "verify": _flag,
}
