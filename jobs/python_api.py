"""The functions of `import kseg`: what the commands do, called from Python. docs/reference/python-api.md has examples.

They call the same functions of `kseg.etl` as the commands, and return the values that `--json` prints.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kseg.etl.config.job import Job
    from kseg.etl.ledger.modes import BackfillMode
    from kseg.etl.operations.status import StatusReport
    from kseg.etl.operations.verify import VerifyReport
    from kseg.etl.run.drain import DrainReport
    from kseg.etl.run.report import RunReport
    from kseg.etl.telemetry.progress import Progress

TopicOffsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition."""

Bound = datetime | TopicOffsets
"""One side of a backfill: a time, or offsets of the partitions to read."""

StartingOffsets = Literal["earliest", "latest", "committed"] | TopicOffsets
EndingOffsets = Literal["latest"] | TopicOffsets


def load_job(
    job: str | os.PathLike[str] | Mapping[str, Any],
    *,
    env: Mapping[str, str] | None = None,
    client_properties: Mapping[str, str] | None = None,
    **overrides: Any,
) -> Job:
    """Load and validate a job.

    job: a job file, or its content as a mapping. Relative paths are relative to the file, or to the working directory.
    env: where `${NAME}` references are resolved; the process' environment unless given.
    client_properties: Kafka client properties that override those of `kafka:`; secrets among them are not stored.
    overrides: top-level keys of the job file. A mapping is merged into the section of its name, key by key; another
        value replaces the file's. None removes a key.

    Raises:
        ConfigurationError: with every fault of the job.
    """
    from kseg.etl.config.load import load_job as load

    return load(job, env=os.environ if env is None else env, kafka=client_properties, overrides=overrides)


def run(
    job: Job,
    *,
    take_over: bool = False,
    accept_group_offsets: bool = False,
    progress: Progress | None = None,
) -> RunReport:
    """Run a job once, as `kseg ingest`: read what is new, land it exactly once, commit the group's offsets.

    An unfinished run is taken up first. Spark is the process' own session if there is one, else it is started.

    take_over: take the lease of another run that is known to be dead.
    accept_group_offsets: continue at the group's offsets although another program moved them.
    progress: a listener that is called while the run works.

    Raises:
        Refused: state does not agree, or data is lost: a person has to decide.
        AnotherRunActive: another run of this job holds the lease.
        RetriableFailure, KafkaError: a broker or the storage is not available; the same call may succeed later.
    """
    from kseg.etl.run.pipeline import run_ingest

    prepare_spark(job)
    return run_ingest(job, take_over=take_over, accept_group_offsets=accept_group_offsets, progress=progress)


def drain(
    job: Job,
    *,
    take_over: bool = False,
    accept_group_offsets: bool = False,
    progress: Progress | None = None,
) -> DrainReport:
    """Run a job again and again, as `kseg ingest --drain`, until it has read all that was there when this began.

    With `run.max_records` or `run.max_bytes` each run reads a part. `DrainReport.total` is the report of all runs.
    take_over, accept_group_offsets: as of `run`, for the first of the runs.

    Raises:
        As `run`; the runs before the one that failed have landed.
    """
    from kseg.etl.run.drain import run_drain

    prepare_spark(job)
    return run_drain(job, take_over=take_over, accept_group_offsets=accept_group_offsets, progress=progress)


def backfill(
    job: Job,
    *,
    from_: Bound | None = None,
    to: Bound | None = None,
    interval: tuple[datetime, datetime] | None = None,
    mode: BackfillMode = "missing",
    label: str | None = None,
    segments: Sequence[str | os.PathLike[str]] = (),
    commit_offsets: bool = False,
    drop_compacted: bool = False,
    adopt: Sequence[str | os.PathLike[str]] = (),
    drop_older_generations: bool = False,
    take_over: bool = False,
    progress: Progress | None = None,
) -> RunReport:
    """Land offsets, a time range or a data interval, as `kseg backfill`. The same backfill again changes nothing.

    from_, to: times with a time zone, or offsets; `to` is exclusive. Partitions without offsets are not read.
    interval: start and end of a data interval, instead of `from_` and `to`.
    mode: `missing` lands what has not landed; `replace` replaces these addresses' rows in one commit; `append` lands
        them again, under a label.
    segments: folders of log files to read instead of the brokers.
    commit_offsets: advance the group's offsets too.
    drop_compacted: with `replace`, remove rows of compacted-away records, too.
    adopt: with `replace`, older ledgers whose rows count as the job's own where they are of the same topic.
    drop_older_generations: with `replace`, remove rows that were landed before a changed source was accepted, too.

    Raises:
        ConfigurationError: the request is invalid, or does not fit the job.
        Refused, AnotherRunActive, RetriableFailure, KafkaError: as `run`.
    """
    from kseg.etl.operations.backfill import run_backfill
    from kseg.etl.planning.backfill_request import BackfillRequest

    request = BackfillRequest.parse(
        from_=_bound_texts(from_),
        to=_bound_texts(to),
        interval="/".join(time.isoformat() for time in interval) if interval is not None else None,
        mode=mode,
        label=label,
        commit_offsets=commit_offsets,
        segments=[os.fspath(folder) for folder in segments],
        drop_compacted=drop_compacted,
        adopt=[os.fspath(ledger) for ledger in adopt],
        drop_older_generations=drop_older_generations,
    )
    prepare_spark(job)
    return run_backfill(job, request, take_over=take_over, progress=progress)


def plan(job: Job, *, accept_group_offsets: bool = False, progress: Progress | None = None) -> RunReport:
    """The ranges that `run` would read now, as `kseg plan`. Nothing is written and no Spark is started.

    Raises:
        Refused: `run` would be refused.
        RetriableFailure, KafkaError: a broker or the storage is not available.
    """
    from kseg.etl.run.dry_run import plan_only

    return plan_only(job, accept_group_offsets=accept_group_offsets, progress=progress)


