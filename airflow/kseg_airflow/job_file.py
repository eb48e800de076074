"""A folder of job files as a DAG file reads it: what their `airflow:` sections say.

`kseg check` and every run of `kseg` check the whole of a job file. A DAG file is read again and again, and for each
task; so this module reads only what a DAG is made from, the name and the section itself, and calls nothing. Keys, types
and defaults come from the JSON Schema of the job file (`job_schema.json`, made by `kseg check --schema`).
docs/reference/configuration.md has the section's keys.

Places of tables are spelled as in the reports of runs; `kseg` has the same rules in kseg.etl.config.paths.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import yaml
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def is_url(text: str) -> bool:
    """Whether a place is written as a URL; `file:` URLs are some."""
    return _URL.match(text.strip()) is not None


def normal_place(text: str, folder: Path) -> str:
    """An absolute local path, or a URL, without a slash at the end.

    folder: where relative paths begin. Raises ValueError for what `kseg` refuses as a place.
    """
    text = text.strip()
    if not text or "\0" in text:
        raise ValueError("is not a path")
    if text.startswith("~"):
        raise ValueError("starts with ~, which only a shell understands")
    match = _URL.match(text)
    if match is None:
        if _SCHEME.match(text):
            raise ValueError("has a scheme without ://")
        return _local(text, folder)
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme == "file":
        path = rest.removeprefix("localhost") if rest.startswith("localhost/") else rest
        if not path.startswith("/"):
            raise ValueError("names a host in a file URL")
        return _local(path, folder)
    host, _, path = rest.partition("/")
    if not host and scheme != "hdfs":
        raise ValueError("names no bucket or host")
    if urlsplit(f"//{host}").password:
        raise ValueError("has a password in it")
    return f"{scheme}://{host}/{posixpath.normpath('/' + path).lstrip('/')}".rstrip("/")


def _local(path: str, folder: Path) -> str:
    return posixpath.normpath(posixpath.join(folder.absolute().as_posix(), path))


try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # a build without libyaml: ten times slower
    from yaml import SafeLoader  # type: ignore[assignment]


class _Loader(SafeLoader):
    """YAML as `kseg` reads it (etl/config/document.py): dates, and numbers in base 60, stay text."""


def _number(loader: Any, node: yaml.ScalarNode) -> Any:
    return node.value if ":" in node.value else SafeLoader.yaml_constructors[node.tag](loader, node)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in SafeLoader.yaml_implicit_resolvers.items()
}
for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _number)

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")

#: Schedules without data intervals.
NO_INTERVALS = ("@once", "@continuous")

_DEFINITIONS: dict[str, Any] = json.loads(
    resources("kseg_airflow").joinpath("job_schema.json").read_text(encoding="utf-8")
)["$defs"]
#: The section's keys and what the schema says of each.
_KEYS: dict[str, Any] = _DEFINITIONS["Airflow"]["properties"]


def _is_whole(_: Any, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # JSON Schema takes 3.0 for one


def _pattern(_: Any, pattern: str, value: object, __: Any) -> Iterator[ValidationError]:
    """JSON Schema's `$` is the end of the text; Python's also matches before a line's end, which no DAG id has."""
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_VALIDATOR = extend(
    Draft202012Validator,
    {"pattern": _pattern},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_whole),
)({"$ref": "#/$defs/Airflow", "$defs": _DEFINITIONS})
_TYPES = {
    "array": "is not a list",
    "boolean": "is not true or false",
    "integer": "is not a whole number",
    "object": "is not a mapping",
    "string": "is not text",
}


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
        lines = [f"{len(self.faults)} job file(s) without a DAG; `kseg check FILE` shows all errors of a file:"]
        return "\n  ".join([*lines, *map(str, self.faults)])


def _default(model: str, key: str) -> Any:
    """A key's default, as a value of Python."""
    return _value(key, _DEFINITIONS[model]["properties"][key].get("default"))


