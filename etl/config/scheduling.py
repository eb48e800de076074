"""The job file's `airflow:` section: how a DAG made from the file runs the job.

`kseg` checks it and does nothing with it; a DAG file reads it as it is written (so no `${…}` in it), and what a value
means is Airflow's word: cron expressions are read by the parser that Airflow reads them with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from kseg.client.protocol.suggestion import did_you_mean
from kseg.etl.config.document import PathKey
from kseg.etl.config.faults import Finding
from kseg.etl.config.times import DURATION_PATTERN, format_instant, parse_duration
from kseg.etl.config.values import (
    ANY_TEXT,
    NAMED_ONCE,
    Duration,
    InSchema,
    Instant,
    Loose,
    PlainPath,
    Section,
    Text,
    at_least,
    fault,
    not_empty,
    unique,
)

PRESETS = ("@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
"""Names that Airflow 3 knows for schedules."""

_WITHOUT_INTERVALS = ("@once", "@continuous")
_SCHEDULE_FORMS = (
    'give a cron expression ("0 6 * * *"), a preset (@daily), a duration (1h) or {assets: [path of a table]}'
)
_KEY = re.compile(r"[\w.-]{1,250}", re.ASCII)
_MAX_TAG = 100
_INT32 = 2**31 - 1


def _schedule(text: str) -> str:
    if text.startswith("@"):
        if text not in PRESETS:
            raise fault(f"is not a preset in Airflow: {', '.join(PRESETS)}", did_you_mean(text, PRESETS) or "write one")
        return text
    if (every := _every(text)) is not None:
        if every <= timedelta(0):
            raise fault("is zero", "a duration above zero, as in 15m or 1h")
        return text
    return _cron(text)


def _every(text: str) -> timedelta | None:
    try:
        return parse_duration(text)
    except ValueError:
        return None


def _cron(text: str) -> str:
    from croniter import CroniterError, croniter

    if len(text.split()) != 5:
        raise fault("is not a schedule", _SCHEDULE_FORMS)
    try:
        croniter(text, datetime(2024, 1, 1, tzinfo=UTC)).get_next()
    except CroniterError as error:
        reason = re.sub(r"^\[[^]]*\]\s*", "", str(error))
        raise fault(f"is not a cron expression that ever matches a time: {reason}", _SCHEDULE_FORMS) from None
    return text


def _time_zone(name: str) -> str:
    known = available_timezones()
    if name not in known:
        raise fault("is not a time zone", did_you_mean(name, known) or "a name as in UTC or Europe/Berlin")
    return name


def _key(text: str) -> str:
    if not _KEY.fullmatch(text):
        raise fault("is not a DAG id", "1 to 250 letters, digits, dots, dashes and underscores")
    return text


def _tag(text: str) -> str:
    if len(text) > _MAX_TAG:
        raise fault(f"is longer than {_MAX_TAG} characters", "shorten it")
    return text


class AssetSchedule(Section):
    """Runs when these tables have changed. Paths and URLs as in `sink.path`."""

    assets: Annotated[tuple[PlainPath, ...], Loose, AfterValidator(not_empty), AfterValidator(unique), NAMED_ONCE]


def _schedule_form(value: Any) -> str:
    return "<assets>" if isinstance(value, Mapping | AssetSchedule) else "<time>"


def _schedule_shape(value: Any) -> Any:
    if not isinstance(value, str | Mapping | AssetSchedule):
        raise fault("is not a schedule", _SCHEDULE_FORMS)
    return value


_TEXT_IN_SCHEMA = InSchema(
    type=None,
    anyOf=[
        {"enum": list(PRESETS)},
        {"type": "string", "pattern": r"^\s*\S+(\s+\S+){4}\s*$"},
        {"type": "string", "pattern": DURATION_PATTERN, "patternErrorMessage": _SCHEDULE_FORMS},
    ],
)

Schedule = Annotated[
    Annotated[str, AfterValidator(_schedule), _TEXT_IN_SCHEMA, Tag("<time>")]
    | Annotated[AssetSchedule, Tag("<assets>")],
    Discriminator(_schedule_form),
    BeforeValidator(_schedule_shape),
]


TagOfDag = Annotated[Text, AfterValidator(_tag), InSchema(maxLength=_MAX_TAG)]


class Execution(Section):
    """How a task runs the job: where the driver lives, and through which of Airflow's connections.

    submit_options: what the operators' argument of that name takes, for spark-submit and Livy. poll_interval: between
    two polls of the driver.
    """

    submit: Literal["local", "spark-submit", "livy"] = "local"
    deferrable: bool = True
    spark_conn_id: Text | None = None
    kafka_conn_id: Text | None = None
    submit_options: dict[str, Any] | None = None
    poll_interval: Annotated[Duration, at_least(timedelta(seconds=0.1))] | None = None


class Airflow(Section):
    """The DAG that is made from a job file. dag_id: the job's name unless it is given."""

    dag_id: Annotated[str, AfterValidator(_key), InSchema(pattern=r"^[A-Za-z0-9_.-]{1,250}$")] | None = None
    description: Text | None = None
    schedule: Schedule | None = None
    timezone: Annotated[str, AfterValidator(_time_zone), InSchema(pattern=ANY_TEXT)] = "UTC"
    start_date: Instant | None = None
    end_date: Instant | None = None
    catchup: bool = False
    max_active_runs: Annotated[int, Field(ge=1, le=_INT32)] = 1
    mode: Literal["ingest", "interval"] = "ingest"
    drain: bool = False
    owner: Text | None = None
    tags: Annotated[tuple[TagOfDag, ...], Loose, AfterValidator(unique), InSchema(uniqueItems=True)] = ()
    retries: Annotated[int, Field(ge=0, le=_INT32)] = 2
    retry_delay: Duration = timedelta(minutes=5)
    pool: Text | None = None
    pool_slots: Annotated[int, Field(ge=1, le=_INT32)] = 1
    priority_weight: Annotated[int, Field(ge=-_INT32 - 1, le=_INT32)] = 1
    queue: Text | None = None
    deadline: Annotated[Duration, at_least(timedelta(seconds=1))] | None = None
    execution: Execution = Execution()
    verify: bool = False

    @property
    def has_intervals(self) -> bool:
        """Whether its schedule gives runs a data interval: one with a beginning and an end."""
        return isinstance(self.schedule, str) and self.schedule not in _WITHOUT_INTERVALS