def status(job: Job, *, runs: int = 10) -> StatusReport:
    """A job's last runs, its lag by partition, and its tables, as `kseg status`. No Spark is started.

    runs: how many of the last runs are listed.

    Raises:
        Refused: there is no ledger yet, or it is damaged.
        KafkaError: the brokers are not available.
    """
    from kseg.etl.operations.status import status as status_of

    return status_of(job, runs)


def verify(
    job: Job, *, segments: Sequence[str | os.PathLike[str]] = (), progress: Progress | None = None
) -> VerifyReport:
    """Compare a job's tables with Kafka, row by row, as `kseg verify`. `VerifyReport.ok` is the result.

    segments: compare with these folders of log files, as far as they reach, instead of the brokers.

    Raises:
        Refused: there is no ledger, or a table is not as the ledger left it.
        KafkaError: the brokers are not available.
    """
    from kseg.etl.operations.verify import verify as verify_job

    prepare_spark(job)
    return verify_job(job, progress, segments=[os.fspath(folder) for folder in segments])


def read(
    spark: SparkSession,
    *,
    topics: Sequence[str] | None = None,
    pattern: str | None = None,
    assign: Mapping[str, Sequence[int]] | None = None,
    path: str | os.PathLike[str] | None = None,
    starting_offsets: StartingOffsets | None = None,
    ending_offsets: EndingOffsets | None = None,
    starting_timestamp: datetime | None = None,
    ending_timestamp: datetime | None = None,
    include_headers: bool = False,
    include_provenance: bool = False,
    fail_on_data_loss: bool = True,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
    client_properties: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Records as a DataFrame: `spark.read.format("kseg")` with typed options. Nothing is committed or stored.

    The columns are those of Spark's own Kafka source: key, value, topic, partition, offset, timestamp, timestampType.

    topics, pattern, assign: exactly one of them: topic names, a regular expression, or partitions by topic. With
        `path` none of them means all topics.
    path: a folder of log files, instead of brokers.
    starting_offsets, ending_offsets: by topic and partition, or a name; unless given all that is there. "committed"
        starts at the offsets of the group in `client_properties["group.id"]`.
    starting_timestamp, ending_timestamp: times with a time zone, instead of offsets; the end is exclusive.
    include_headers, include_provenance: more columns: the headers; the batch's producer, epoch, sequence and position.
    fail_on_data_loss: fail if offsets of the range are no longer in the log.
    min_partitions, max_records_per_partition: how ranges are split among tasks.
    client_properties: `bootstrap.servers` and other properties of the Java consumer.
    options: further options of the format by their names.

    Raises:
        ConfigurationError: the options are invalid (when the schema is read, so here).
    """
    given: dict[str, Any] = {
        "subscribe": ",".join(topics) if topics is not None else None,
        "subscribePattern": pattern,
        "assign": json.dumps({topic: list(parts) for topic, parts in assign.items()}) if assign is not None else None,
        "path": os.fspath(path) if path is not None else None,
        "startingOffsets": _offsets_text(starting_offsets),
        "endingOffsets": _offsets_text(ending_offsets),
        "startingTimestamp": _milliseconds("starting_timestamp", starting_timestamp),
        "endingTimestamp": _milliseconds("ending_timestamp", ending_timestamp),
        "includeHeaders": _truth(include_headers),
        "includeProvenance": _truth(include_provenance),
        "failOnDataLoss": _truth(fail_on_data_loss),
        "minPartitions": min_partitions,
        "maxRecordsPerPartition": max_records_per_partition,
    }
    texts = {name: str(value) for name, value in given.items() if value is not None}
    texts |= {f"kafka.{name}": value for name, value in (client_properties or {}).items()}
    return spark.read.format("kseg").options(**texts | dict(options or {})).load()


def prepare_spark(job: Job) -> None:
    """Choose a Java for a Spark that this process starts; with Spark Connect or spark-submit none is needed.

    Raises:
        JavaMissing: there is no Java that Spark works with, and `run.engine` is `spark`. With another engine, Spark may
            not be needed; if it is, its start raises ConfigurationError.
    """
    from kseg.etl.spark.submission import is_submitted
    from kseg.jobs.broker.errors import JavaMissing
    from kseg.jobs.broker.java import use_java

    if job.spark.remote is not None or is_submitted():
        return
    try:
        use_java()
    except JavaMissing:
        if job.run.engine == "spark":
            raise


def _bound_texts(bound: Bound | None) -> Sequence[str]:
    if bound is None:
        return ()
    if isinstance(bound, datetime):
        return (bound.isoformat(),)
    return [f"{topic}:{partition}:{offset}" for topic, partition, offset in _flat(bound)]


def _flat(offsets: TopicOffsets) -> Iterable[tuple[str, int, int]]:
    return ((topic, number, offset) for topic, parts in offsets.items() for number, offset in parts.items())


def _offsets_text(offsets: str | TopicOffsets | None) -> str | None:
    return json.dumps(offsets) if isinstance(offsets, Mapping) else offsets


def _milliseconds(name: str, time: datetime | None) -> int | None:
    """Since the epoch. Raises ConfigurationError for a time without a time zone."""
    from kseg.etl.config.times import INSTANT_REMEDY
    from kseg.etl.errors import ConfigurationError

    if time is None:
        return None
    if time.tzinfo is None:
        raise ConfigurationError.of(name, "has no time zone", INSTANT_REMEDY)
    return round(time.timestamp() * 1000)


def _truth(value: bool) -> str:
    return "true" if value else "false"
