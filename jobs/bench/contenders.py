"""The compared ways: a job of this project, and Spark's own Kafka connector with its defaults and tuned.

Each run starts with a new sink (and, for a job, a new ledger and a new group), and its rows are counted: a run that
loses or duplicates a row fails the benchmark. The time is that of a warm session: for a job, a whole run with lease,
plan, ledger, account, table commit and the group's offsets committed in a transaction; for the connector, only the read
and the write.

noop reads the same columns in both cases. To Delta, a job lands two more, `headers` and `_kseg_run`, as always.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from kseg.etl.rows.names import ROWS_VIEW
from kseg.jobs.bench.figures import DEFAULT, FILES, OURS, TUNED, MeasuredRun
from kseg.jobs.bench.session import MASTER
from kseg.jobs.bench.workload import BenchTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TUNING = {
    "kafka.max.partition.fetch.bytes": str(32 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(4 << 20),
    "kafka.check.crcs": "false",
    "kafka.max.poll.records": "20000",
}
"""One set of plausible values for the connector, not a search for the best. Our job uses its defaults and verifies
checksums."""

_JOB = """
version: 1
name: bench
source: {{topics: [{topic}]{segments}}}
sink: {{path: {folder}/table{partitions}}}
ledger: {folder}/ledger
run: {{engine: {engine}}}
spark: {{master: "{master}"}}
"""
_FROM_A_BROKER = """\
kafka: {properties}
group: {group}
"""


class WrongCount(Exception):
    """A run landed more or fewer rows than the topic has."""


@dataclass(frozen=True)
class Contender:
    """One way to one sink. run: runs it in an empty folder; returns the number of rows and seconds by phase.
    check: an additional check of the table, which is not timed.
    """

    way: str
    sink: str
    run: Callable[[Path], tuple[int, dict[str, float]]]
    check: Callable[[Path], None] | None = None

    def measure(self, folder: Path, round_: int, expected: int) -> MeasuredRun:
        """One timed run; the rows of a table are counted in it. Raises WrongCount."""
        place = folder / f"{self.way}-{self.sink}-{uuid4().hex[:8]}"
        place.mkdir()
        try:
            began = time.perf_counter()
            rows, phases = self.run(place)
            seconds = time.perf_counter() - began
            if (place / "table").is_dir():
                rows = _rows_of_table(place / "table")
                if self.check is not None:
                    self.check(place / "table")
        finally:
            shutil.rmtree(place, ignore_errors=True)
        if rows != expected:
            raise WrongCount(f"{self.way} to {self.sink} gave {rows} rows, the topic has {expected}")
        return MeasuredRun(self.way, self.sink, round_, rows, seconds, phases)


def contenders(spark: SparkSession, topic: BenchTopic, log_dir: Path) -> list[Contender]:
    """All contenders, in the order in which a round runs them. log_dir: the log directory of the topic's broker."""
    return [
        Contender(OURS, "delta", lambda folder: ours_to_delta(topic, None, folder)),
        Contender(FILES, "delta", lambda folder: ours_to_delta(topic, log_dir, folder)),
        Contender(DEFAULT, "delta", lambda folder: connector_to_delta(spark, topic, {}, folder)),
        Contender(TUNED, "delta", lambda folder: connector_to_delta(spark, topic, TUNING, folder)),
        Contender(OURS, "noop", lambda _: _ours_to_noop(spark, {"kafka.bootstrap.servers": topic.servers}, topic)),
        Contender(FILES, "noop", lambda _: _ours_to_noop(spark, {"path": str(log_dir)}, topic)),
        Contender(DEFAULT, "noop", lambda _: _connector_to_noop(spark, topic, {})),
        Contender(TUNED, "noop", lambda _: _connector_to_noop(spark, topic, TUNING)),
    ]


# --- ours