def _value(key: str, value: Any) -> Any:
    """A valid value as a DAG needs it. Raises ValueError, OverflowError for one that only seems valid."""
    if value is None:
        return None
    kinds = {choice.get("$ref") for choice in _KEYS.get(key, {}).get("anyOf", ())}
    if "#/$defs/Duration" in kinds:
        return _duration(value)
    if "#/$defs/Instant" in kinds:
        return _instant(value)
    return tuple(value) if isinstance(value, list) else value


def _instant(value: str) -> datetime:
    instant = datetime.fromisoformat(value.strip().upper())
    if instant.tzinfo is None:
        raise ValueError("is not a time with a zone, as in 2026-01-01T00:00:00Z")
    return instant.astimezone(UTC)


def _time_zone(name: str) -> str:
    try:
        return ZoneInfo(name).key
    except (OSError, KeyError, ValueError):  # a folder of zones, none, or no relative path
        raise ValueError("is not a time zone") from None


def _duration(value: str) -> timedelta:
    return timedelta(**{_UNITS[unit]: float(number) for number, unit in _DURATION.findall(value.replace(" ", ""))})


@dataclass(frozen=True, slots=True)
class Execution:
    """`airflow.execution`: where a task's driver lives, and through which connections."""

    submit: str = _default("Execution", "submit")
    deferrable: bool = _default("Execution", "deferrable")
    spark_conn_id: str | None = None
    kafka_conn_id: str | None = None
    submit_options: dict[str, Any] | None = None
    poll_interval: timedelta | None = None


@dataclass(frozen=True, slots=True)
class JobFile:
    """The settings of a job file that a DAG needs. Paths are absolute, or URLs.

    schedule: a cron expression, a preset, a time between runs, or the paths of tables.
    """

    path: Path
    name: str
    dag_id: str = ""
    description: str | None = None
    schedule: str | timedelta | tuple[str, ...] | None = None
    timezone: str = _default("Airflow", "timezone")
    start_date: datetime | None = None
    end_date: datetime | None = None
    catchup: bool = _default("Airflow", "catchup")
    max_active_runs: int = _default("Airflow", "max_active_runs")
    mode: str = _default("Airflow", "mode")
    drain: bool = _default("Airflow", "drain")
    owner: str | None = None
    tags: tuple[str, ...] = _default("Airflow", "tags")
    retries: int = _default("Airflow", "retries")
    retry_delay: timedelta = _default("Airflow", "retry_delay")  # noqa: RUF009 - a constant of the schema
    pool: str | None = None
    pool_slots: int = _default("Airflow", "pool_slots")
    priority_weight: int = _default("Airflow", "priority_weight")
    queue: str | None = None
    deadline: timedelta | None = None
    execution: Execution = Execution()
    verify: bool = _default("Airflow", "verify")


