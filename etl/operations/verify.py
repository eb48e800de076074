"""Verify tables against Kafka: the ledger's ranges are read again, and rows are compared by their addresses.

    transform                            what is compared
    -----------------------------------  ----------------------------------------------------------------------
    none                                 every column, as a 128-bit fingerprint of the row
    one that keeps the number of rows    the addresses
    one that changed it in some run      counts: rows in the table against those that its runs wrote

Offsets that retention has removed from Kafka cannot be read again: they are counted separately and are no finding.
Distributed by Spark: one full outer join of fingerprints by address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.sections import Segments
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.run.context import JobContext
from kseg.etl.run.read_options import read_options, read_tasks
from kseg.etl.spark.dataframe import rows
from kseg.etl.spark.range_results import NoAccumulator
from kseg.etl.tables.parquet.schema import KSEG_ADDRESS, LATE_COLUMN, OWN_ADDRESS, RUN_COLUMN, AddressColumns
from kseg.etl.telemetry.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MAX_FINDINGS = 100
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_ROWS_IN_A_PARTITION = 250_000  # an address and a fingerprint each: some megabytes
_MOST_PARTITIONS = 5_000
Kind = Literal["gap", "duplicate", "mismatch", "stranger", "count"]
Compared = Literal["rows", "addresses", "counts"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. offset is None where it is about a whole table.

    gap: in Kafka, not in the table. duplicate: more than once in the table. mismatch: other contents than in Kafka.
    stranger: in the table, but Kafka has no readable record at that offset. count: rows and ledger differ.
    """

    kind: Kind
    table: str
    topic: str | None
    partition: int | None
    offset: int | None
    message: str


@dataclass(frozen=True, slots=True)
class TableResult:
    """One table. rows: compared with Kafka; unreadable: offsets that Kafka no longer holds."""

    path: str
    compared: Compared
    rows: int
    unreadable: int
    findings: int