def job_file(
    topic: BenchTopic,
    folder: Path,
    log_dir: Path | None = None,
    decode: str = "",
    partition_by: str = "",
    engine: Literal["spark", "local"] = "spark",
) -> Path:
    """A job that lands the topic below `folder`: from its broker, with a new group, or from its files.

    decode: the section `decode:` with its key, as YAML. partition_by: the sink's, as YAML. engine: the run's.
    """
    partitions = f", partition_by: {partition_by}" if partition_by else ""
    segments = "" if log_dir is None else f', segments: "{log_dir}"'
    text = decode + _JOB.format(
        topic=topic.name, segments=segments, folder=folder, partitions=partitions, engine=engine, master=MASTER
    )
    if log_dir is None:
        properties = json.dumps({"bootstrap.servers": topic.servers, **topic.properties})
        text += _FROM_A_BROKER.format(properties=properties, group=f"bench-{uuid4().hex[:8]}")
    file = folder / "job.yaml"
    file.write_text(text)
    return file


def ours_to_delta(
    topic: BenchTopic, log_dir: Path | None, folder: Path, decode: str = "", partition_by: str = ""
) -> tuple[int, dict[str, float]]:
    """A whole run of a job; see `job_file`."""
    from kseg.etl.config.load import load_job
    from kseg.etl.run.pipeline import run_ingest

    report = run_ingest(load_job(job_file(topic, folder, log_dir, decode, partition_by)))
    return report.rows_out or 0, {phase: round(seconds, 3) for phase, seconds in report.seconds.items()}


def _ours_to_noop(spark: SparkSession, origin: Mapping[str, str], topic: BenchTopic) -> tuple[int, dict[str, float]]:
    from kseg.etl.run.range_jobs import TO_JVM
    from kseg.etl.source.decode_options import DecodeOptions
    from kseg.etl.spark.dataframe import rows
    from kseg.etl.spark_format.options import ReadOptions
    from kseg.etl.spark_format.planning import plan_tasks

    options = ReadOptions.parse({**origin, "subscribe": topic.name})
    decode = DecodeOptions(isolation_level=options.isolation_level, headers=False, limits=TO_JVM)
    frame, range_results = rows(spark, plan_tasks(options), options.origin, decode)
    frame.write.format("noop").mode("overwrite").save()
    return sum(range_result.data for range_result in range_results.resolve()), {}


# --- Spark's connector


def connector(spark: SparkSession, topic: BenchTopic, tuning: Mapping[str, str]) -> DataFrame:
    """The whole topic, read by Spark's connector."""
    reader = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", topic.servers)
        .option("subscribe", topic.name)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .options(**{f"kafka.{name}": value for name, value in topic.properties.items()})
    )
    return reader.options(**tuning).load()


def connector_to_delta(
    spark: SparkSession, topic: BenchTopic, tuning: Mapping[str, str], folder: Path, statement: str | None = None
) -> tuple[int, dict[str, float]]:
    """statement: a query over the rows, which have the same name as in a job's SQL steps."""
    frame = connector(spark, topic, tuning)
    if statement is not None:
        frame.createOrReplaceTempView(ROWS_VIEW)
        frame = spark.sql(statement)
    frame.write.format("delta").mode("append").save(str(folder / "table"))
    return topic.rows, {}


def _connector_to_noop(
    spark: SparkSession, topic: BenchTopic, tuning: Mapping[str, str]
) -> tuple[int, dict[str, float]]:
    known = _executions(spark)
    connector(spark, topic, tuning).write.format("noop").mode("overwrite").save()
    return _rows_read_since(spark, known), {}


def _rows_of_table(path: Path) -> int:
    """The number of rows by the table's Delta log."""
    from deltalake import DeltaTable

    return int(DeltaTable(str(path)).count())


def _executions(spark: Any) -> int:
    """The number of queries that this session has finished."""
    spark._jsc.sc().listenerBus().waitUntilEmpty()
    return int(spark._jsparkSession.sharedState().statusStore().executionsCount())


def _rows_read_since(spark: Any, known: int) -> int:
    """The rows that later queries than these have read, by Spark's metric of the source."""
    count = _executions(spark) - known
    store = spark._jsparkSession.sharedState().statusStore()
    rows = 0
    for number in range(count):
        execution = store.executionsList(known + number, 1).head()
        metrics = execution.metrics()
        names = {metrics.apply(i).accumulatorId(): metrics.apply(i).name() for i in range(metrics.size())}
        values = store.executionMetrics(execution.executionId()).iterator()
        found = [0]
        while values.hasNext():
            entry = values.next()
            if names.get(entry._1()) == "number of output rows":
                found.append(int(entry._2().replace(",", "")))
        rows += max(found)  # the scan and the projection over it have this metric
    return rows