def airflow_findings(section: Airflow) -> Iterator[Finding]:
    """What must hold between the section's keys."""
    place: PathKey = ("airflow",)
    if section.mode == "interval" and not section.has_intervals:
        yield Finding(
            (*place, "schedule"),
            "gives runs no data interval, and the mode is interval",
            "use a cron expression, a preset such as @daily or a duration; or write `mode: ingest`",
        )
    if section.mode == "ingest" and section.max_active_runs > 1:
        yield Finding(
            (*place, "max_active_runs"),
            "is above 1, and the mode is ingest: a job has one ingest at a time",
            "write `mode: interval` for concurrent runs, or 1",
        )
    if section.drain and section.mode == "interval":
        yield Finding(
            (*place, "drain"),
            "is true, and the mode is interval: an interval is one run",
            "remove it, or write `mode: ingest`",
        )
    if section.catchup and section.start_date is None:
        yield Finding((*place, "catchup"), "has no start date", "add `start_date:`")
    if section.start_date is not None and section.end_date is not None and section.end_date <= section.start_date:
        yield Finding(
            (*place, "end_date"),
            f"is not after the start, {format_instant(section.start_date)}",
            "the end comes after the start",
        )
    if section.pool is None and section.pool_slots > 1:
        yield Finding((*place, "pool_slots"), "is above 1 without a pool", "add `pool:`, or remove it")
    yield from _execution_findings(section.execution, (*place, "execution"))


def _execution_findings(execution: Execution, place: PathKey) -> Iterator[Finding]:
    options = execution.submit_options or {}
    if execution.submit == "livy" and not options.get("file"):
        yield Finding(
            (*place, "submit_options"),
            "names no `file`, and submit is livy",
            "add `file:`, where the cluster reads kseg_driver.py of the Airflow package",
        )
    if execution.submit == "local" and options:
        yield Finding(
            (*place, "submit_options"),
            "is given, and submit is local",
            "remove it, or write `submit: spark-submit` or `submit: livy`",
        )