@dataclass(slots=True)
class VerifyReport:
    """The result of `kseg verify`. findings: the first hundred of each kind and table; tables count all."""

    job: str
    tables: list[TableResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(table.findings for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return {**asdict(self), "ok": self.ok}


def verify(job: Job, progress: Progress | None = None, *, segments: Sequence[str] = ()) -> VerifyReport:
    """Compare all of the job's tables with Kafka, or with files. Nothing is written, no lease is taken.

    segments: compare with these files, as far as they reach, instead of with the brokers.

    Raises:
        Refused: there is no ledger, or a table's state is not the one that the ledger has.
        KafkaError: the brokers are not available.
    """
    if segments:
        job = job.of_files(Segments.named(segments), brokers=False)
    with JobContext.open(job, progress, ledger="required", copy=bool(segments)) as context:
        state = context.clients.read_state()
        report = VerifyReport(job.name)
        snapshot = context.inputs.snapshot()
        for table, partitions in _landed_by_table(job, state).items():
            context.progress.phase(f"verify {table}")
            readable = {
                tp: offsets.intersect(snapshot.readable(tp, job.source.isolation_level))
                for tp, offsets in partitions.items()
                if tp in snapshot.bounds
            }
            unreadable = sum(o.length for o in partitions.values()) - sum(o.length for o in readable.values())
            compared = _compared(job, state)
            checker = _Table(context, state, table, readable)
            offsets = sum(o.length for o in readable.values())
            with context.spark.typed_errors(), _shuffles_for(context, offsets):
                found = checker.counts() if compared == "counts" else checker.rows(whole=compared == "rows")
            report.tables.append(TableResult(table, compared, checker.compared_rows, unreadable, found.total))
            report.findings += found.findings
            if unreadable:
                report.notes.append(
                    f"{table}: {unreadable} offsets are not to be had any more and could not be compared"
                )
        quarantined = sum(run.accounted.counts.dead_lettered for run in state.runs.values() if run.accounted)
        if quarantined:
            where = job.quarantine or "the quarantine table"
            report.notes.append(f"{quarantined} offsets could not be read when they landed: {where} has their bytes")
        if _compared(job, state) == "counts":
            report.notes.append("the transform changed the number of rows: rows are counted, not compared")
        return report


@contextmanager
def _shuffles_for(context: JobContext, rows: int) -> Iterator[None]:
    """Set the number of shuffle partitions for this many rows, unless the user has set it.

    Spark's default is 200 for any size, and a cached frame's are not coalesced: a small table on a small cluster would
    wait minutes for thousands of empty tasks, and a large one would have partitions beyond a task's memory.
    """
    spark = context.spark.session(delta=True)
    if _SHUFFLE_PARTITIONS in spark.conf.getAll:
        yield
        return
    partitions = min(-(-rows // _ROWS_IN_A_PARTITION), _MOST_PARTITIONS)
    spark.conf.set(_SHUFFLE_PARTITIONS, str(max(partitions, 1)))
    try:
        yield
    finally:
        if not context.spark.remote:  # that session ends with the context, and its server may be gone
            spark.conf.unset(_SHUFFLE_PARTITIONS)


def _compared(job: Job, state: JobState) -> Compared:
    if not job.transform:
        return "rows"
    accounts = [run.accounted for run in state.runs.values() if run.accounted is not None and not run.abandoned]
    same = all(account.rows_in == account.rows_out for account in accounts) and (
        state.archive.rows_in == state.archive.rows_out
    )
    return "addresses" if same and job.sink.addresses else "counts"


def _landed_by_table(job: Job, state: JobState) -> dict[str, dict[TopicPartition, OffsetSet]]:
    tables: dict[str, dict[TopicPartition, OffsetSet]] = {}
    for tp, offsets in sorted(state.landed_offsets.items()):
        if offsets:
            tables.setdefault(str(job.sink.target(tp.topic)), {})[tp] = offsets
    return tables


@dataclass(slots=True)
class _Found:
    total: int = 0
    findings: list[Finding] = field(default_factory=list)


@dataclass(slots=True)
class _Table:
    context: JobContext
    state: JobState
    table: str
    offsets: Mapping[TopicPartition, OffsetSet]
    compared_rows: int = 0

    def counts(self) -> _Found:
        """Compare the table's rows by run with the counts that the ledger has of each run."""
        from pyspark.sql import functions as f

        there = self._rows_in_table()
        counted = {row[0]: row[1] for row in there.groupBy(RUN_COLUMN).agg(f.count("*")).collect()}
        found = _Found()
        for run in self.state.runs.values():
            commit = run.landed.get(self.table)
            if commit is None or run.accounted is None or run.abandoned:
                continue
            self.compared_rows += counted.get(run.run_id, 0)
            if counted.get(run.run_id, 0) != commit.rows:
                text = f"run {run.run_id} wrote {commit.rows} rows, and {counted.get(run.run_id, 0)} are there"
                found.findings.append(Finding("count", self.table, None, None, None, text))
        found.total = len(found.findings)
        return found

    def rows(self, *, whole: bool) -> _Found:
        """Compare addresses on both sides, and with `whole` the rows as well."""
        from pyspark.sql import functions as f

        actual = self._rows_in_table()
        address = self._address(actual)
        columns = [c for c in actual.columns if c not in (RUN_COLUMN, LATE_COLUMN)] if whole else []
        expected, range_results = self._rows_in_kafka()
        left = self._fingerprints(expected, OWN_ADDRESS, columns, "expected")
        right = self._fingerprints(actual.where(self._within(address)), address, columns, "actual")
        right = right.groupBy("topic", "partition", "offset").agg(
            f.count("*").alias("times"), f.min("actual").alias("low"), f.max("actual").alias("high")
        )
        joined = left.join(right, ["topic", "partition", "offset"], "full_outer").select(
            "topic",
            "partition",
            "offset",
            f.when(f.col("times").isNull(), "gap")
            .when(f.col("expected").isNull(), "stranger")
            .when(f.col("times") > self._times_allowed(), "duplicate")
            .when((f.col("low") != f.col("expected")) | (f.col("high") != f.col("expected")), "mismatch")
            .alias("kind"),
        )
        joined = joined.persist()
        try:
            with range_results.typed_errors():
                totals = {row["kind"]: row["count"] for row in joined.groupBy("kind").count().collect()}
            self.compared_rows = sum(totals.values())
            wrong = {kind: count for kind, count in totals.items() if kind is not None}
            findings = [finding for kind in sorted(wrong) for finding in self._findings_of(joined, kind)]
        finally:
            joined.unpersist()
        found = _Found(sum(wrong.values()), findings)
        if whole and LATE_COLUMN in actual.columns:
            self._late_marks(actual.where(self._within(address)), address, found)
        return found

    def _late_marks(self, actual: DataFrame, address: AddressColumns, found: _Found) -> None:
        """`_kseg_late` is not in Kafka: it follows from a row's time and the interval of the run that landed it."""
        from pyspark.sql import functions as f

        starts = [
            (run.run_id, run.plan.late_before_ms)
            for run in self.state.runs.values()
            if run.plan.late_before_ms is not None
        ]
        due = self.context.spark.session().createDataFrame(starts, f"{RUN_COLUMN} string, due long")
        late = f.when(f.col("due").isNotNull(), f.unix_millis("timestamp") < f.col("due"))
        rows = actual.join(f.broadcast(due), RUN_COLUMN, "left")
        wrong = rows.where(~f.col(LATE_COLUMN).eqNullSafe(late)).select(*address).persist()
        try:
            found.total += wrong.count()
            text = f"{LATE_COLUMN} does not tell whether the record came after its interval"
            for row in wrong.orderBy(*address).limit(MAX_FINDINGS).collect():
                found.findings.append(Finding("mismatch", self.table, row[0], row[1], row[2], text))
        finally:
            wrong.unpersist()

    def _times_allowed(self) -> int:
        """How often each row may be there: runs of mode `append` land offsets again on purpose."""
        appended = [
            r for r in self.state.runs.values() if r.mode == "backfill-append" and r.accounted and not r.abandoned
        ]
        return 1 + len(appended)

    def _findings_of(self, joined: DataFrame, kind: Kind) -> Iterator[Finding]:
        texts = {
            "gap": "the record is in Kafka and not in the table",
            "stranger": "the row is in the table, and no such record may be read from Kafka",
            "duplicate": "the row is in the table more than once",
            "mismatch": "the row differs from the record in Kafka",
        }
        of_kind = joined.where(joined["kind"] == kind).orderBy("topic", "partition", "offset").limit(MAX_FINDINGS)
        for row in of_kind.collect():
            yield Finding(kind, self.table, row["topic"], row["partition"], row["offset"], texts[kind])

    def _rows_in_table(self) -> DataFrame:
        return self.context.targets.frame(self.table)

    def _rows_in_kafka(self) -> tuple[DataFrame, Any]:
        spark = self.context.spark.session(delta=True)
        ranges = [r for tp, offsets in self.offsets.items() for r in offsets.ranges(tp)]
        job = self.context.job
        cores = self.context.spark.workers().defaultParallelism
        tasks = read_tasks(job, self.context.clients.logs, ranges, self.state.topics, min_tasks=cores)
        gathered = NoAccumulator() if self.context.spark.remote else None
        return rows(spark, tasks, self.context.clients.task_origin, read_options(job), gathered=gathered)

    def _address(self, actual: DataFrame) -> AddressColumns:
        for address in (KSEG_ADDRESS, OWN_ADDRESS):
            if set(address) <= set(actual.columns):
                return address
        raise ConfigurationError.of("sink", f"{self.table} has no address columns", "set sink.addresses: false")

    def _within(self, address: AddressColumns) -> Column:
        """The rows of this job's ranges: the table may also have rows of other jobs."""
        from pyspark.sql import functions as f

        condition = f.lit(False)
        for tp, offsets in self.offsets.items():
            here = (f.col(address.topic) == tp.topic) & (f.col(address.partition) == tp.partition)
            there = f.lit(False)
            for start, end in offsets:
                there = there | ((f.col(address.offset) >= start) & (f.col(address.offset) < end))
            condition = condition | (here & there)
        return condition

    def _fingerprints(self, frame: DataFrame, address: AddressColumns, columns: list[str], name: str) -> DataFrame:
        from pyspark.sql import functions as f

        where = [f.col(a).alias(b) for a, b in zip(address, OWN_ADDRESS, strict=True)]
        # Spark's hashes skip nulls, so ("a", null) and (null, "a") would be equal without the columns' numbers.
        nulls = [f.col(c).isNull() for c in columns]
        values = [f.col(c) for c in columns]
        fingerprint = (
            f.struct(f.xxhash64(*values, *nulls), f.xxhash64(f.lit(1), *nulls, *values))
            if columns
            else f.struct(f.lit(0))
        )
        return frame.select(*where, fingerprint.alias(name))