def read_job_files(folder: Path | str) -> tuple[list[JobFile], list[JobFileFault]]:
    """All job files (`*.yaml`) of a folder: the ones that a DAG can be made of, and why of the others none can.

    Of two files with the same DAG id the first one by name counts. A folder that is not there is a fault of its own.
    """
    folder = Path(folder).absolute()
    if not folder.is_dir():
        return [], [JobFileFault(folder, "", "is not a folder")]
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
    except yaml.YAMLError as error:
        raise JobFileFault(path, "", f"is not YAML: {' '.join(str(error).split())}") from error
    except (OSError, ValueError) as error:  # no UTF-8
        raise JobFileFault(path, "", f"cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise JobFileFault(path, "", "is not a mapping")
    return _Reader(path, document).job_file()


def read_document(path: str | os.PathLike[str]) -> Any:
    """A YAML file's values, which callers must not change: a file that has not changed is not parsed again.

    Raises OSError, ValueError, yaml.YAMLError.
    """
    told = Path(path).stat()
    return _parsed(os.fspath(path), told.st_mtime_ns, told.st_size)


@lru_cache(maxsize=2000)
def _parsed(path: str, _changed: int, _size: int) -> Any:
    return yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader


@dataclass(frozen=True, slots=True)
class _Reader:
    path: Path
    document: dict[Any, Any]

    def job_file(self) -> JobFile:
        name = self.document.get("name")
        if not isinstance(name, str) or not name:
            raise self._fault("name", "is missing" if name is None else f"{name!r} is not text")
        section = self.document.get("airflow")
        if section is not None and not isinstance(section, dict):
            raise self._fault("airflow", "is not a mapping")
        given = {"dag_id": name, **{key: value for key, value in (section or {}).items() if value is not None}}
        for error in _VALIDATOR.iter_errors(_as_json(given)):
            raise self._invalid(error, given)
        file = JobFile(self.path, name, **{key: self._value(key, value) for key, value in given.items()})
        if file.mode == "interval" and (
            isinstance(file.schedule, tuple) or file.schedule is None or file.schedule in NO_INTERVALS
        ):
            raise self._fault("airflow.schedule", "gives runs no data interval, and mode is interval")
        if file.mode == "interval" and file.drain:
            raise self._fault("airflow.drain", "is true, and mode is interval")
        options = file.execution.submit_options or {}
        if file.execution.submit == "livy" and not options.get("file"):
            raise self._fault("airflow.execution", "has no submit_options.file, and submit is livy")
        if file.execution.submit == "local" and options:
            raise self._fault("airflow.execution", "has submit_options, and submit is local")
        if file.catchup and file.start_date is None:
            raise self._fault("airflow.catchup", "has no beginning: add start_date")
        return file

    def _fault(self, place: str, reason: str) -> JobFileFault:
        return JobFileFault(self.path, place, reason)

    def _invalid(self, error: ValidationError, given: Mapping[str, Any]) -> JobFileFault:
        if not error.absolute_path:
            unknown = next(key for key in given if key not in _KEYS)
            return self._fault(f"airflow.{unknown}", f"is not a key of this section: {', '.join(_KEYS)}")
        key = str(error.absolute_path[0])
        return self._fault(f"airflow.{key}", f"{given[key]!r} {_reason(error)}")

    def _value(self, key: str, value: Any) -> Any:
        try:
            if key == "execution":
                every = value.get("poll_interval")
                return Execution(**value | {"poll_interval": _duration(every) if every is not None else None})
            if key == "schedule":
                return self._schedule(value)
            if key == "timezone":
                return _time_zone(value)
            return _value(key, value)
        except (ValueError, OverflowError) as error:
            raise self._fault(f"airflow.{key}", f"{value!r} {error}") from None

    def _schedule(self, value: Any) -> str | timedelta | tuple[str, ...]:
        if isinstance(value, dict):
            return tuple(normal_place(path, self.path.parent) for path in value["assets"])
        text = str(value)
        if text.startswith("@") or len(text.split()) == 5:
            return text  # Airflow reads it, and says what is wrong with it
        return _duration(text)


def _as_json(value: Any) -> Any:
    """YAML's values as JSON has them: keys are text."""
    if isinstance(value, dict):
        return {str(key): _as_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_as_json(part) for part in value]
    return value


def _nearness(error: ValidationError) -> tuple[object, ...]:
    """Ranks an error by how much it says of what was meant: the deepest place, then a form's own key or remedy, last
    another type."""
    schema: Any = error.schema
    its_own = error.validator == "additionalProperties", "patternErrorMessage" in schema
    return len(error.path), *its_own, error.validator not in ("type", "anyOf")


def _reason(error: ValidationError) -> str:
    """The error of the form of a value that comes nearest."""
    while forms := [one for one in error.context or () if one.validator_value != "null"]:
        error = max(forms, key=_nearness)
    schema: Any = error.schema
    if error.validator == "type":
        return _TYPES.get(str(error.validator_value), "is of another type")
    if error.validator == "enum":
        return f"is not {' or '.join(map(str, error.validator_value))}"
    if error.validator == "minimum":
        return f"is not a whole number from {error.validator_value} on"
    if error.validator == "additionalProperties":
        known = schema["properties"]
        return f"has {', '.join(sorted(set(error.instance) - set(known)))}, which is no key of it: {', '.join(known)}"
    if error.validator == "pattern" and "patternErrorMessage" in schema:
        return f"is not valid: {schema['patternErrorMessage']}"
    return f"is not valid: {error.message}"
